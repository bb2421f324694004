"""The language model: distance to the exact gradient, perplexity, size on disk.

    python -m benchmarks.language rows DATA --words top-words.npz --val words-val.npz --half 1
    python -m benchmarks.language exact DATA ... --vocabulary 1000
    python -m benchmarks.language size DATA ...
    python -m benchmarks.language text DATA ...
    python -m benchmarks.language folds DATA ... --in-fold words-train.npz

DATA holds coco-train.jsonl.gz and coco-val.jsonl.gz (others: `--train`, `--val-captions`); for
`text`, coco-extra-sentences.txt.gz and flickr30k-text.jsonl.gz too. `--words`: words detected in
training images by detectors that did not train on them; `--val`: words of the images that
perplexity is measured on.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.language_data import (
    Data,
    add_arguments,
    first_sentences,
    fit,
    load,
    measured,
)

from sightwords.config import PRESETS, LanguageConfig
from sightwords.corpus import open_corpus
from sightwords.language.features import context_starts
from sightwords.train.language.data import encode_blocks, joined, read_detections

FEW = 20_000
"""Captions on which NCE is compared with the exact gradient."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"exact": exact, "rows": rows, "size": size, "text": text, "folds": folds}
    parser.add_argument("part", choices=sorted(parts))
    add_arguments(parser)
    parser.add_argument("--in-fold", type=Path, metavar="NPZ", help="folds: of the same images")
    parser.add_argument("--save", type=Path, help="size: keep the one-byte model here")
    args = parser.parse_args()
    parts[args.part](load(args), args)


def rows(data: Data, args: argparse.Namespace) -> None:
    """The paper's rows, and the two extensions it tried."""
    blind = np.full_like(data.train.images, -1)
    trials: dict[str, LanguageConfig] = {
        "Unconditioned": data.config,
        "Baseline": dataclasses.replace(data.config, score_feature=False),
        "+ Score": data.config,
        "+ Score, unigram noise alone": dataclasses.replace(
            data.config, attribute_samples=0, noise_power=1.0
        ),
        "+ Score + distant bigrams": dataclasses.replace(data.config, distant_bigrams=True),
        "+ Score + log-bilinear": dataclasses.replace(data.config, log_bilinear=True),
    }
    for name, config in trials.items():
        here = data
        if name == "Unconditioned" and data.val is not None:
            here = dataclasses.replace(
                data,
                train=dataclasses.replace(data.train, images=blind),
                val=dataclasses.replace(data.val, images=np.full_like(data.val.images, -1)),
            )
        started = time.perf_counter()
        model = fit(here, config, threads=args.threads)
        seconds = time.perf_counter() - started
        found = measured(here, model, args.threads)
        print(f"{name}: perplexity {found:.2f}, trained in {seconds:.0f} s", flush=True)


def exact(data: Data, args: argparse.Namespace) -> None:
    """NCE beside the exact gradient on the first captions, each at the best of its settings.

    Those were chosen on half 1 of coco-val; `--half 0` measures what had no part in the choice.
    """
    from tests.train.language.exact import learn_exactly

    data = data.part(FEW)
    config = dataclasses.replace(data.config, table_bits=22, attribute_samples=0, noise_power=1.0)
    slow = dataclasses.replace(config, learning_rate=1.0, first_square=12.0, epochs=8)
    trials: dict[str, LanguageConfig] = {
        "exact gradient": dataclasses.replace(
            config, learning_rate=1.0, first_square=3.0, epochs=4
        ),
        "NCE, unigram noise, preset paper": dataclasses.replace(
            PRESETS["paper"].language, table_bits=22
        ),
        "NCE, noise by frequency to the power .75": dataclasses.replace(slow, noise_power=0.75),
        "NCE, to the power .5": dataclasses.replace(slow, noise_power=0.5),
        "NCE, unigram noise, 3 of 15 from the set": dataclasses.replace(slow, attribute_samples=3),
        "NCE, to the power .5, 3 of 15 from the set": dataclasses.replace(
            slow, noise_power=0.5, attribute_samples=3
        ),
    }
    best = None
    for name, settings in trials.items():
        kernel = learn_exactly if name == "exact gradient" else None
        started = time.perf_counter()
        model = fit(data, settings, threads=args.threads, kernel=kernel)
        seconds = time.perf_counter() - started
        found = measured(data, model, args.threads)
        best = best or found
        print(
            f"{name}: perplexity {found:.2f} ({100 * (found / best - 1):+.2f} %), "
            f"{settings.epochs} epochs of {len(data.train)} captions in {seconds:.0f} s",
            flush=True,
        )


def folds(data: Data, args: argparse.Namespace) -> None:
    """What training on detections of images that the detector has learned would cost."""
    if args.in_fold is None:
        raise SystemExit("give --in-fold")
    seen = read_detections(args.in_fold, threshold=data.config.attribute_threshold)
    in_fold = seen.attribute_sets(data.vocabulary)
    blocks = encode_blocks(
        data.examples, data.vocabulary, in_fold, text_weight=data.config.text_weight
    )
    learned = dataclasses.replace(data, train=joined(blocks), sets=in_fold)
    for name, trial in (("out of fold", data), ("in fold", learned)):
        model = fit(trial, data.config, threads=args.threads)
        print(
            f"{name}: {len(trial.sets.ids) / len(trial.sets):.1f} attributes an image, Attribute "
            f"{model.attribute:.2f}, Score {model.score:.2f}, perplexity "
            f"{measured(data, model, args.threads):.2f}",
            flush=True,
        )


def text(data: Data, args: argparse.Namespace) -> None:
    """What sentences without detected words are worth, by their weight."""
    names = ("coco-extra-sentences.txt.gz", "flickr30k-text.jsonl.gz")
    extra = [
        joined(encode_blocks(open_corpus(str(args.data / name)), data.vocabulary)) for name in names
    ]
    more = joined(extra)
    few = first_sentences(data.train, FEW)
    rest = dataclasses.replace(
        data.train, images=np.where(np.arange(len(data.train)) < FEW, data.train.images, -1)
    )
    trials = {f"{FEW} captions with detected words": few}
    for weight in (0.1, 0.3, 1.0):
        weights = np.where(np.arange(len(data.train)) < FEW, 1, weight).astype(np.float32)
        name = f"and the others as text of weight {weight}"
        trials[name] = dataclasses.replace(rest, weights=weights)
    trials["all with detected words"] = data.train
    for weight in (0.1, 0.3, 1.0):
        name = f"all, and {len(more)} more sentences as text of weight {weight}"
        scaled = dataclasses.replace(more, weights=more.weights * np.float32(weight))
        trials[name] = joined([data.train, scaled])
    for name, sentences in trials.items():
        model = fit(data, data.config, threads=args.threads, text=sentences)
        print(f"{name}: perplexity {measured(data, model, args.threads):.2f}", flush=True)


def collisions(
    histories: np.ndarray, words: np.ndarray, signs: np.ndarray, *, table_bits: int
) -> tuple[int, float]:
    """The different hashed features of words (N,) after histories (N, 3), and the share of them
    that share a place in the table with another.
    """
    starts = context_starts(histories, table_bits=64, distant=False)  # the whole hash
    hashes = starts[signs.astype(np.intp), :, np.arange(len(words))].astype(np.uint64)
    value = words.astype(np.uint64)[:, None]
    places = ((hashes >> np.uint64(64 - table_bits)) + value) & np.uint64((1 << table_bits) - 1)
    # 64 bits: no two of some millions of features meet by chance.
    features = np.unique(hashes * np.uint64(0x9E3779B97F4A7C15) + value).size
    return features, 1 - np.unique(places).size / features


def size(data: Data, args: argparse.Namespace) -> None:
    """Perplexity, collisions and megabytes by table size and bytes a weight."""
    histories, signs = observed(data)
    for bits in (22, 23, 24):
        model = fit(data, dataclasses.replace(data.config, table_bits=bits), threads=args.threads)
        features, share = collisions(histories, data.train.tokens, signs, table_bits=bits)
        print(f"2^{bits}: {features} features, {100 * share:.1f} % collide")
        for name, one in (("float32", model), ("int8", model.quantised())):
            with tempfile.TemporaryDirectory() as folder:
                one.save(folder)
                stored = sum(path.stat().st_size for path in Path(folder).iterdir())
            held = one.table.nbytes + one.unigram.nbytes + one.end.nbytes + one.follower_ids.nbytes
            print(
                f"  {name}: perplexity {measured(data, one, args.threads):.2f}, "
                f"{stored / 1e6:.1f} MB on disk, {held / 1e6:.1f} MB in memory",
                flush=True,
            )
        if args.save:
            model.quantised().save(args.save / f"bits{bits}")


def observed(data: Data) -> tuple[Any, Any]:
    """History and sign of every token of the training text."""
    text, start = data.train, len(data.vocabulary) + 2
    padded = np.concatenate([np.full(3, start, dtype=np.int32), text.tokens])
    place = np.arange(len(text.tokens)) - np.repeat(text.offsets[:-1], np.diff(text.offsets))
    columns = []
    for back in (3, 2, 1):
        before = padded[3 - back : 3 - back + len(text.tokens)]
        columns.append(np.where(place >= back, before, start))
    owner = np.repeat(text.images, np.diff(text.offsets)).astype(np.int64)
    width = len(data.vocabulary) + 2
    in_sets = np.repeat(np.arange(len(data.sets)), np.diff(data.sets.offsets)) * width
    signs = np.isin(owner * width + text.tokens, in_sets + data.sets.ids) & (owner >= 0)
    return np.stack(columns, axis=1).astype(np.int32), signs.astype(np.int8)


if __name__ == "__main__":
    main()
