"""`sightwords evaluate`: score captions, words and people; assemble the paper's tables."""

from __future__ import annotations

import argparse

from sightwords.cli.evaluate import baseline, captions, server, tables, words
from sightwords.cli.options import HelpFormatter


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb and its sub-verbs."""
    parser = subparsers.add_parser(
        "evaluate",
        help="score captions and words, and assemble the paper's tables",
        description="Score captions with the COCO metrics (no Java needed), score word "
        "detections, and assemble the paper's tables.",
        epilog="example: sightwords evaluate captions results.json --references coco-test-00.tar",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="what to evaluate", metavar="WHAT", required=True)
    for verb in (captions, words, baseline, tables, server):
        verb.add_parser(verbs)
