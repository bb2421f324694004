"""Errors that a client can get: a status, a code and a message.

This module does not import FastAPI: worker processes use it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sightwords.errors import ImageError, InputError, SandboxError, SightwordsError, VocabularyError


@dataclass(frozen=True, slots=True)
class ApiError:
    """Sent to the client instead of a result."""

    status: int
    code: str
    """For programs; never changes."""
    message: str
    """For people: what was found, what was expected, what to do next."""
    retry_after_seconds: int | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"error": {"code": self.code, "message": self.message}}


class RequestRefusedError(Exception):
    """Raised while a request is handled; the client gets `error`."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


def invalid(message: str) -> RequestRefusedError:
    """A value or a field that the server does not accept (422)."""
    return RequestRefusedError(ApiError(422, "invalid", message))


BUSY = ApiError(503, "busy", "the server is busy; try again in a moment", 2)
TOO_LATE = ApiError(504, "too_late", "the answer took too long; try again, or send fewer photos")
INTERNAL = ApiError(500, "internal", "internal server error; the server's log has the details")
RESTARTING = ApiError(
    503, "restarting", "the worker process crashed and is restarting; try again in a moment", 5
)
NO_WORKER = ApiError(
    503, "no_worker", "no worker process is ready; try again, or see the server's log", 5
)
WORKER_DIED = ApiError(
    500,
    "worker_died",
    "the worker process crashed every time it tried this photo; do not send it again",
)


def api_error(error: SightwordsError) -> ApiError:
    """What a client is told about an error of the library.

    >>> api_error(ImageError("cat.jpg: is a PDF")).code
    'unreadable_image'
    """
    if isinstance(error, ImageError):
        return ApiError(422, "unreadable_image", str(error))
    if isinstance(error, VocabularyError):
        return ApiError(409, "unknown_word", str(error))
    if isinstance(error, InputError):
        return ApiError(409, "conflict", str(error))
    if isinstance(error, SandboxError):
        return NO_WORKER
    return INTERNAL
