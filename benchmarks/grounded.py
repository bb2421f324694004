"""Train the grounded language model: captions, then M-best lists, each within its seconds.

    python benchmarks/grounded.py --language LANGUAGE --features features-*.npz \
        --top-words top-words.npz --captions coco-train.jsonl.gz flickr8k-train-0*.tar \
        --text coco-extra-sentences.txt.gz flickr30k-text.jsonl.gz --lists lists-train.npz \
        --val-captions coco-val.jsonl.gz --val-lists lists-val.npz --device cuda \
        --caption-seconds 100 --list-seconds 80 --out runs/grounded \
        --try objective=listwise --try objective=risk --try objective=risk,sharpness=1

LANGUAGE is a language model's directory; its vocabulary is the grounded model's. Features are
`train.dmsm.image_features`' files, top words those of `benchmarks/words_detector.py`, lists those
of
`benchmarks/lists.py`. Each --try trains on lists from the same weights under changed settings; the
epoch whose first sentences have the best CIDEr on the first half of the validation lists is kept.
--out gets `captions.safetensors` (before lists), `grounded.safetensors` (the best), `log.jsonl`
and, for each of --score, the scores of all its sentences in order as `scores-NAME.npz`.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sightwords.config import GroundedConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import coco_half
from sightwords.errors import ConfigError
from sightwords.files import atomic_path
from sightwords.settings import from_mapping
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.dmsm.image_features import ImageFeatures, merged
from sightwords.train.grounded.data import (
    Images,
    Sentences,
    captions_of,
    images_of,
    words_of_lists,
    words_of_sets,
)
from sightwords.train.grounded.export import load_grounded, new_grounded, save_grounded
from sightwords.train.grounded.lists import ScoredLists, scored_lists
from sightwords.train.grounded.network import GroundedNetwork
from sightwords.train.grounded.ranking import Ranking, rank, score_lists
from sightwords.train.grounded.training import EpochReport, train_captions, train_lists
from sightwords.train.language.data import joined_sets, read_detections
from sightwords.train.rerank.list_metrics import measure, references_of
from sightwords.train.rerank.lists import Lists


def main() -> None:
    args = arguments()
    torch.set_float32_matmul_precision("high")
    args.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    network = bench.after_captions()
    best = bench.report("captions", network)
    save_grounded(network, args.out / "grounded.safetensors")
    for settings in args.tries or [""]:
        found, network = bench.after_lists(network_of(bench.start, settings), settings, best)
        if found > best:
            best = found
            save_grounded(network, args.out / "grounded.safetensors")
    network = load_grounded(args.out / "grounded.safetensors").to(args.device)
    bench.report("kept", network)
    for path in args.score:
        bench.save_scores(network, path)


class Bench:
    """What is trained on, and the log."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.began = args, time.perf_counter()
        self.vocabulary = load_vocabulary(args.language / "vocabulary.json")
        self.config = changed(GroundedConfig(), args.settings)
        self.data = read(args, self.vocabulary, self.config)
        self.images, self.captions = self.data.images, self.data.captions
        self.halves = self.data.halves
        self.log(
            "data",
            images=self.images.no_image,
            captions=int((self.captions.targets[:, :, 0] >= 0).sum()),
            validation=[len(half) for half in self.halves],
        )
        self.start: GroundedNetwork

    @cached_property
    def lists(self) -> ScoredLists:
        """Of training images; their CIDEr is computed while captions are trained on."""
        found = self.data.lists.result()
        self.log("lists ready", lists=len(found), sentences=int(found.valid.sum()))
        return found

    def after_captions(self) -> GroundedNetwork:
        """Trained on captions, or as an earlier run left it."""
        args = self.args
        if args.initial:
            self.start = load_grounded(args.initial).to(args.device)
            self.start.config = changed(self.start.config, args.settings)
            return self.start
        network = new_grounded(self.config, self.vocabulary, self.images.shape).to(args.device)

        def on_epoch(report: EpochReport, network: GroundedNetwork) -> None:
            done = report.seconds > 0.9 * args.caption_seconds
            shown = done or report.epoch % args.every == 0 or report.epoch == self.config.epochs
            quality = self.quality(network) if shown else None
            self.log("captions", **dataclasses.asdict(report), **flat(quality))

        self.start = train_captions(
            network,
            self.images,
            self.captions,
            budget_seconds=args.caption_seconds,
            on_epoch=on_epoch,
        )
        save_grounded(self.start, args.out / "captions.safetensors")
        return self.start

    def after_lists(
        self, network: GroundedNetwork, settings: str, best: float
    ) -> tuple[float, GroundedNetwork]:
        """The best of the epochs' averaged networks, if better than `best`."""
        value, kept = best, network

        def on_epoch(report: EpochReport, averaged: GroundedNetwork) -> None:
            nonlocal value, kept
            quality = self.quality(averaged)
            self.log("lists", settings=settings, **dataclasses.asdict(report), **flat(quality))
            if quality.mixed > value:
                value, kept = quality.mixed, copy.deepcopy(averaged)

        train_lists(
            network,
            self.images,
            self.lists,
            self.captions,
            budget_seconds=self.args.list_seconds,
            on_epoch=on_epoch,
        )
        return value, kept

    def quality(self, network: GroundedNetwork) -> Ranking:
        """On the first half of the validation lists."""
        scored = score_lists(network, self.images, self.halves[0])
        return rank(scored.total(network.config), self.halves[0])

    def report(self, label: str, network: GroundedNetwork) -> float:
        """Both halves, the second under the first's weights, parts apart, and training lists."""
        config, row = network.config, {}
        some = self.lists.select(range(min(1000, len(self.lists))))
        for name, lists in (("val0", self.halves[0]), ("val1", self.halves[1]), ("train", some)):
            if not len(lists):
                continue
            scored = score_lists(network, self.images, lists)
            row[name] = rank(scored.total(config), lists)
            if name == "val1":
                row[name] = rank(
                    scored.total(config), lists, (row["val0"].likelihood, row["val0"].length)
                )
            bare = replace(scored, values=torch.zeros_like(scored.values))
            row[f"{name} words only"] = rank(bare.total(config), lists)
            row[f"{name} value only"] = rank(scored.values, lists)
        for name, ranking in row.items():
            self.log(label, lists=name, **flat(ranking))
        return row["val0"].mixed

    def save_scores(self, network: GroundedNetwork, path: Path) -> None:
        """Scores of every sentence of some lists, in the order of the file."""
        lists = Lists.load(path)
        most = int(np.diff(lists.offsets).max())
        every = scored_lists(
            lists,
            np.zeros(lists.hypotheses, np.float32),
            self.vocabulary,
            self.images.rows,
            network.config,
            hypotheses=most,
        ).to(self.args.device)
        if len(every) != len(lists):
            raise SystemExit(f"{path}: {len(lists) - len(every)} of its images have no features")
        scored = score_lists(network, self.images, every, batch=8)
        valid = every.valid
        np.savez_compressed(
            self.args.out / f"scores-{path.stem}.npz",
            log_probs=scored.log_probs[valid].half().cpu().numpy(),
            values=scored.values[valid].half().cpu().numpy(),
            total=scored.total(network.config)[valid].half().cpu().numpy(),
        )
        self.log("scores", file=path.name, sentences=int(valid.sum()))

    def log(self, about: str, **values: Any) -> None:
        """One line of JSON, printed and kept."""
        row = {"about": about, "at": round(time.perf_counter() - self.began, 1), **values}
        text = json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
        print(text, flush=True)
        with (self.args.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(text + "\n")


@dataclass(frozen=True)
class Data:
    """On the device."""

    images: Images
    captions: Sentences
    lists: Future[ScoredLists]
    halves: tuple[ScoredLists, ScoredLists]


def read(args: argparse.Namespace, vocabulary: Vocabulary, config: GroundedConfig) -> Data:
    lists, validation = Lists.load(args.lists), Lists.load(args.val_lists)
    for some in (lists, validation):
        if forbidden := [split for split in set(some.splits.tolist()) if "test" in split]:
            raise SystemExit(f"lists of split {forbidden[0]!r}: test images train and tune nothing")
    if args.val_hypotheses:
        validation = validation.best(args.val_hypotheses, validation.per_word)
    words = words_of_lists(lists) | words_of_lists(validation)
    for path in args.top_words:
        found = read_detections(path, threshold=config.word_threshold)
        words |= words_of_sets(joined_sets([found.attribute_sets(vocabulary)]))
    features = merged(ImageFeatures.load(path) for path in args.features)
    images = images_of(features, words, config)
    judged = {canonical_id(name) for name in validation.ids.tolist()}
    rows = {name: row for name, row in images.rows.items() if name not in judged}
    sources = [source for source in (args.captions, args.text) if source]
    every = (e for source in sources for e in open_corpus(source))
    examples = (e for e in every if canonical_id(e.id) not in judged)
    captions = captions_of(examples, vocabulary, rows, config, no_image=images.no_image)
    held = scored_lists(
        validation,
        rewards(validation, args.val_lists, args.val_captions, args.processes),
        vocabulary,
        images.rows,
        config,
        hypotheses=args.val_hypotheses or int(np.diff(validation.offsets).max()),
    )
    if args.images:
        held = held.select(range(min(args.images, len(held))))

    def later() -> ScoredLists:
        worth = rewards(lists, args.lists, args.captions, args.processes)
        scored = scored_lists(lists, worth, vocabulary, rows, config)
        if args.images:
            scored = scored.select(range(min(args.images, len(scored))))
        return scored.to(device)

    half = np.array([coco_half(name) for name in held.ids])
    device = args.device
    return Data(
        images.to(device),
        captions.to(device),
        ThreadPoolExecutor(1).submit(later),
        (held.select(np.flatnonzero(half == 0)).to(device),
         held.select(np.flatnonzero(half == 1)).to(device)),
    )  # fmt: skip


def rewards(
    lists: Lists, path: Path, captions: Sequence[str], processes: int
) -> npt.NDArray[np.float32]:
    """CIDEr-D of every sentence; kept beside the lists, since it takes minutes."""
    kept = path.with_suffix(f".cider-{sum_of(lists)}.npy")
    if kept.exists():
        known: npt.NDArray[np.float32] = np.load(kept)
        return known
    wanted = set(lists.ids.tolist())
    written = {e.id: e.captions for e in open_corpus(captions) if canonical_id(e.id) in wanted}
    found = measure(lists, references_of(lists, written), processes=processes).cider
    with atomic_path(kept) as temporary, temporary.open("wb") as stream:
        np.save(stream, found)
    return found


def sum_of(lists: Lists) -> str:
    """Of their sentences: lists made anew, as many as before, are others all the same."""
    digest = hashlib.sha256("\n".join([*lists.words, *lists.ids.tolist()]).encode())
    for array in (lists.offsets, lists.token_offsets, lists.tokens):
        digest.update(array.tobytes())
    return digest.hexdigest()[:12]


def network_of(start: GroundedNetwork, settings: str) -> GroundedNetwork:
    network = copy.deepcopy(start)
    network.config = changed(start.config, settings)
    return network


def changed(config: GroundedConfig, settings: str) -> GroundedConfig:
    """Settings as `key=value,key=value`."""
    values = dataclasses.asdict(config)
    for pair in filter(None, settings.split(",")):
        key, _, text = pair.partition("=")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    if unknown := set(values) - set(dataclasses.asdict(config)):
        raise ConfigError(f"--set or --try: unknown setting {min(unknown)!r}")
    return from_mapping(GroundedConfig, values, where="--set or --try")


def flat(ranking: Ranking | None) -> dict[str, float]:
    return {} if ranking is None else dataclasses.asdict(ranking)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--language", type=Path, required=True)
    parser.add_argument("--features", type=Path, nargs="+", required=True)
    parser.add_argument("--top-words", type=Path, nargs="*", default=[])
    parser.add_argument("--captions", nargs="+", required=True, help="of the training images")
    parser.add_argument("--text", nargs="*", default=[], help="captions without images")
    parser.add_argument("--lists", type=Path, required=True, help="of training images")
    parser.add_argument("--val-captions", nargs="+", required=True)
    parser.add_argument("--val-lists", type=Path, required=True)
    parser.add_argument("--val-hypotheses", type=int, default=100, help="likeliest a word; 0: all")
    parser.add_argument("--set", dest="settings", default="", help="key=value,key=value")
    parser.add_argument("--try", dest="tries", action="append", help="likewise, for lists")
    parser.add_argument("--initial", type=Path, help="captions.safetensors of an earlier run")
    parser.add_argument("--score", type=Path, nargs="*", default=[], help="lists to score")
    parser.add_argument("--caption-seconds", type=float, default=math.inf)
    parser.add_argument("--list-seconds", type=float, default=math.inf)
    parser.add_argument("--every", type=int, default=3, help="epochs on captions between looks")
    parser.add_argument("--images", type=int, default=0, help="use so many lists, to try things")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/grounded"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
