"""M-best lists of many images, for MERT, minimum risk training and the tables of section 5.

    python benchmarks/lists.py LANGUAGE WORDS.npz --split val --out lists-val.npz
    python benchmarks/lists.py LANGUAGE WORDS.npz --split train --keep 50 --processes 16 --out ...

LANGUAGE is a language model's directory. WORDS holds `ids`, `words` and `scores` (N, V), or `ids`,
`words`, `indices` (N, T) and `probs` (N, T), a detector's likeliest words; several files may be
given. Words below --minimum-prob are not offered to the language model; those of --keep-prob and
more are kept for the features of re-ranking. With --detector, words carry calibrated precisions.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from sightwords.config import GenerationConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.language.maxent import MaxEnt
from sightwords.train.language.data import read_detections
from sightwords.train.rerank.lists import Lists, joined
from sightwords.train.rerank.make_lists import (
    detected_words,
    make_lists,
    with_precisions,
    without_words,
)


def main() -> None:
    args = arguments()
    start = time.perf_counter()
    parts = [lists_of(args, path) for path in args.words]
    lists = joined(parts)
    if args.detector:
        lists = with_precisions(lists, args.detector)
    if args.keep:
        lists = lists.best(args.keep, lists.per_word)
    lists.save(args.out)
    seconds = time.perf_counter() - start
    print(
        f"{args.out}: {len(lists)} images, {lists.hypotheses} sentences of "
        f"{lists.lengths.mean():.1f} words, coverage {lists.coverage.mean():.1f}, "
        f"{args.out.stat().st_size / 1e6:.1f} MB, {seconds:.0f} s"
    )


def lists_of(args: argparse.Namespace, path: Path) -> Lists:
    vocabulary = MaxEnt.load(args.language).vocabulary
    detections = read_detections(path, threshold=min(args.minimum_prob, args.keep_prob))
    words = detected_words(detections, vocabulary, minimum_prob=args.minimum_prob)
    names = detections.names
    if bare := set(without_words(names, words)):
        print(f"{path}: {len(bare)} images without a word, left out", file=sys.stderr)
        words = [w for name, w in zip(names, words, strict=True) if name not in bare]
        names = [name for name in names if name not in bare]
    if args.among:
        known = {canonical_id(e.id) for e in open_corpus(args.among)}
        kept = [row for row, name in enumerate(names) if canonical_id(name) in known]
        names, words = [names[row] for row in kept], [words[row] for row in kept]
    if args.images:
        names, words = names[: args.images], words[: args.images]
    config = GenerationConfig(m_best=args.m, beam_width=args.beam_width, coverage=args.coverage)
    return make_lists(
        names,
        words,
        args.language,
        config,
        splits=args.split,
        minimum_prob=args.minimum_prob,
        processes=args.processes,
        backend=args.backend,
        progress=show if sys.stderr.isatty() else None,
    )


def show(done: int, total: int) -> None:
    print(f"\r{done}/{total}", end="", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("language", type=Path)
    parser.add_argument("words", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", default="", help="of the images: train, val, test, ...")
    parser.add_argument("--m", type=int, default=500)
    parser.add_argument("--keep", type=int, default=0, help="of the M, the K likeliest a word")
    parser.add_argument("--beam-width", type=int, default=200)
    parser.add_argument("--coverage", type=int, default=10)
    parser.add_argument("--minimum-prob", type=float, default=0.15)
    parser.add_argument("--keep-prob", type=float, default=1.0, help="default: --minimum-prob")
    parser.add_argument("--detector", type=Path, help="its directory, for calibrated precisions")
    parser.add_argument("--among", nargs="+", help="only images of this corpus")
    parser.add_argument("--images", type=int, default=0, help="the first so many of each file")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--backend", default="auto", choices=("auto", "numpy", "numba", "exact"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
