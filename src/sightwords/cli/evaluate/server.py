"""`sightwords evaluate server`: a results file for the COCO evaluation server."""

from __future__ import annotations

import argparse
from pathlib import Path

from sightwords.cli.evaluate.results import writing
from sightwords.cli.options import HelpFormatter


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "server",
        help="write a results file that the COCO evaluation server accepts",
        description="Write a results file that the COCO evaluation server accepts.",
        epilog="example: sightwords evaluate server val.json --images captions_val2014.json "
        "--out captions_val2014_mine_results.json\n"
        "example: sightwords evaluate server test.jsonl --images image_info_test2014.json "
        "--out captions_test2014_mine_results.json --zip results.zip",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("results", metavar="RESULTS", help="captions of every image of the split")
    parser.add_argument(
        "--images",
        metavar="LIST",
        required=True,
        help="the split: COCO JSON with 'images', or text with one id or file name per line",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        required=True,
        type=Path,
        help="captions_val2014_NAME_results.json or captions_test2014_NAME_results.json",
    )
    parser.add_argument(
        "--zip",
        metavar="FILE",
        type=Path,
        help="pack it with the other split's file, found beside it, into results.zip",
    )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Write and check one file of a submission, and the zip if asked for."""
    from sightwords.evaluate.server import other_split, write_submission, write_zip

    with writing(args.out):
        print(write_submission(args.results, args.images, args.out))
    if args.zip:
        with writing(args.zip):
            print(write_zip([args.out, other_split(args.out)], args.zip))
    return 0
