"""What the command line writes: data on stdout, messages on stderr, whatever a name may hold.

Linux lets a file's name be any bytes, and hold a line break.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sightwords.errors import InputError, on_one_line
from sightwords.files import atomic_path


def say(text: object) -> None:
    """Print one message; control characters in it are escaped."""
    tell(f"sightwords: {on_one_line(str(text))}\n")


def tell(text: str) -> None:
    """Print text as it is. The work goes on when nobody reads stderr any more."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # What could not be written would be tried again at the end, and fail again.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class OneLine(logging.Formatter):
    """A log message on one line; a traceback that comes with it stays as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Escape control characters."""
        record.message = on_one_line(record.message)
        return super().formatMessage(record)


def let_any_name_out() -> None:
    """Write names that are not text as the bytes that came in."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def json_line(record: Mapping[str, object], name: str) -> str:
    r"""A record as JSON in UTF-8; where the name is not text, its bytes are escaped.

    >>> json_line({"image": "é.jpg"}, "é.jpg"), json_line({"image": "\udce9"}, "\udce9")
    ('{"image": "é.jpg"}', '{"image": "\\udce9"}')
    """
    odd = any("\ud800" <= letter <= "\udfff" for letter in name)
    return json.dumps(record, ensure_ascii=odd)


def make_folder(folder: Path, option: str) -> None:
    """Make the folder of an option, before work is done that could not be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{option} {folder}: cannot be made ({error.strerror}); name another folder"
        ) from error


@contextmanager
def picture_path(path: Path) -> Iterator[Path]:
    """`atomic_path` for a picture: if it cannot be written, the error names the picture."""
    try:
        with atomic_path(path) as temporary:
            yield temporary
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); free some space, or name "
            "another folder"
        ) from error
