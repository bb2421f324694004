"""`sightwords train dmsm`: captioned photos -> a similarity model (section 5.1)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path

from sightwords.cli.options import HelpFormatter
from sightwords.cli.train.progress import ProgressLine, need_torch
from sightwords.cli.train.settings import (
    add_settings,
    device_of,
    print_settings,
    read_settings,
    sources_of,
)

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "dmsm",
        help="train a similarity of photos and sentences",
        description="Train the deep multimodal similarity model on captioned photos, seen through "
        "a detector. The same command resumes where a stopped run ended. Under torchrun each "
        "process takes its share.",
        epilog="example: sightwords train dmsm 'mine-*.tar' --detector my-captioner/words "
        "--val mine-val.tar --out my-captioner/dmsm\n"
        "example: torchrun --nproc-per-node 2 -m sightwords train dmsm 'mine-*.tar' "
        "--detector my-captioner/words --out my-captioner/dmsm\n"
        "example: sightwords rank dog.jpg --sentences sentences.txt --parts my-captioner",
        formatter_class=HelpFormatter,
    )
    add_settings(parser, "dmsm")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the model to write")
    parser.add_argument(
        "--detector", type=Path, metavar="DIR", help="describes the images (default: built in)"
    )
    parser.add_argument("--val", nargs="+", default=[], metavar="SOURCE", help="print recall here")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Train, write, and print what it retrieves."""
    settings = read_settings(args)
    if args.print_config:
        return print_settings(settings)
    sources = sources_of(args, settings)
    need_torch()
    from sightwords.train.dmsm.run import run_dmsm
    from sightwords.words.artefact import DEFAULT_DETECTOR

    line = ProgressLine() if os.environ.get("RANK", "0") == "0" else None
    found = run_dmsm(
        sources,
        args.out,
        settings.config.dmsm,
        detector=args.detector or DEFAULT_DETECTOR,
        features=settings.run.features,
        val=args.val,
        device=device_of(settings),
        cache=settings.run.work or None,
        threads=settings.run.threads or None,
        on_images=line.images if line else None,
        progress=line.captions if line else None,
    )
    if line is None or found is None:
        return 0
    line.end()
    row: dict[str, object] = {
        "dmsm": str(args.out),
        "images": found.images,
        "captions": found.captions,
        "bytes": found.export.bytes,
        "difference_from_torch": round(found.export.difference, 6),
    }
    if found.retrieval is not None:
        row["val_images"] = found.retrieval.images
        row["image_to_text"] = dataclasses.asdict(found.retrieval.image_to_text)
        row["text_to_image"] = dataclasses.asdict(found.retrieval.text_to_image)
    print(json.dumps(row))
    return 0
