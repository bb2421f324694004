"""`sightwords train`: make the parts of a captioner, or all of it."""

from __future__ import annotations

import argparse

from sightwords.cli.options import HelpFormatter
from sightwords.cli.train import all as all_stages
from sightwords.cli.train import calibration, dmsm, language, mert, places, quantise, words

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(subparsers: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb and its sub-verbs."""
    parser = subparsers.add_parser(
        "train",
        help="train a captioner on your own captioned photos",
        description="Train a whole captioner on captioned photos, or one part of it.",
        epilog="example: sightwords train all photos.csv --out my-captioner\n"
        "example: sightwords train words 'photos-{00..09}.tar' --out my-captioner/words",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in (all_stages, words, calibration, quantise, places, language, dmsm, mert):
        verb.add_parser(verbs)
