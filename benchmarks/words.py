"""AP and PHR by part of speech: a detector directory and captioned shards -> scores -> the table.

    python benchmarks/words.py DETECTOR --images coco-test-00.tar --out runs/words-test
    python benchmarks/words.py DETECTOR --images 'coco-val-*.tar' --part half1 --out runs/half1
    python benchmarks/words.py DETECTOR --images 'coco-train-*.tar' --part held-out \
        --out runs/held-out

Writes `scores.npz` (the form that `sightwords evaluate words` reads) and the table as Markdown,
CSV and JSON into `--out`, and prints it. `--scores FILE` judges scores written before instead of
running the network. `held-out` are the 4,000 images by id hash that training leaves to calibration;
`half0` of coco-val is what designs are chosen on, `half1` what they are checked on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sightwords.config import CalibrationConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.evaluate.word_scores import WordScoreTable, read_word_scores, write_word_scores
from sightwords.evaluate.words import evaluate_words, save_words, word_grid
from sightwords.images import decode
from sightwords.types import Example
from sightwords.words.artefact import VOCABULARY_NAME
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool

PARTS = ("all", "half0", "half1", "held-out")


def main() -> None:
    args = arguments()
    examples = list(part_of(args.images, args.part))[: args.limit]
    if args.scores is None:
        table = score(args.detector, examples, threads=args.threads)
        write_word_scores(args.out / "scores.npz", table)
    else:
        table = read_word_scores(args.scores)
    # People's agreement with each other, which AP and PHR are built on, needs two captions.
    references = {canonical_id(e.id): e.captions for e in examples if len(e.captions) > 1}
    report = evaluate_words(
        table,
        references,
        vocabulary=args.detector / VOCABULARY_NAME,
        subset=args.scores is not None or len(references) < len(examples),
        name=args.name or args.detector.name,
    )
    save_words(report, args.out)
    print(word_grid(report).markdown())


def part_of(images: Sequence[str], part: str) -> Iterator[Example]:
    """The examples of one part, in the order of the shards."""
    corpus = open_corpus(images)
    if part == "held-out":
        ids = [e.id for e in corpus]
        chosen = hold_out(ids, min(CalibrationConfig().held_out_images, len(ids) // 2))
        return (e for e in corpus if e.id in chosen)
    halves = {"half0": (0,), "half1": (1,)}.get(part, (0, 1))
    return (e for e in corpus if half_by_hash(e.id) in halves)


def score(directory: Path, examples: Sequence[Example], *, threads: int) -> WordScoreTable:
    """Eq. 1 and 2 over all examples."""
    detector = Detector.load(directory, threads=threads, calibrated=False)
    words = detector.vocabulary.words
    scores = np.empty((len(examples), len(words)))
    started = time.perf_counter()
    for row, example in enumerate(examples):
        assert example.image is not None
        scores[row] = pool(detector(decode(example.image), name=example.id)).image_probs
        if (row + 1) % 500 == 0:
            each = 1000 * (time.perf_counter() - started) / (row + 1)
            print(f"{row + 1} of {len(examples)}, {each:.0f} ms each", file=sys.stderr, flush=True)
    return WordScoreTable(tuple(canonical_id(e.id) for e in examples), tuple(words), scores)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("detector", type=Path, help="a detector directory")
    parser.add_argument("--images", nargs="+", required=True, help="captioned shards")
    parser.add_argument("--part", choices=PARTS, default="all")
    parser.add_argument("--scores", type=Path, help="scores.npz of an earlier run")
    parser.add_argument("--limit", type=int, help="the first N images")
    parser.add_argument("--name", default="", help="the row's name (default: the directory's)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
