"""Which training recipe makes the best word detector? Trains each, judges it on validation images.

    python benchmarks/words_recipes.py --train 'coco-train-*.tar' 'flickr8k-train-*.tar' \
        --val 'coco-val-*.tar' --vocabulary vocabulary.json --weights dinov2-vits14/ \
        --device cuda --out runs/recipes base soft

Prints AP and PHR (the authors' weighted forms) on the first half of the validation images by id
hash; the calibration images (4,000 of the COCO training images, by id hash) are left out of
training. Needs the `train` extra; an H200 takes about a minute a recipe.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from sightwords.config import PRESETS, CalibrationConfig, WordsConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.settings import to_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
from sightwords.train.data.image_table import INDEX_NAME, build_table, open_table
from sightwords.train.fit import StepReport
from sightwords.train.words.run import fit_detector, save_weights
from sightwords.train.words.validation import validate
from sightwords.types import Example

KEPT = PRESETS["default"].words
BASE = dataclasses.replace(
    KEPT, epochs=5, learning_rate=5e-5, head_rate=60.0, layer_decay=1.0, weight_average=0.0
)
SOFT = dataclasses.replace(BASE, labels="fraction")
DECAY = dataclasses.replace(SOFT, learning_rate=1.5e-4, head_rate=20.0, layer_decay=0.8)
AVERAGED = dataclasses.replace(DECAY, weight_average=0.999)

RECIPES: dict[str, tuple[WordsConfig, int]] = {
    "base": (BASE, 224),
    "soft": (SOFT, 224),
    "decay": (DECAY, 224),
    "averaged": (AVERAGED, 224),
    "averaged-hot": (dataclasses.replace(AVERAGED, learning_rate=3e-4, head_rate=10.0), 224),
    "cool": (dataclasses.replace(AVERAGED, learning_rate=7e-5, head_rate=40.0), 224),
    "any-280": (dataclasses.replace(AVERAGED, labels="any"), 280),
    "any-8": (KEPT, 224),
    "any-wide-crops": (
        dataclasses.replace(AVERAGED, labels="any", smallest_crop=0.8, jitter=0.1),
        224,
    ),
    "averaged-280": (AVERAGED, 280),
    "any-averaged": (dataclasses.replace(AVERAGED, labels="any"), 224),
    "whole": (dataclasses.replace(AVERAGED, pooling="whole_image", initial_bias=-4.0), 224),
    "averaged-10": (
        dataclasses.replace(AVERAGED, epochs=10, drop_path=0.1, jitter=0.2, smallest_crop=0.35),
        224,
    ),
}
"""Name -> settings and input size; each changes one thing against an earlier one."""


def main() -> None:
    args = _arguments()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    began = started = time.perf_counter()
    torch._dynamo.config.suppress_errors = True
    if not (args.cache / "val" / INDEX_NAME).exists():
        build_table(_training(args.train), args.cache / "train", side_px=args.stored_px)
        build_table(_validation(args.val), args.cache / "val", side_px=args.stored_px)
    train, val = open_table(args.cache / "train"), open_table(args.cache / "val")
    vocabulary = _vocabulary(args)
    print(f"{len(train)} + {len(val)} images, {time.perf_counter() - started:.0f} s", flush=True)
    for name in args.recipes:
        if time.perf_counter() - began > args.budget_seconds:
            print(f"{name}: no time left", flush=True)
            continue
        config, size_px = RECIPES[name]
        config = dataclasses.replace(config, **({"epochs": args.epochs} if args.epochs else {}))
        started = time.perf_counter()
        network = fit_detector(
            train,
            vocabulary,
            config,
            weights=args.weights,
            size_px=size_px,
            device=args.device,
            compile_network=args.compile,
            progress=_say,
        )
        table = validate(network, val, vocabulary, device=args.device)
        row = {
            "recipe": name,
            "size_px": size_px,
            "ap": round(100 * table.ap, 2),
            "phr": round(100 * table.phr, 2),
            "seconds": round(time.perf_counter() - started),
        }
        print(json.dumps(row), flush=True)
        (out / f"{name}.toml").write_text(to_toml(config), encoding="utf-8")
        with (out / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if name == args.save:
            save_weights(network, out / "weights.safetensors")


def _say(report: StepReport) -> None:
    if report.step % 500 == 0 or report.step == report.steps:
        print(
            f"  {report.step}/{report.steps} loss {report.loss:.4f} "
            f"{report.examples_per_second:.0f} images/s",
            flush=True,
        )


def _training(sources: Sequence[str]) -> Iterator[Example]:
    corpus = open_corpus(sources)
    coco = [e.id for e in corpus if e.dataset == "coco"]
    held_out = hold_out(coco, min(CalibrationConfig().held_out_images, len(coco) // 2))
    return (e for e in corpus if e.id not in held_out)


def _validation(sources: Sequence[str]) -> Iterator[Example]:
    return (e for e in open_corpus(sources) if half_by_hash(e.id) == 0)


def _vocabulary(args: argparse.Namespace) -> Vocabulary:
    """The 1000 words of the COCO training captions, kept in a file."""
    path: Path = args.vocabulary
    if not path.exists():
        coco = (e for e in open_corpus(args.train) if e.dataset == "coco")
        save_vocabulary(Vocabulary.of_captions(c for e in coco for c in e.captions), path)
    return load_vocabulary(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--val", nargs="+", required=True)
    parser.add_argument("--vocabulary", type=Path, required=True, help="made if absent")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--stored-px", type=int, default=256)
    parser.add_argument("--cache", type=Path, default=Path("runs/tables"))
    parser.add_argument("--budget-seconds", type=float, default=1e9)
    parser.add_argument("--save", default="", help="recipe whose weights to keep")
    parser.add_argument("--out", default="runs/recipes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
