"""Word scores and features of every image of a corpus by an exported detector, on one thread.

    python benchmarks/describe.py DETECTOR coco-val-*.tar --out runs/val
    python benchmarks/describe.py DETECTOR 'coco-train-*.tar' --held-out 4000 --out runs/held-out

Writes `scores.npz` (ids, words, scores (N, V): what `sightwords evaluate words` and
`benchmarks/calibration.py` read) and `features.npz` (`train.dmsm.image_features`).
`--held-out N` takes only the N images that training leaves for calibration.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.splits import hold_out
from sightwords.train.dmsm.image_features import detector_features
from sightwords.types import Example
from sightwords.words.detector import Detector


def main() -> None:
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    detector = Detector.load(args.detector, threads=args.threads, calibrated=False)
    began = time.perf_counter()
    found = detector_features(detector, _examples(args))
    found.features.save(args.out / "features.npz")
    np.savez_compressed(
        args.out / "scores.npz",
        ids=np.array(found.features.ids),
        words=np.array(detector.vocabulary.words),
        scores=found.image_probs.astype(np.float32),
    )
    print(f"{args.out}: {len(found.features)} images, {time.perf_counter() - began:.0f} s")


def _examples(args: argparse.Namespace) -> Iterator[Example]:
    corpus = open_corpus(args.sources)
    if not args.held_out:
        return iter(corpus)
    chosen = hold_out([e.id for e in corpus if e.dataset == "coco"], args.held_out)
    return (e for e in corpus if e.id in chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("detector", type=Path)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--held-out", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
