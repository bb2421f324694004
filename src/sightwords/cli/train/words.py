"""`sightwords train words`: captioned photos -> a word detector (section 3)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import HelpFormatter, at_least
from sightwords.cli.train.progress import ProgressLine, need_torch, step_progress
from sightwords.cli.train.settings import (
    add_settings,
    device_of,
    print_settings,
    read_settings,
    sources_of,
)

if TYPE_CHECKING:
    from sightwords.config import Config, Settings
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.train.data.image_table import ImageTable
    from sightwords.train.words.export import Export
    from sightwords.train.words.network import WordNetwork

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "words",
        help="train a word detector",
        description="Train a detector of the most frequent words of the captions. The same command "
        "resumes where a stopped run ended. Under torchrun each process takes its share.",
        epilog="example: sightwords train words 'coco-train-*.tar' --hold-out 4000 "
        "--set data.weights=facebook/dinov2-small --out my-detector\n"
        "example: torchrun --nproc-per-node 2 -m sightwords train words photos.csv "
        "--config mine.toml --out my-detector\n"
        "example: sightwords train words 's3://mine/photos-{000..999}.tar' --set run.stream=true "
        "--out my-detector",
        formatter_class=HelpFormatter,
    )
    add_settings(parser, "words")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the detector directory to write"
    )
    parser.add_argument("--val", nargs="+", metavar="SOURCE", help="print AP and PHR on these")
    parser.add_argument(
        "--vocabulary", type=Path, metavar="FILE", help="words to use instead of counting"
    )
    add_hold_out(parser, "leave N images, chosen by their ids, for train calibration (default: 0)")
    parser.set_defaults(run=run, parser=parser)


def add_hold_out(parser: argparse.ArgumentParser, text: str) -> None:
    """Register `--hold-out`."""
    parser.add_argument("--hold-out", type=at_least(0), default=0, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    """Train, write the detector, and print how good it is."""
    settings = read_settings(args)
    if settings.run.proposals:
        settings = dataclasses.replace(settings, config=_with_boxes(settings.config))
    if args.print_config:
        return print_settings(settings)
    sources = sources_of(args, settings)
    _check(args, settings)
    need_torch()
    is_first = os.environ.get("RANK", "0") == "0"
    line = ProgressLine() if is_first else None
    network, vocabulary, export = _train(args, settings, sources, line)
    if line is None or export is None:
        return 0
    line.end()
    row: dict[str, object] = {
        "detector": str(args.out),
        "words": len(vocabulary),
        "network_bytes": export.network_bytes,
        "difference_from_torch": export.difference,
    }
    if args.val:
        row |= _validated(args, settings, network, vocabulary, line)
    print(json.dumps(row))
    return 0


def _check(args: argparse.Namespace, settings: Settings) -> None:
    """Settings that contradict each other."""
    run = settings.run
    if settings.config.words.regions == "proposals" and not run.proposals:
        args.parser.error('words.regions is "proposals": give --set run.proposals=FILE')
    if run.proposals and run.stream:
        args.parser.error("run.proposals needs decoded images on disk: leave out run.stream")
    if run.keep_decoded and not run.stream:
        args.parser.error(
            "run.keep_decoded needs run.stream; without it all decoded images are kept in run.work"
        )


def _train(
    args: argparse.Namespace, settings: Settings, sources: list[str], line: ProgressLine | None
) -> tuple[WordNetwork, Vocabulary, Export | None]:
    from sightwords.train.words.run import train_detector
    from sightwords.words.proposals import read_proposals

    run, limit = settings.run, settings.config.words.proposals
    return train_detector(
        sources,
        settings.config,
        args.out,
        weights=_weights(settings),
        vocabulary=_vocabulary(args),
        device=device_of(settings),
        cache=run.work or None,
        workers=run.workers or None,
        hold_out=args.hold_out,
        stream=run.stream,
        keep=run.keep_decoded or None,
        proposals=read_proposals(run.proposals, limit=limit) if run.proposals else None,
        compile_network=run.compile,
        table_progress=line.images if line else None,
        progress=step_progress(line, run.tensorboard) if line else None,
    )


def _with_boxes(config: Config) -> Config:
    """The settings for boxes: images are not cropped, mirrored or lit under them."""
    words = dataclasses.replace(
        config.words, regions="proposals", smallest_crop=1.0, flip=False, jitter=0.0
    )
    return dataclasses.replace(config, words=words)


def _weights(settings: Settings) -> str | None:
    from sightwords.train.recipe import RANDOM

    found: str = settings.more["data"].weights
    return None if found in ("", RANDOM) else found


def _vocabulary(args: argparse.Namespace) -> Vocabulary | None:
    from sightwords.text.vocabulary_file import load_vocabulary

    return load_vocabulary(args.vocabulary) if args.vocabulary else None


def _validated(
    args: argparse.Namespace,
    settings: Settings,
    network: WordNetwork,
    vocabulary: Vocabulary,
    line: ProgressLine,
) -> dict[str, object]:
    """AP and PHR on the images of `--val`, in %; null where no word could be judged."""
    table = _validation_table(args, settings, network, line)
    if settings.run.proposals:
        from sightwords.train.words.boxes.network import BoxNetwork
        from sightwords.train.words.boxes.training import validate_boxes
        from sightwords.words.proposals import read_proposals

        assert isinstance(network, BoxNetwork)
        limit = settings.config.words.proposals
        ap, phr = validate_boxes(
            network, table, read_proposals(settings.run.proposals, limit=limit), vocabulary,
            limit=limit, device=device_of(settings),
        )  # fmt: skip
    else:
        from sightwords.train.words.validation import validate

        means = validate(network, table, vocabulary, device=device_of(settings))
        ap, phr = means.ap, means.phr
    shown = [None if math.isnan(value) else round(100 * value, 2) for value in (ap, phr)]
    return {"val_images": len(table), "ap": shown[0], "phr": shown[1]}


def _validation_table(
    args: argparse.Namespace, settings: Settings, network: WordNetwork, line: ProgressLine
) -> ImageTable:
    from sightwords.train.data.sources import corpus_table

    spec = network.backbone.input
    table = corpus_table(
        args.val,
        settings.run.work or args.out / "training",
        side_px=spec.size_px,
        resize=spec.resize,
        workers=settings.run.workers or None,
        progress=line.images,
    )
    line.end()
    return table
