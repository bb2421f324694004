"""The command line's reference page, made from its own help texts.

`python -m sightwords.cli.reference docs/cli.md` writes it; `--check` fails if it is out of date.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from sightwords.cli.main import build_parser
from sightwords.files import write_text

HEADER = """# Command line

Made by `python -m sightwords.cli.reference docs/cli.md` from the help texts; do not edit.
Exit codes: 0 all went well, 1 something could not be done, 2 the command line is wrong.
"""


def render() -> str:
    """The page as Markdown: one heading a command, its `--help` below."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # argparse folds its help at the width of the terminal
    try:
        helps = [(parser.prog, parser.format_help().rstrip()) for parser in walk(build_parser())]
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return HEADER + "".join(f"\n## {prog}\n\n```text\n{text}\n```\n" for prog, text in helps)


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of all verbs below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from walk(child)


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(prog="python -m sightwords.cli.reference")
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.check:
        write_text(args.page, render())
        return 0
    if args.page.read_text(encoding="utf-8") == render():
        return 0
    print(f"{args.page} is out of date; run: make docs-write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
