"""`sightwords train calibration`: held-out photos -> the precision of each score (section 3.2)."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sightwords.cli.options import HelpFormatter, add_set, read_set
from sightwords.cli.train.progress import ProgressLine
from sightwords.cli.train.words import add_hold_out
from sightwords.config.check import check

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


@dataclass(frozen=True)
class CalibrationSettings:
    """What few calibrations change."""

    method: Literal["shrunk", "paper"] = "shrunk"
    """How curves are fitted: shrunk or paper."""
    proposals: str = ""
    """Boxes of every image, for a detector that was trained on boxes."""
    threads: int = 0
    """CPU threads; 0: all."""

    def __post_init__(self) -> None:
        check(self, "threads", self.threads >= 0, "at least 0")


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "calibration",
        help="fit the precision of a detector's scores on held-out photos",
        description="Fit the precision of each word's scores on captioned photos that the "
        "detector was not trained on, and write calibration.json into its directory.",
        epilog="example: sightwords train calibration my-detector 'coco-train-*.tar' "
        "--hold-out 4000",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("detector", metavar="DETECTOR", type=Path, help="a detector directory")
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="captioned images")
    add_hold_out(parser, "only the N images that train words --hold-out N left (default: all)")
    add_set(parser, CalibrationSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Fit and save the calibration."""
    from sightwords.train.data.sources import held_out_examples
    from sightwords.train.words.calibration import calibrate_detector
    from sightwords.words.proposals import read_proposals

    settings = read_set(CalibrationSettings, args)
    line = ProgressLine()
    calibration = calibrate_detector(
        args.detector,
        held_out_examples(args.sources, hold_out=args.hold_out),
        method=settings.method,
        threads=settings.threads or None,
        proposals=read_proposals(settings.proposals) if settings.proposals else None,
        progress=line.images,
    )
    line.end()
    print(json.dumps({"detector": str(args.detector), "images": calibration.images}))
    return 0
