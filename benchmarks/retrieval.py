"""Recall at 1, 5, 10 and median rank, both ways, of an exported DMSM; and how fast it scores.

    python benchmarks/retrieval.py DMSM --detector DETECTOR --images flickr8k-test-00.tar
    python benchmarks/retrieval.py DMSM --features features.npz --images coco-test-00.tar
    python benchmarks/retrieval.py DMSM --sentences list.txt

DMSM is a directory. Among the first 1,000 images of each source and their first five captions;
features are computed by the detector (default: the one inside the package), or read. `--sentences`
times one image's list, a sentence a line, on one thread.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.metrics.retrieval import HEADER, Retrieval, retrieval
from sightwords.rerank.dmsm import Dmsm
from sightwords.text.ptb import tokenize_all
from sightwords.train.dmsm.image_features import ImageFeatures, detector_features
from sightwords.types import Example
from sightwords.words.artefact import DEFAULT_DETECTOR
from sightwords.words.detector import Detector


def main() -> None:
    args = _arguments()
    dmsm = Dmsm.load(args.dmsm, threads=1)
    if args.sentences:
        print(json.dumps(speed(dmsm, args.sentences)))
    if args.images:
        print(HEADER)
    for source in args.images:
        examples = list(islice(open_corpus([source]), args.limit))
        features = features_of(args, examples)
        print(judged(dmsm, features, examples).markdown(Path(source).name), flush=True)


def features_of(args: argparse.Namespace, examples: Sequence[Example]) -> ImageFeatures:
    if args.features:
        return ImageFeatures.load(args.features).select([e.id for e in examples])
    detector = Detector.load(args.detector, calibrated=False)
    return detector_features(detector, examples).features


def judged(dmsm: Dmsm, features: ImageFeatures, examples: Sequence[Example]) -> Retrieval:
    """Retrieval among these images and their first five captions."""
    known = {canonical_id(e.id): e.captions[:5] for e in examples}
    groups = [known[canonical_id(name)] for name in features.ids]
    sentences = tokenize_all([caption for group in groups for caption in group])
    owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    texts = [dmsm.texts(sentences[i : i + 500]) for i in range(0, len(sentences), 500)]
    images = dmsm.images(features.features.astype(np.float32))
    return retrieval(images, np.concatenate(texts), owners)


def speed(dmsm: Dmsm, path: Path, *, times: int = 50) -> dict[str, object]:
    """Milliseconds for one image and its list."""
    sentences = [tuple(t) for t in tokenize_all(path.read_text("utf-8").splitlines()) if t]
    features = np.random.default_rng(0).standard_normal(dmsm.shape).astype(np.float32)
    seconds = []
    for _ in range(times):
        start = perf_counter()
        dmsm.score(features, sentences)
        seconds.append(perf_counter() - start)
    batch = dmsm.index.encode(sentences)
    return {
        "sentences": len(sentences),
        "words": len(batch.own) - 1,
        "windows": len(batch.windows),
        "median_ms": round(1000 * float(np.median(seconds)), 1),
        "least_ms": round(1000 * min(seconds), 1),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dmsm", type=Path)
    parser.add_argument("--images", nargs="*", default=[], help="captioned images")
    parser.add_argument("--detector", type=Path, default=DEFAULT_DETECTOR)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--limit", type=int, default=1000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
