"""`sightwords VERB ...`: reads the command line, runs one verb, turns errors into one line.

Exit codes: 0 all went well, 1 something could not be done (the reason is on stderr), 2 the command
line itself is wrong. stdout is data, stderr is talk.
"""

from __future__ import annotations

import argparse
import difflib
import io
import logging
import os
import select
import sys
from collections.abc import Sequence

from sightwords._version import __version__
from sightwords.cli import (
    batch,
    bundle,
    caption,
    completion,
    data,
    evaluate,
    generate,
    rank,
    serve,
    study,
    train,
    words,
)
from sightwords.cli.options import HelpFormatter
from sightwords.cli.output import OneLine, say
from sightwords.errors import SightwordsError, on_one_line

VERBS = (
    caption,
    batch,
    serve,
    words,
    generate,
    rank,
    bundle,
    data,
    evaluate,
    study,
    train,
    completion,
)
"""In the order of `--help`."""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="sightwords",
        description="Captions you can check: every word has a probability, a precision and a "
        "location in the photo.",
        epilog="example: sightwords caption --samples\n"
        "example: sightwords batch holiday --out captions.jsonl --resume\n"
        "example: sightwords train all photos.csv --set data.base=default --out my-captioner",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sightwords {__version__}")
    parser.add_argument(
        "--verbose", action="store_true", help="print log messages on stderr (before the verb)"
    )
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        verb.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.parser.error(on_one_line(_unknown(unknown, parser, args)))
    _refuse_nul(args)
    _write_utf8()
    talk = logging.StreamHandler(sys.stderr)
    talk.addFilter(_says_nothing_itself)
    talk.setFormatter(OneLine("sightwords: %(message)s"))
    logging.basicConfig(level=logging.INFO if args.verbose else logging.WARNING, handlers=[talk])
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except SightwordsError as error:
        say(f"error: {error}")
        return 1
    except OSError as error:  # a full disk, a folder that may not be written
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return code


def _nobody_reads() -> bool:
    """Whether the reader of stdout (head, less) has seen enough; other pipes may break as well."""
    try:
        sys.stdout.flush()
        if not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
    except BrokenPipeError:
        return True
    except (OSError, ValueError):
        return False


def _refuse_nul(args: argparse.Namespace) -> None:
    """No name of a file holds a NUL, and the system's functions end at it or raise."""
    for name, value in vars(args).items():
        texts = value if isinstance(value, list) else [value]
        if any("\0" in str(text) for text in texts if isinstance(text, str | os.PathLike)):
            args.parser.error(f"{name.replace('_', '-')}: holds a NUL character; check the name")


def _unknown(given: list[str], whole: argparse.ArgumentParser, args: argparse.Namespace) -> str:
    """What is wrong with arguments that no option takes, and what may have been meant."""
    more = f" and {len(given) - 3:,} more" if len(given) > 3 else ""
    said = f"unrecognized arguments: {' '.join(given[:3])}{more}"
    name = given[0].partition("=")[0]
    key = name.removeprefix("--").replace("-", "_")
    for setting in vars(args).get("settings", ()):
        if setting.rpartition(".")[2] == key:
            return f"{said}; this is a setting: --set {setting}=VALUE"
    if name in whole._option_string_actions:
        return f"{said}; {name} goes before the verb"
    if close := difflib.get_close_matches(name, args.parser._option_string_actions, n=1):
        return f"{said}; did you mean {close[0]}?"
    return said


def _says_nothing_itself(record: logging.LogRecord) -> bool:
    """Leave out what a library with a handler of its own has printed already (the hub's)."""
    return not logging.getLogger(record.name.partition(".")[0]).handlers


def _write_utf8() -> None:
    """Data is UTF-8 whatever the locale; what a terminal cannot show becomes a question mark."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.encoding.lower() not in {"utf-8", "utf8"}:
        if out.isatty():
            out.reconfigure(errors="replace")
        else:
            out.reconfigure(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
