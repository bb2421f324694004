"""`sightwords train dmsm`: captioned photographs -> a similarity model (section 5.1)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path

from sightwords.cli.help import HelpFormatter
from sightwords.cli.train_progress import Talk, need_torch
from sightwords.config import PRESETS, DmsmConfig, load_config

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "dmsm",
        help="train a similarity of photographs and sentences",
        description="Train the deep multimodal similarity model on captioned photographs, seen "
        "through a detector. The same command goes on where a stopped one was. Under torchrun each "
        "process takes its share.",
        epilog="example: sightwords train dmsm 'mine-*.tar' --detector my-detector "
        "--val mine-val.tar --out my-dmsm\n"
        "example: torchrun --nproc-per-node 2 -m sightwords train dmsm 'mine-*.tar' "
        "--detector my-detector --out my-dmsm\n"
        "example: sightwords rank dog.jpg --sentences sentences.txt --model my-dmsm "
        "--detector my-detector",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="captioned images")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the model to write")
    parser.add_argument(
        "--detector", type=Path, metavar="DIR", help="describes the images (default: built in)"
    )
    parser.add_argument(
        "--features", nargs="+", default=[], type=Path, metavar="FILE.npz",
        help="features of the images, made earlier, instead of running the detector",
    )  # fmt: skip
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default="default",
        help="settings where no file is given (default: default)",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE.toml",
        help="settings, table [dmsm]; those it does not name are the paper's",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the captions")
    parser.add_argument("--batch-size", type=int, metavar="N", help="captions a step")
    parser.add_argument("--val", nargs="+", default=[], metavar="SOURCE", help="print recall here")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ... (default: auto)")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="features, checkpoints (default: DIR/training)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the detector")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Train, write, and say what it retrieves."""
    config = _settings(args)
    need_torch()
    from sightwords.train.dmsm.run import run_dmsm
    from sightwords.train.processes import best_device
    from sightwords.words.artefact import DEFAULT_DETECTOR

    talk = Talk() if os.environ.get("RANK", "0") == "0" else None
    found = run_dmsm(
        args.sources,
        args.out,
        config,
        detector=args.detector or DEFAULT_DETECTOR,
        features=args.features,
        val=args.val,
        device=best_device() if args.device == "auto" else args.device,
        cache=args.cache,
        threads=args.threads,
        on_images=talk.images if talk else None,
        progress=talk.captions if talk else None,
    )
    if talk is None or found is None:
        return 0
    talk.end()
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


def _settings(args: argparse.Namespace) -> DmsmConfig:
    config = load_config(args.config) if args.config else PRESETS[args.preset]
    changes = {k: v for k in ("epochs", "batch_size") if (v := getattr(args, k)) is not None}
    return dataclasses.replace(config.dmsm, **changes)
