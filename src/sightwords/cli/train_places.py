"""`sightwords train places`: a ViT detector that tells more finely where a word is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sightwords.cli.help import HelpFormatter

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "places",
        help="let an older ViT detector tell finely where a word is",
        description="Add to a ViT detector's network the two outputs that tell where a word is, "
        "which detectors exported since have from the start. All words, their probabilities and "
        "precisions stay the same to the bit; the calibration is kept.",
        epilog="example: sightwords train places my-detector --out my-detector-with-places",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("detector", metavar="DETECTOR_DIR", type=Path)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.set_defaults(run=run_places, parser=parser)


def run_places(args: argparse.Namespace) -> int:
    """Write the detector."""
    from sightwords.train.words.places import place_detector

    folder = place_detector(args.detector, args.out)
    size = (folder / "network.onnx").stat().st_size
    print(json.dumps({"detector": str(folder), "network_bytes": size}))
    return 0
