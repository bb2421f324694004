"""`sightwords train`: the parts of the system, made anew; here those of section 3."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli import (
    train_all,
    train_boxes,
    train_dmsm,
    train_language,
    train_mert,
    train_places,
)
from sightwords.cli.help import HelpFormatter
from sightwords.cli.train_progress import Talk, need_torch, step_progress
from sightwords.cli.train_validation import judged, validation_table
from sightwords.config import PRESETS, Config, load_config
from sightwords.settings import to_toml

if TYPE_CHECKING:
    from sightwords.train.words.network import WordNetwork

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(subparsers: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb and its sub-verbs."""
    parser = subparsers.add_parser(
        "train",
        help="make the parts of a captioner from your own captioned photographs",
        description="Make the parts of a captioner from captioned photographs.",
        epilog="example: sightwords train words --train 'my-{00..09}.tar' --out my-detector",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_words(verbs)
    _add_calibration(verbs)
    _add_quantise(verbs)
    train_places.add_parser(verbs)
    train_language.add_parser(verbs)
    train_all.add_parser(verbs)
    train_dmsm.add_parser(verbs)
    train_mert.add_parser(verbs)


def _add_words(verbs: Verbs[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "words",
        help="train a word detector",
        description="Train a detector of the most frequent words of the captions. The same command "
        "goes on where a stopped one was. Under torchrun each process takes its share.",
        epilog="example: sightwords train words --train 'coco-train-*.tar' --hold-out 4000 "
        "--weights facebook/dinov2-small --device cuda --out my-detector\n"
        "example: torchrun --nproc-per-node 2 -m sightwords train words mine.toml "
        "--train photos.csv --out my-detector\n"
        "example: sightwords train words --train 's3://mine/photos-{000..999}.tar' --stream "
        "--device cuda --out my-detector",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "config", metavar="CONFIG.toml", nargs="?", type=Path,
        help="settings; those it does not name are the paper's",
    )  # fmt: skip
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default="default",
        help="settings where no file is given (default: default)",
    )  # fmt: skip
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings as TOML and stop"
    )
    parser.add_argument("--train", nargs="+", metavar="SOURCE", help="captioned images")
    parser.add_argument("--val", nargs="+", metavar="SOURCE", help="print AP and PHR on these")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the detector directory to write")
    parser.add_argument(
        "--weights", metavar="PATH|HUB-ID", help="pretrained backbone (default: none)"
    )
    parser.add_argument("--vocabulary", type=Path, metavar="FILE", help="words to use")
    parser.add_argument(
        "--proposals", type=Path, metavar="FILE",
        help="boxes of every image (JSON lines): find words in them instead of on a grid; "
        "images are then not cropped or mirrored",
    )  # fmt: skip
    parser.add_argument("--size-px", type=int, metavar="N", help="side of the network's input")
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the images")
    parser.add_argument("--batch-size", type=int, metavar="N", help="images a step")
    parser.add_argument(
        "--hold-out", type=_count, default=0, metavar="N",
        help="leave N images, chosen by their ids, for train calibration (default: 0)",
    )  # fmt: skip
    parser.add_argument("--device", default="auto", help="cpu, cuda, ... (default: auto)")
    parser.add_argument(
        "--stream", action="store_true",
        help="decode shards while training instead of keeping the decoded images on disk",
    )  # fmt: skip
    parser.add_argument(
        "--keep-decoded", type=Path, metavar="DIR",
        help="with --stream: keep decoded images there, on a disk of this machine, for the next "
        "epoch, as long as a tenth of it is free",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=_count, metavar="N",
        help="processes that decode images (default: one a core)",
    )  # fmt: skip
    parser.add_argument(
        "--cache", type=Path, metavar="DIR",
        help="decoded images and checkpoints (default: DIR/training)",
    )  # fmt: skip
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help="write TensorBoard logs")
    parser.set_defaults(run=run_words, parser=parser)


def _add_calibration(verbs: Verbs[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "calibration",
        help="fit score -> precision on held-out photographs",
        description="Fit the precision of each word's scores on captioned photographs that the "
        "detector was not trained on, and write calibration.json.",
        epilog="example: sightwords train calibration my-detector --images 'coco-train-*.tar' "
        "--hold-out 4000",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("detector", metavar="DETECTOR_DIR", type=Path)
    parser.add_argument("--images", nargs="+", required=True, metavar="SOURCE")
    parser.add_argument(
        "--hold-out", type=_count, default=0, metavar="N",
        help="only the N images that train words --hold-out N left (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--proposals", type=Path, metavar="FILE",
        help="boxes of every image, for a detector that train words --proposals has made",
    )  # fmt: skip
    parser.add_argument(
        "--method", choices=("shrunk", "paper"), default="shrunk",
        help="how curves are fitted (default: shrunk)",
    )  # fmt: skip
    parser.add_argument("--threads", type=_count, metavar="N", help="CPU threads (default: all)")
    parser.set_defaults(run=run_calibration, parser=parser)


def _add_quantise(verbs: Verbs[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "quantise",
        help="write a smaller, faster form of a detector",
        description="Write a smaller form of a detector: int8 arithmetic, or float16 weights. "
        "Calibrate the new one: its scores differ a little.",
        epilog="example: sightwords train quantise my-detector --out my-detector-int8",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("detector", metavar="DETECTOR_DIR", type=Path)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--form", choices=("int8", "int8-static", "float16"), default="int8",
        help="int8 for ViTs, int8-static for convolutional networks (default: int8)",
    )  # fmt: skip
    parser.add_argument(
        "--images", nargs="+", metavar="SOURCE",
        help="photographs of the usual kind, for int8-static; 64 are used",
    )  # fmt: skip
    parser.set_defaults(run=run_quantise, parser=parser)


def run_words(args: argparse.Namespace) -> int:
    """Train, write the detector, and say how good it is."""
    config = _settings(args)
    if args.print_config:
        print(to_toml(config), end="")
        return 0
    if not args.train or args.out is None:
        args.parser.error("the following arguments are required: --train and --out")
    if config.words.regions == "proposals" and args.proposals is None:
        args.parser.error('the settings say regions = "proposals": give --proposals FILE')
    if args.proposals is not None and args.stream:
        args.parser.error("--proposals needs decoded images: leave out --stream")
    if args.keep_decoded is not None and not args.stream:
        args.parser.error(
            "--keep-decoded is for --stream; without it all decoded images are kept, in --cache"
        )
    need_torch()
    if args.proposals is not None:
        return train_boxes.run_boxes(args, config, device=_device(args.device))
    from sightwords.text.vocabulary_file import load_vocabulary
    from sightwords.train.words.run import train_detector

    is_first = os.environ.get("RANK", "0") == "0"
    talk = Talk() if is_first else None
    device = _device(args.device)
    network, vocabulary, export = train_detector(
        args.train,
        config,
        args.out,
        weights=args.weights,
        vocabulary=load_vocabulary(args.vocabulary) if args.vocabulary else None,
        device=device,
        cache=args.cache,
        workers=args.workers,
        hold_out=args.hold_out,
        stream=args.stream,
        keep=args.keep_decoded,
        compile_network=args.compile,
        table_progress=talk.images if talk else None,
        progress=step_progress(talk, args.tensorboard) if talk else None,
    )
    if talk is None or export is None:
        return 0
    talk.end()
    row: dict[str, object] = {
        "detector": str(args.out),
        "words": len(vocabulary),
        "network_bytes": export.network_bytes,
        "difference_from_torch": export.difference,
    }
    if args.val:
        row |= _validated(args, network, device, talk)
    print(json.dumps(row))
    return 0


def run_calibration(args: argparse.Namespace) -> int:
    """Fit and save the calibration."""
    from sightwords.train.data.sources import held_out_examples
    from sightwords.train.words.calibration import calibrate_detector
    from sightwords.words.proposals import read_proposals

    talk = Talk()
    calibration = calibrate_detector(
        args.detector,
        held_out_examples(args.images, hold_out=args.hold_out),
        method=args.method,
        threads=args.threads,
        proposals=read_proposals(args.proposals) if args.proposals else None,
        progress=talk.images,
    )
    talk.end()
    print(json.dumps({"detector": str(args.detector), "images": calibration.images}))
    return 0


def run_quantise(args: argparse.Namespace) -> int:
    """Write the other form."""
    from sightwords.corpus import open_corpus
    from sightwords.train.words.quantise import quantise_detector

    if args.form == "int8-static" and not args.images:
        args.parser.error("--form int8-static needs --images")
    corpus = open_corpus(args.images, need_captions=False) if args.images else ()
    samples = (example.image for example in corpus if example.image is not None)
    export = quantise_detector(args.detector, args.out, form=args.form, samples=samples)
    row = {
        "detector": str(args.out),
        "network_bytes": export.network_bytes,
        "largest_difference": export.difference,
    }
    print(json.dumps(row))
    return 0


def _settings(args: argparse.Namespace) -> Config:
    config = load_config(args.config) if args.config else PRESETS[args.preset]
    if args.size_px is not None:
        images = dataclasses.replace(config.images, size_px=args.size_px)
        config = dataclasses.replace(config, images=images)
    changes = {k: v for k in ("epochs", "batch_size") if (v := getattr(args, k)) is not None}
    config = dataclasses.replace(config, words=dataclasses.replace(config.words, **changes))
    return train_boxes.with_boxes(config) if args.proposals is not None else config


def _validated(
    args: argparse.Namespace, network: WordNetwork, device: str, talk: Talk
) -> dict[str, object]:
    from sightwords.text.vocabulary_file import load_vocabulary
    from sightwords.train.words.validation import validate
    from sightwords.words.artefact import VOCABULARY_NAME

    table = validation_table(args, network.backbone.input, talk)
    means = validate(network, table, load_vocabulary(args.out / VOCABULARY_NAME), device=device)
    return judged(table, means.ap, means.phr)


def _device(name: str) -> str:
    if name != "auto":
        return name
    from sightwords.train.processes import best_device

    return best_device()


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)
