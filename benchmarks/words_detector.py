"""Train the kept detector, and two half-data ones whose scores of the other half are test-like.

    python benchmarks/words_detector.py RECIPE.toml --train ... --others 'coco-val-*.tar' ... \
        --vocabulary vocabulary.json --weights dinov2-vits14/ --device cuda --out runs/detector

Writes `weights.safetensors` (float16), `held-out.npz` (all scores of the 4,000 calibration images)
and `top-words.npz`: the 40 likeliest words of each training image, scored by the detector that did
not see it, and of each image of `--others`, scored by the kept one.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import numpy as np
import torch

from sightwords.config import CalibrationConfig, WordsConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.settings import load_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
from sightwords.train.detector import fit_detector, save_weights
from sightwords.train.network import WordNetwork
from sightwords.train.table import ImageTable, build_table
from sightwords.train.words import StepReport, score_images
from sightwords.types import FloatArray

TOP = 40


def main() -> None:
    args = _arguments()
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    config = load_toml(WordsConfig, args.recipe)
    vocabulary = _vocabulary(args)
    torch._dynamo.config.suppress_errors = True
    table = build_table(open_corpus(args.train), args.cache / "all", side_px=args.stored_px)
    others = build_table(open_corpus(args.others), args.cache / "others", side_px=args.stored_px)
    coco = [i for i in table.ids if i.isdigit()]
    held_out = hold_out(coco, min(CalibrationConfig().held_out_images, len(coco) // 2))
    used = [row for row, i in enumerate(table.ids) if i not in held_out]
    kept_out = [row for row, i in enumerate(table.ids) if i in held_out]

    network = _fit(args, table.select(used), vocabulary, config)
    save_weights(network, out / "weights.safetensors")
    held = table.select(kept_out)
    _save_scores(out / "held-out.npz", held, score_images(network, held, device=args.device))
    parts = [_top(held, score_images(network, held, device=args.device))]
    parts.append(_top(others, score_images(network, others, device=args.device)))
    if args.folds:
        half_config = dataclasses.replace(config, epochs=args.fold_epochs or config.epochs)
        for half in (0, 1):
            seen = [row for row in used if half_by_hash(table.ids[row], salt="fold") == half]
            unseen = [row for row in used if half_by_hash(table.ids[row], salt="fold") != half]
            network = _fit(args, table.select(seen), vocabulary, half_config)
            rest = table.select(unseen)
            parts.append(_top(rest, score_images(network, rest, device=args.device)))
    ids, indices, probs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    np.savez_compressed(
        out / "top-words.npz",
        ids=ids,
        words=np.array(vocabulary.words),
        indices=indices,
        probs=probs,
    )


def _fit(
    args: argparse.Namespace, table: ImageTable, vocabulary: Vocabulary, config: WordsConfig
) -> WordNetwork:
    started = time.perf_counter()
    network = fit_detector(
        table,
        vocabulary,
        config,
        weights=args.weights,
        size_px=args.size_px,
        device=args.device,
        compile_network=args.compile,
        progress=_say,
    )
    print(f"{len(table)} images, {time.perf_counter() - started:.0f} s", flush=True)
    return network


def _say(report: StepReport) -> None:
    if report.step % 500 == 0 or report.step == report.steps:
        print(
            f"  {report.step}/{report.steps} loss {report.loss:.4f} "
            f"{report.images_per_second:.0f} images/s",
            flush=True,
        )


def _top(table: ImageTable, scores: FloatArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    probs = np.take_along_axis(scores, order, axis=1)
    return np.array(table.ids), order.astype(np.uint16), probs.astype(np.float16)


def _save_scores(path: Path, table: ImageTable, scores: FloatArray) -> None:
    np.savez_compressed(path, ids=np.array(table.ids), scores=scores.astype(np.float16))


def _vocabulary(args: argparse.Namespace) -> Vocabulary:
    """The 1000 words of the COCO training captions, kept in a file."""
    path: Path = args.vocabulary
    if not path.exists():
        coco = (e for e in open_corpus(args.train) if e.dataset == "coco")
        save_vocabulary(Vocabulary.of_captions(c for e in coco for c in e.captions), path)
    return load_vocabulary(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path, help="TOML of sightwords.config.WordsConfig")
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--others", nargs="+", required=True)
    parser.add_argument("--vocabulary", type=Path, required=True, help="made if absent")
    parser.add_argument("--weights")
    parser.add_argument("--size-px", type=int, default=224)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--folds", action="store_true")
    parser.add_argument("--fold-epochs", type=int, default=0)
    parser.add_argument("--stored-px", type=int, default=256)
    parser.add_argument("--cache", type=Path, default=Path("runs/tables"))
    parser.add_argument("--out", type=Path, default=Path("runs/detector"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
