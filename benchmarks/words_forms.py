"""What do smaller forms of a detector lose? AP, PHR, size and time of several detector directories.

    python benchmarks/words_forms.py detector detector-float16 detector-int8 \
        --images 'coco-val-*.tar' --limit 1000

All are run on the same images (the first `--limit` of one half by id hash) on one thread; the
first directory's scores are the ones the others are compared with.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.splits import half_by_hash
from sightwords.images import decode
from sightwords.metrics.word_ap import count_words, evaluate_words
from sightwords.metrics.word_table import summarise
from sightwords.text.ptb import tokenize_all
from sightwords.types import Example, FloatArray
from sightwords.words.artefact import NETWORK_NAME
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool


def main() -> None:
    args = _arguments()
    half = (e for e in open_corpus(args.images) if half_by_hash(e.id) == args.half)
    examples = list(itertools.islice(half, args.limit))
    first: FloatArray | None = None
    for directory in args.detectors:
        detector = Detector.load(directory, threads=args.threads, calibrated=False)
        scores, seconds = _scores(detector, examples)
        first = scores if first is None else first
        words = detector.vocabulary.words
        truth = count_words([[tuple(t) for t in tokenize_all(e.captions)] for e in examples], words)
        table = summarise(evaluate_words(scores, truth, words, ["NN"] * len(words)))[-1]
        row = {
            "detector": directory.name,
            "images": len(examples),
            "mb": round((directory / NETWORK_NAME).stat().st_size / 1e6, 1),
            "ap": round(100 * table.ap, 2),
            "phr": round(100 * table.phr, 2),
            "ms_network": round(1000 * seconds, 1),
            "mean_difference": round(float(np.abs(scores - first).mean()), 5),
            "largest_difference": round(float(np.abs(scores - first).max()), 4),
        }
        print(json.dumps(row), flush=True)


def _scores(detector: Detector, examples: list[Example]) -> tuple[FloatArray, float]:
    """Word scores of all images, and the median seconds of a run of the network alone."""
    scores = []
    for example in examples:
        assert example.image is not None
        scores.append(pool(detector(decode(example.image), name=example.id)).image_probs)
    image = np.zeros((1, 3, *[detector.spec.input.size_px] * 2), dtype=np.float32)
    return np.stack(scores), float(np.median([_timed(detector, image) for _ in range(20)]))


def _timed(detector: Detector, image: FloatArray) -> float:
    started = time.perf_counter()
    detector.network.run({"image": image})
    return time.perf_counter() - started


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("detectors", nargs="+", type=Path)
    parser.add_argument("--images", nargs="+", required=True)
    parser.add_argument("--half", type=int, default=0)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
