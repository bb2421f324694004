"""`sightwords study exclude`: leave out a judge."""

from __future__ import annotations

import argparse

from sightwords.cli.options import HelpFormatter, at_least
from sightwords.cli.study.opened import add_study, opened, tell
from sightwords.errors import StudyError


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "exclude",
        help="leave out a judge",
        description="Leave out a judge. The votes are kept but no longer counted; their pairs are "
        "judged again.",
        epilog='example: sightwords study exclude 17 --reason "answered in one second each"',
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "judge", type=at_least(1), metavar="NUMBER", help="as 'study links' prints it"
    )
    add_study(parser)
    parser.add_argument("--reason", default="excluded by hand", help="counted in the results")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Leave out a judge by hand."""
    with opened(args) as store:
        from sightwords.study import judging
        from sightwords.study.store import read_judges

        with store.write() as connection:
            found = [judge for judge in read_judges(connection) if judge.id == args.judge]
            if not found:
                raise StudyError(f"there is no judge {args.judge}; see: sightwords study links")
            reopened = judging.exclude(connection, found[0], args.reason)
    tell(f"judge {args.judge} is left out; {reopened} votes are open again")
    return 0
