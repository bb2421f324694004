"""`sightwords train places`: finer locations of words from an older ViT detector."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sightwords.cli.options import HelpFormatter

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "places",
        help="give an older ViT detector finer locations of words",
        description="Add the two outputs that locate words finely to the network of a ViT detector "
        "that was exported by an older version; newer detectors have them from the start. All "
        "words, probabilities and precisions stay exactly the same, and the calibration is kept.",
        epilog="example: sightwords train places my-detector --out my-detector-with-places",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("detector", metavar="DETECTOR", type=Path, help="a detector directory")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the detector directory to write"
    )
    parser.set_defaults(run=run_places, parser=parser)


def run_places(args: argparse.Namespace) -> int:
    """Write the detector."""
    from sightwords.train.words.places import place_detector

    folder = place_detector(args.detector, args.out)
    size = (folder / "network.onnx").stat().st_size
    print(json.dumps({"detector": str(folder), "network_bytes": size}))
    return 0
