"""`sightwords train words --proposals FILE`: the early system, words in boxes (section 6.3)."""

from __future__ import annotations

import argparse
import dataclasses
import json

from sightwords.cli.train_progress import Talk, step_progress
from sightwords.cli.train_validation import judged, validation_table
from sightwords.config import Config


def with_boxes(config: Config) -> Config:
    """The settings for boxes: images are not cropped, mirrored or lit under them."""
    words = dataclasses.replace(
        config.words, regions="proposals", smallest_crop=1.0, flip=False, jitter=0.0
    )
    return dataclasses.replace(config, words=words)


def run_boxes(args: argparse.Namespace, config: Config, *, device: str) -> int:
    """Train, write the detector, and say how good it is."""
    from sightwords.text.vocabulary_file import load_vocabulary
    from sightwords.train.words.boxes.run import train_box_detector
    from sightwords.words.proposals import read_proposals

    talk = Talk()
    proposals = read_proposals(args.proposals, limit=config.words.proposals)
    network, vocabulary, export = train_box_detector(
        args.train,
        proposals,
        config,
        args.out,
        weights=args.weights,
        vocabulary=load_vocabulary(args.vocabulary) if args.vocabulary else None,
        device=device,
        cache=args.cache,
        workers=args.workers,
        hold_out=args.hold_out,
        table_progress=talk.images,
        progress=step_progress(talk, args.tensorboard),
    )
    talk.end()
    row: dict[str, object] = {
        "detector": str(args.out),
        "words": len(vocabulary),
        "network_bytes": export.network_bytes,
        "difference_from_torch": export.difference,
    }
    if args.val:
        from sightwords.train.words.boxes.run import validate_boxes

        table = validation_table(args, network.backbone.input, talk)
        limit = config.words.proposals
        figures = validate_boxes(network, table, proposals, vocabulary, limit=limit, device=device)
        row |= judged(table, *figures)
    print(json.dumps(row))
    return 0
