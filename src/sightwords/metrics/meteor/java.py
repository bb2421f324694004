"""METEOR 1.5 by its own jar, for comparison: cannot hang, and leaves no process behind.

The jar is the one in pycocoevalcap's wheel, asked as pycocoevalcap asks it (`-stdio -l en -norm`):
a line `SCORE ||| reference ||| ... ||| candidate` an image is answered by a line of statistics;
a line `EVAL ||| statistics ||| ...` by a score for each and one for all. pycocoevalcap waits for
every answer before the next question, without a limit. Here a thread writes all questions while
the answers are read, Java's messages go to a file, and a timer ends Java at the time limit.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import IO, NoReturn

import numpy as np

from sightwords.errors import ExternalToolError
from sightwords.metrics.meteor.data import meteor_files
from sightwords.metrics.meteor.text import sentence_text
from sightwords.metrics.score import Comparison, Score, signature

_OPTIONS = ("-Xmx2G", "-Duser.language=en", "-jar", "meteor-1.5.jar")
_ARGUMENTS = ("-", "-", "-stdio", "-l", "en", "-norm")
_TAIL_CHARACTERS = 500


def meteor_java(pairs: Comparison, *, timeout_seconds: float = 600.0) -> Score:
    """METEOR of a corpus and of each image, as `meteor` gives it, but from the jar.

    Raises ExternalToolError if Java is not there, fails, or takes longer than the limit.
    """
    java = shutil.which("java")
    if java is None:
        raise ExternalToolError(
            "meteor_java needs Java, and no `java` is on the PATH; install a Java runtime, "
            "or use `meteor`, which gives the same scores without it"
        )
    command = [java, *_OPTIONS, *_ARGUMENTS]
    folder = meteor_files().jar.parent
    with Conversation(command, folder=folder, timeout_seconds=timeout_seconds) as jar:
        statistics = jar.ask(_questions(pairs), answers=len(pairs.ids))
        scores = jar.ask([" ||| ".join(("EVAL", *statistics))], answers=len(pairs.ids) + 1)
    *per_image, value = (_number(answer) for answer in scores)
    return Score(
        metric="meteor",
        value=value,
        per_image=np.array(per_image, dtype=np.float64),
        signature=signature("meteor", pairs, variant="1.5", lang="en", norm="yes", engine="java"),
    )


class Conversation:
    """A program that answers lines with lines; it is ended when the `with` block is left."""

    def __init__(self, command: Sequence[str], *, folder: Path, timeout_seconds: float) -> None:
        self._name = Path(command[0]).name
        self._timeout_seconds = timeout_seconds
        self._expired = False
        self._writers: list[threading.Thread] = []
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._messages,
                start_new_session=True,  # `java` may be a script that starts Java: both shall end
            )
        except OSError as error:
            self._messages.close()
            raise ExternalToolError(f"{command[0]} cannot be started: {error}") from error
        self._timer = threading.Timer(timeout_seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Conversation:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._end()
        for writer in self._writers:
            writer.join()  # its pipe is broken now, so it ends
        for file in (self._process.stdin, self._process.stdout, self._messages):
            with suppress(OSError):
                if file is not None:
                    file.close()

    def ask(self, lines: Sequence[str], *, answers: int) -> list[str]:
        """Write lines and, at the same time, read as many lines as there will be answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        writer = threading.Thread(target=_write, args=(self._process.stdin, lines), daemon=True)
        self._writers.append(writer)
        writer.start()
        read = _read(self._process.stdout, answers)
        if len(read) < answers:
            self._fail(f"after {len(read)} of {answers} answers")
        return read

    def _fail(self, where: str) -> NoReturn:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._end()
        if self._expired:
            what = (
                f"was ended {where}, at the limit of {self._timeout_seconds:g} seconds; allow more"
            )
        else:
            what = f"ended {where} with status {self._process.returncode}"
        raise ExternalToolError(f"{self._name} {what}. Its last messages: {self._tail()}")

    def _expire(self) -> None:
        self._expired = True
        self._kill()

    def _end(self) -> None:
        self._kill()
        self._process.wait()

    def _kill(self) -> None:
        if sys.platform == "win32":
            self._process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):  # it has ended already
                os.killpg(self._process.pid, signal.SIGKILL)

    def _tail(self) -> str:
        self._messages.seek(0)
        text = self._messages.read().decode("utf-8", "replace").strip()
        return text[-_TAIL_CHARACTERS:] or "none"


def _questions(pairs: Comparison) -> list[str]:
    return [
        " ||| ".join(("SCORE", *map(sentence_text, references), sentence_text(candidate)))
        for candidate, references in zip(pairs.candidates, pairs.references, strict=True)
    ]


def _write(pipe: IO[bytes], lines: Sequence[str]) -> None:
    with suppress(OSError, ValueError):  # the reader finds out that the program has ended
        for line in lines:
            pipe.write(f"{line}\n".encode("utf-8", "replace"))
        pipe.flush()


def _read(pipe: IO[bytes], count: int) -> list[str]:
    read: list[str] = []
    while len(read) < count:
        line = pipe.readline()
        if not line.endswith(b"\n"):
            break
        read.append(line.decode("utf-8", "replace").strip())
    return read


def _number(answer: str) -> float:
    try:
        return float(answer)
    except ValueError:
        raise ExternalToolError(
            f"METEOR's jar answered {answer[:200]!r}, expected a number; "
            "use `meteor`, which needs no jar"
        ) from None
