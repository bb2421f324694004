"""`--val` of `sightwords train words`: the images to judge a detector on, and how it did."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from sightwords.cli.train_progress import Talk

if TYPE_CHECKING:
    from sightwords.train.data.image_table import ImageTable
    from sightwords.words.artefact import InputSpec


def validation_table(args: argparse.Namespace, spec: InputSpec, talk: Talk) -> ImageTable:
    """The images of `--val` as the network takes them."""
    from sightwords.train.data.sources import corpus_table

    table = corpus_table(
        args.val,
        args.cache or args.out / "training",
        side_px=spec.size_px,
        resize=spec.resize,
        workers=args.workers,
        progress=talk.images,
    )
    talk.end()
    return table


def judged(table: ImageTable, ap: float, phr: float) -> dict[str, object]:
    """What the last line says of them, in %; null where no word could be judged."""
    shown = [None if math.isnan(value) else round(100 * value, 2) for value in (ap, phr)]
    return {"val_images": len(table), "ap": shown[0], "phr": shown[1]}
