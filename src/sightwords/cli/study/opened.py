"""What the sub-verbs of `sightwords study` share: the study itself, and messages."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sightwords.errors import require

if TYPE_CHECKING:  # the study extra is loaded when a command runs, not for --help
    from sightwords.study.store import Store


def add_study(parser: argparse.ArgumentParser) -> None:
    """Register STUDY."""
    parser.add_argument(
        "study",
        metavar="STUDY",
        nargs="?",
        default=os.environ.get("SIGHTWORDS_STUDY", "study.db"),
        help="a file (SQLite) or a URL, postgresql://USER@HOST/DATABASE (default: "
        "$SIGHTWORDS_STUDY, or study.db)",
    )


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[Store]:
    """The study, closed at the end."""
    need_extra()
    from sightwords.study.store import open_store

    store = open_store(args.study)
    try:
        yield store
    finally:
        store.close()


def need_extra() -> None:
    """Name the command that installs what is missing."""
    require("sqlalchemy", extra="study", purpose="a study's database")


def tell(text: str) -> None:
    """Print one message on stderr."""
    print(text, file=sys.stderr)
