"""`sightwords study links`: one link per judge."""

from __future__ import annotations

import argparse

from sightwords.cli.options import HelpFormatter, at_least
from sightwords.cli.study.opened import add_study, opened


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "links",
        help="print one link per judge, with the judge's progress",
        description="Print one link per judge, as CSV with the judge's progress.",
        epilog="example: sightwords study links --base-url https://study.example.org\n"
        "example: sightwords study links --add 20",
        formatter_class=HelpFormatter,
    )
    add_study(parser)
    parser.add_argument(
        "--base-url", default="http://127.0.0.1:8000", metavar="URL", help="where judges reach it"
    )
    parser.add_argument(
        "--add", type=at_least(0), default=0, metavar="N", help="make N more judges first"
    )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Print links and progress."""
    from sightwords.evaluate.grid import csv_text

    with opened(args) as store:
        from sightwords.study import judging
        from sightwords.study.platforms.seats import SEAT
        from sightwords.study.store import read_judges

        with store.write() as connection:
            judging.add_judges(connection, args.add)
            rows = [
                (
                    judge.id,
                    f"{args.base_url.rstrip('/')}/j/{judge.token}" if not judge.name else "",
                    judge.name,
                    judging.answered(connection, judge.id),
                    judge.excluded,
                )
                for judge in read_judges(connection)
                if judge.name != SEAT
            ]
    print(csv_text([("judge", "link", "name", "answered", "excluded"), *rows]), end="")
    return 0
