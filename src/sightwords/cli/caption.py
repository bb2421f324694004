"""`sightwords caption PHOTOGRAPH...`: one line a photograph."""

from __future__ import annotations

import argparse
import sys

from sightwords.cli.help import HelpFormatter
from sightwords.errors import ImageError
from sightwords.pipeline import load
from sightwords.samples import sample_paths


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "caption",
        help="write a caption for each photograph",
        description="Write a caption for each photograph. This version carries no trained model "
        "yet and says so instead of captioning.",
        epilog="example: sightwords caption holiday/*.jpg\nexample: sightwords caption --samples",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("photographs", metavar="PHOTOGRAPH", nargs="*", help="an image file")
    parser.add_argument(
        "--samples", action="store_true", help="caption the photographs inside the package"
    )
    parser.add_argument("--bundle", metavar="DIR", help="a model of your own")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Caption every photograph; one that cannot be read is named and the others go on."""
    photographs = [*args.photographs, *(map(str, sample_paths()) if args.samples else ())]
    if not photographs:
        args.parser.error("name at least one photograph, or --samples")
    captioner = load(args.bundle)
    failed = 0
    for photograph in photographs:
        try:
            caption = captioner(photograph)
        except ImageError as error:
            print(f"sightwords: error: {error}", file=sys.stderr)
            failed += 1
        else:
            print(f"{photograph}: {caption.text} ({caption.confidence:.2f})")
    return 1 if failed else 0
