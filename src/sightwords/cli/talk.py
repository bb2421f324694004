"""What the command line says on stderr: one line per message, whatever a name may hold."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

from sightwords.errors import on_one_line


def say(text: object) -> None:
    """Print one message; control characters in it are escaped."""
    tell(f"sightwords: {on_one_line(str(text))}\n")


def tell(text: str) -> None:
    """Print text as it is. A reader of stderr that has gone must not stop the work."""
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
