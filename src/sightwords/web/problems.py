"""What a client is told when something cannot be done: a status, a code, a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sightwords.errors import ImageError, InputError, SandboxError, SightwordsError, VocabularyError


@dataclass(frozen=True, slots=True)
class Problem:
    """An answer that is not the one that was asked for."""

    status: int
    code: str
    """For programs; stays as it is."""
    message: str
    """For people: what was found, what was expected, what to do next."""
    retry_after_seconds: int | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"error": {"code": self.code, "message": self.message}}


class Refused(Exception):  # noqa: N818 - not a fault of ours
    """Raised on the way to an answer; the client gets the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


BUSY = Problem(503, "busy", "the server has enough to do; try again in a moment", 2)
TOO_LATE = Problem(504, "too_late", "it took too long; try again, or send fewer photos")
BROKEN = Problem(500, "internal", "the server failed on this request; its log says why")
RESTARTING = Problem(
    503, "restarting", "the worker process was lost and starts again; try again in a moment", 5
)
NO_WORKER = Problem(503, "no_worker", "no worker process can make a caption now; see the log", 5)
DIED = Problem(
    500,
    "worker_died",
    "the worker process died each time it tried this photo; do not send it again",
)


def problem_of(error: SightwordsError) -> Problem:
    """Of an error of the library.

    >>> problem_of(ImageError("cat.jpg: is a PDF")).code
    'unreadable_image'
    """
    if isinstance(error, ImageError):
        return Problem(422, "unreadable_image", str(error))
    if isinstance(error, VocabularyError):
        return Problem(409, "unknown_word", str(error))
    if isinstance(error, InputError):
        return Problem(409, "conflict", str(error))
    if isinstance(error, SandboxError):
        return NO_WORKER
    return BROKEN
