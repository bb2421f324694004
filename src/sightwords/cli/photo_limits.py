"""`--max-seconds` and `--max-memory`: what one photo may cost; of `caption`, `batch` and others."""

from __future__ import annotations

import argparse
import math

from sightwords.images.limits import MAX_MEGABYTES, MAX_SECONDS, ImageLimits, limits_of


def add_photo_limits(parser: argparse.ArgumentParser) -> None:
    """Register both options."""
    parser.add_argument(
        "--max-seconds",
        type=_positive,
        default=MAX_SECONDS,
        metavar="S",
        help="time limit for one photo (default: %(default)g); one that takes longer is an error",
    )
    parser.add_argument(
        "--max-memory",
        type=_positive,
        default=MAX_MEGABYTES,
        metavar="MB",
        help="memory limit for decoding one photo (default: %(default)g MB)",
    )


def photo_limits(args: argparse.Namespace) -> ImageLimits:
    """What was asked for."""
    return limits_of(args.max_seconds, args.max_memory)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
