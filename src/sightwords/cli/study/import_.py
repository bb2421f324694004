"""`sightwords study import`: votes from a platform."""

from __future__ import annotations

import argparse
import time

from sightwords.cli.options import HelpFormatter
from sightwords.cli.study.opened import add_study, opened, tell


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "import",
        help="read votes from a platform's file",
        description="Read votes from a platform's file. Reading a file twice changes nothing.",
        epilog="example: sightwords study import Batch_123_results.csv --from mturk\n"
        "example: sightwords study import project-1.json --from label-studio\n"
        "example: sightwords study import votes.csv --from votes",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the platform's file")
    add_study(parser)
    parser.add_argument(
        "--from",
        dest="platform",
        choices=("mturk", "label-studio", "votes"),
        required=True,
        help="mturk: results CSV, or JSONL of the API's assignments; label-studio: JSON export; "
        "votes: CSV or JSONL with image, judge and answer (better, same, worse)",
    )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Read the votes, and print how many were written."""
    with opened(args) as store:
        from sightwords.study.platforms import seats
        from sightwords.study.platforms.label_studio import read_label_studio
        from sightwords.study.platforms.mturk import read_turk
        from sightwords.study.platforms.votes_file import read_votes

        read = seats.Imported()
        now = time.time()
        if args.platform == "votes":
            done = seats.import_votes(store, read_votes(args.file), now=now)
        else:
            reader = {"mturk": read_turk, "label-studio": read_label_studio}[args.platform]
            done = seats.import_records(store, reader(args.file, read), now=now)
        done.skipped += read.skipped
    tell(
        f"{done.written} votes written ({done.surplus} of them not counted), {done.repeated} were "
        f"there already, {done.conflicting} differ from the vote that is there, {done.same_judge} "
        "by a judge who had seen the pair before"
    )
    for reason, count in sorted(done.skipped.items()):
        tell(f"{count} left out: {reason}")
    return 0
