"""Train the kept detector step by step, and two half-data ones whose scores are test-like.

    python benchmarks/words_detector.py --train 'coco-train-*.tar' 'flickr8k-train-*.tar' \
        --val 'coco-val-*.tar' --others 'coco-test-00.tar' ... --vocabulary vocabulary.json \
        --weights dinov2-vits14/ --device cuda --compile --out runs/detector \
        half-0 half-1 one=train:seed=1 two=train:seed=2 mean=average:one+two \
        pupil=taught:one+two:epochs=12,teacher_weight=0.7 keep=pupil

Steps, in the order given, each leaving `NAME.safetensors` in `--work` so that a later call goes on:
`half-0`, `half-1` train on one half of the images and score the other; `train` trains on all with
settings changed as named; `average` averages weights; `taught` trains with those detectors as
teachers, on the images of `--more` too, whose few captions or none say little of what is not there;
`unseen=NAME` scores those of them that have captions with a network that was trained without them;
each is judged on the first half of the validation images. `keep` writes to `--out`:
`weights.safetensors` (float16), `held-out.npz` (all scores of the 4,000 calibration images) and
`top-words.npz`: the 40 likeliest words of each training image, scored by the detector that did not
see it, and of each image of `--val` and `--others`, scored by the kept one.
`export=NAME:SETTINGS`, those of its training, writes `detector/`, which runs without torch.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from features import decoded  # type: ignore[import-not-found]
from sightwords.config import PRESETS, CalibrationConfig, WordsConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
from sightwords.train.data.image_table import ImageTable, gathered
from sightwords.train.fit import StepReport
from sightwords.train.weights import save_weights
from sightwords.train.words.export import export_detector
from sightwords.train.words.labels import caption_targets, unknown_where_few
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.run import load_weights, new_network
from sightwords.train.words.teacher import Teachers, average_weights
from sightwords.train.words.training import train_words
from sightwords.train.words.validation import score_images, validate
from sightwords.types import FloatArray

TOP = 40
KEPT = PRESETS["default"].words


def main() -> None:
    args = _arguments()
    torch._dynamo.config.suppress_errors = True
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    for step in args.steps:
        started = time.perf_counter()
        row = bench.run(step)
        print(json.dumps({"step": step, **row, "seconds": _since(started)}), flush=True)


class Bench:
    """Images and settings that every step needs, loaded when first used."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.vocabulary = _vocabulary(args)

    def run(self, step: str) -> dict[str, object]:
        """One step of the command line."""
        if step == "tables":
            tables = [*self.images, *self.more, *self.others]
            return {"images": sum(len(table) for table in tables)}
        if step.startswith("half-"):
            return self.half(int(step.removeprefix("half-")))
        name, _, work = step.partition("=")
        if name == "keep":
            return self.keep(work)
        if name == "unseen":
            return self.score_more(work)
        if name == "export":
            return self.export(*work.partition(":")[::2])
        kind, *rest = work.split(":")
        if kind == "average":
            network = average_weights([self.load(n) for n in rest[0].split("+")], self.fresh())
        else:
            names = rest.pop(0).split("+") if kind == "taught" else []
            settings = ",".join(rest)
            tables = [*self.images, *(self.more if names else [])]
            network = self.fit(gathered(tables, self.trained_on), settings, teachers=names)
        save_weights(network, self.args.work / f"{name}.safetensors")
        return self.judge(network)

    def fit(
        self, table: ImageTable, settings: str = "", *, teachers: Sequence[str] = ()
    ) -> WordNetwork:
        """Train a network that begins as every other one does, whatever its seed."""
        config = _changed(settings)
        taught = Teachers([self.load(n) for n in teachers]) if teachers else None
        targets = caption_targets(table.captions, self.vocabulary, labels=config.labels)
        if taught is not None:
            targets = unknown_where_few(targets, table.captions)
        return train_words(
            self.fresh(config),
            table,
            targets,
            config,
            device=self.args.device,
            compile_network=self.args.compile,
            teachers=taught,
            progress=_say,
        )

    def half(self, number: int) -> dict[str, object]:
        """Train on one half of the training images and score the other."""

        def is_seen(name: str) -> bool:
            return half_by_hash(name, salt="fold") == number

        seen = gathered(self.images, lambda name: self.trained_on(name) and is_seen(name))
        network = self.fit(seen)
        save_weights(network, self.args.work / f"half-{number}.safetensors")
        unseen = gathered(self.images, lambda name: self.trained_on(name) and not is_seen(name))
        scores = score_images(network, unseen, device=self.args.device)
        _save_top(self.args.work / f"half-{number}.npz", unseen, scores)
        return self.judge(network)

    def score_more(self, name: str) -> dict[str, object]:
        """Score the captioned images of `--more` with a network that never saw them."""
        found = gathered(self.more, lambda name: True)
        more = found.select([row for row, said in enumerate(found.captions) if said])
        scores = score_images(self.load(name), more, device=self.args.device)
        _save_top(self.args.work / "unseen.npz", more, scores)
        return {"images": len(more)}

    def keep(self, name: str) -> dict[str, object]:
        """Write what the next stages need."""
        network, out, device = self.load(name), self.args.out, self.args.device
        held = gathered(self.images, lambda name: not self.trained_on(name))
        scores = score_images(network, held, device=device)
        others = gathered(self.others, lambda name: True)
        np.savez_compressed(out / "held-out.npz", ids=np.array(held.ids), scores=scores)
        parts = [
            _top(held, scores),
            _top(others, score_images(network, others, device=device)),
        ]
        unseen = ["half-0", "half-1", *(["unseen"] if self.args.more else [])]
        parts += [_read_top(self.args.work / f"{part}.npz") for part in unseen]
        ids, indices, probs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        words = np.array(self.vocabulary.words)
        np.savez_compressed(
            out / "top-words.npz", ids=ids, words=words, indices=indices, probs=probs
        )
        shutil.copy(self.args.work / f"{name}.safetensors", out / "weights.safetensors")
        return {"images": len(ids)}

    def export(self, name: str, settings: str) -> dict[str, object]:
        """Write the detector's directory, with the settings that it was trained with."""
        config = dataclasses.replace(PRESETS["default"], words=_changed(settings))
        export = export_detector(
            self.load(name), self.vocabulary, config, self.args.out / "detector"
        )
        return {"bytes": export.network_bytes, "difference": export.difference}

    def judge(self, network: WordNetwork) -> dict[str, object]:
        """AP and PHR on the first half of the validation images."""
        means = validate(network, self.val, self.vocabulary, device=self.args.device)
        return {"ap": round(100 * means.ap, 2), "phr": round(100 * means.phr, 2)}

    def fresh(self, config: WordsConfig = KEPT) -> WordNetwork:
        """An untrained network; the seed of its head does not follow that of its training."""
        same = dataclasses.replace(config, seed=0)
        weights, size_px = self.args.weights, self.args.size_px
        return new_network(same, len(self.vocabulary), weights=weights, size_px=size_px)

    def load(self, name: str) -> WordNetwork:
        """The network that an earlier step left."""
        return load_weights(self.fresh(), self.args.work / f"{name}.safetensors")

    @cached_property
    def images(self) -> list[ImageTable]:
        """Training and calibration images, a table for each shard."""
        return self._tables(self.args.train)

    @cached_property
    def more(self) -> list[ImageTable]:
        """Images with few captions or none, for pupils."""
        return self._tables(self.args.more)

    @cached_property
    def others(self) -> list[ImageTable]:
        """Validation and test images."""
        return self._tables([*self.args.val, *self.args.others])

    @cached_property
    def val(self) -> ImageTable:
        """The half of the validation images that designs are chosen on."""
        return gathered(self._tables(self.args.val), lambda name: half_by_hash(name) == 0)

    @cached_property
    def held_out(self) -> frozenset[str]:
        """Ids of the calibration images."""
        coco = [name for table in self.images for name in table.ids if name.isdigit()]
        asked = CalibrationConfig().held_out_images
        return frozenset(hold_out(coco, min(asked, len(coco) // 2)))

    def trained_on(self, name: str) -> bool:
        """Whether an image is not kept for calibration."""
        return name not in self.held_out

    def _tables(self, sources: Sequence[str]) -> list[ImageTable]:
        found: list[ImageTable] = decoded(sources, self.args.tables, self.args.stored_px)
        return found


def _changed(settings: str) -> WordsConfig:
    """The kept settings with others as `key=value,key=value`."""
    pairs = (pair.split("=") for pair in settings.split(",") if pair)
    parsed: dict[str, Any] = {k: v if v.isalpha() else json.loads(v) for k, v in pairs}
    return dataclasses.replace(KEPT, **parsed)


def _say(report: StepReport) -> None:
    if report.step % 500 == 0 or report.step == report.steps:
        print(
            f"  {report.step}/{report.steps} loss {report.loss:.4f} "
            f"{report.examples_per_second:.0f} images/s",
            flush=True,
        )


def _since(started: float) -> int:
    return round(time.perf_counter() - started)


def _top(table: ImageTable, scores: FloatArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    probs = np.take_along_axis(scores, order, axis=1)
    return np.array(table.ids), order.astype(np.uint16), probs.astype(np.float16)


def _save_top(path: Path, table: ImageTable, scores: FloatArray) -> None:
    ids, indices, probs = _top(table, scores)
    np.savez(path, ids=ids, indices=indices, probs=probs)


def _read_top(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(path) as file:
        return file["ids"], file["indices"], file["probs"]


def _vocabulary(args: argparse.Namespace) -> Vocabulary:
    """The 1000 words of the COCO training captions, kept in a file."""
    path: Path = args.vocabulary
    if not path.exists():
        coco = (e for e in open_corpus(args.train) if e.dataset == "coco")
        save_vocabulary(Vocabulary.of_captions(c for e in coco for c in e.captions), path)
    return load_vocabulary(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--val", nargs="+", required=True)
    parser.add_argument("--others", nargs="*", default=[])
    parser.add_argument("--more", nargs="*", default=[], help="images for pupils alone")
    parser.add_argument("--vocabulary", type=Path, required=True, help="made if absent")
    parser.add_argument("--weights")
    parser.add_argument("--size-px", type=int, default=224)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--stored-px", type=int, default=256)
    parser.add_argument("--tables", type=Path, default=Path("runs/tables"), help="decoded shards")
    parser.add_argument("--work", type=Path, default=Path("runs/detector/work"))
    parser.add_argument("--out", type=Path, default=Path("runs/detector"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
