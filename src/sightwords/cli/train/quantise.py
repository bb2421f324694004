"""`sightwords train quantise`: a smaller, faster form of a detector."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sightwords.cli.options import HelpFormatter

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "quantise",
        help="write a smaller, faster form of a detector",
        description="Write a smaller form of a detector: int8 arithmetic, or float16 weights. "
        "Calibrate the new detector: its scores differ a little.",
        epilog="example: sightwords train quantise my-detector --out my-detector-int8\n"
        "example: sightwords train quantise my-cnn 'photos-00.tar' --form int8-static "
        "--out my-cnn-int8",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("detector", metavar="DETECTOR", type=Path, help="a detector directory")
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="*",
        help="photos of the usual kind, for int8-static; 64 are used",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the detector directory to write"
    )
    parser.add_argument(
        "--form", choices=("int8", "int8-static", "float16"), default="int8",
        help="int8 for ViTs, int8-static for convolutional networks (default: int8)",
    )  # fmt: skip
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Write the other form."""
    from sightwords.corpus import open_corpus
    from sightwords.train.words.quantise import quantise_detector

    if args.form == "int8-static" and not args.sources:
        args.parser.error("--form int8-static needs photos: give SOURCE")
    corpus = open_corpus(args.sources, need_captions=False) if args.sources else ()
    samples = (example.image for example in corpus if example.image is not None)
    export = quantise_detector(args.detector, args.out, form=args.form, samples=samples)
    row = {
        "detector": str(args.out),
        "network_bytes": export.network_bytes,
        "largest_difference": export.difference,
    }
    print(json.dumps(row))
    return 0
