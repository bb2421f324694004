"""`sightwords study`: people compare captions, from drawing pairs to the paper's columns."""

from __future__ import annotations

import argparse

from sightwords.cli.options import HelpFormatter
from sightwords.cli.study import (
    create,
    exclude,
    export,
    import_,
    links,
    power,
    results,
    serve,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb and its sub-verbs."""
    parser = subparsers.add_parser(
        "study",
        help="compare captions with people: draw pairs, serve judges, count votes",
        description="The paper's human study: judges see a photo and two captions and say which "
        "describes it better, or that they are the same. The study is kept in a SQLite file, or "
        "in PostgreSQL.",
        epilog="example: sightwords study create --images coco-test-00.tar --system ours.json\n"
        "example: sightwords study serve --port 8000\n"
        "example: sightwords study results",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    for verb in (create, links, serve, export, import_, exclude, results, power):
        verb.add_parser(verbs)
