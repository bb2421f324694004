"""The early system's regions on real photos: search boxes, and score words in them.

    python benchmarks/paper/proposals.py search --images 'coco-train-*.tar' --out runs/boxes.jsonl
    sightwords train words 'coco-train-*.tar' --config early.toml \
        --set run.proposals=runs/boxes.jsonl \
        --set data.weights=alexnet-conv.fp16.safetensors --out runs/early
    python benchmarks/paper/proposals.py score runs/early --images 'coco-val-*.tar' --part half0 \
        --proposals runs/val-boxes.jsonl --out runs/early-half0
    python benchmarks/paper/proposals.py quality --images coco-test-00.tar \
        --proposals runs/boxes.jsonl --boxes coco-test-boxes.json.gz

`search` uses OpenCV (extra `proposals`), one process a core. `score` writes `scores.npz`, which
`sightwords evaluate words` and `words_table.py` judge, and `top-words.npz`, the likeliest
words of each image. `quality` says how many of the things people boxed a proposal meets by half
(intersection over union), by number of proposals: people's boxes judge the proposals here, and
train nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from shared import PARTS, likeliest, part_of, save_arrays  # type: ignore[import-not-found]

from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.grid import Grid
from sightwords.evaluate.word_scores import WordScoreTable, write_word_scores
from sightwords.files import atomic_path
from sightwords.images import decode
from sightwords.types import Box, Example
from sightwords.words.noisy_or import pool
from sightwords.words.proposal_detector import ProposalDetector
from sightwords.words.proposals import (
    WORK_SIDE_PX,
    Method,
    propose,
    read_proposals,
)

COUNTS = (1, 10, 50, 100, 200)
Found = tuple[str, Sequence[Box]]


def main() -> None:
    args = arguments()
    args.run(args, part_of(args.images, args.part)[: args.limit])


def run_search(args: argparse.Namespace, examples: Sequence[Example]) -> None:
    started = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(args.workers) as workers:
        tasks = ((e, args.method, args.boxes, args.side_px) for e in examples)
        count = write_proposals(args.out, workers.imap(search, tasks, chunksize=8))
    each = 1000 * (time.perf_counter() - started) * args.workers / max(count, 1)
    print(f"{count} images, {each:.0f} ms each of {args.workers} processes")


def search(task: tuple[Example, Method, int, int]) -> Found:
    example, method, limit, side_px = task
    assert example.image is not None
    import cv2

    cv2.setNumThreads(1)
    return example.id, propose(decode(example.image), method=method, limit=limit, side_px=side_px)


def run_score(args: argparse.Namespace, examples: Sequence[Example]) -> None:
    proposals = read_proposals(args.proposals)
    detector = ProposalDetector.over(
        args.detector, proposals, threads=args.threads, calibrated=False
    )
    words = detector.vocabulary.words
    scores = np.empty((len(examples), len(words)))
    for row, example in enumerate(examples):
        assert example.image is not None
        scores[row] = pool(detector(decode(example.image), name=example.id)).image_probs
    ids = tuple(canonical_id(e.id) for e in examples)
    write_word_scores(args.out / "scores.npz", WordScoreTable(ids, tuple(words), scores))
    indices, probs = likeliest(scores)
    named = {"ids": np.array([e.id for e in examples]), "words": np.array(words)}
    save_arrays(args.out / "top-words.npz", {**named, "indices": indices, "probs": probs})
    print(f"{len(examples)} images: {args.out / 'scores.npz'} and top-words.npz")


def run_quality(args: argparse.Namespace, examples: Sequence[Example]) -> None:
    from localisation import read_boxes  # type: ignore[import-not-found]

    proposals, things = read_proposals(args.proposals), read_boxes(args.boxes)
    met: list[npt.NDArray[np.bool_]] = []
    for example in examples:
        truth = [b for boxes in things.get(example.id, {}).values() for b in boxes]
        if truth and example.id in proposals:
            met.append(meets(corners(proposals[example.id]), corners(truth)))
    if not met:
        raise SystemExit("no image has both proposals and boxes")
    each = np.concatenate(met)  # (things, counts)
    rows = [(str(n), f"{100 * share:.1f}") for n, share in zip(COUNTS, each.mean(0), strict=True)]
    title = f"{len(each)} things in {len(met)} images"
    print(Grid(("proposals", "things met, %"), tuple(rows), title=title).markdown())


def corners(boxes: Sequence[Box]) -> npt.NDArray[np.float64]:
    return np.array([(b.x0, b.y0, b.x1, b.y1) for b in boxes]).reshape(-1, 4)


def meets(
    proposals: npt.NDArray[np.float64], things: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """(things, counts): whether one of the first n proposals has at least half in common.

    >>> meets(np.array([[0, 0, 0.1, 0.1], [0, 0, 1, 0.6]]), np.array([[0, 0, 1, 1.0]]))[0, :2]
    array([False,  True])
    """
    low = np.maximum(proposals[:, None, :2], things[None, :, :2])
    high = np.minimum(proposals[:, None, 2:], things[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (proposals, things)]
    overlap = common / (areas[0][:, None] + areas[1][None] - common)
    return np.stack([(overlap[:n] >= 0.5).any(axis=0) for n in COUNTS], axis=1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--images", nargs="+", required=True)
    common.add_argument("--part", choices=PARTS, default="all", help="by id hash")
    common.add_argument("--limit", type=int, help="the first N images")
    searching = verbs.add_parser("search", parents=[common])
    searching.add_argument(
        "--method", choices=("edge_boxes", "selective_search"), default="edge_boxes"
    )
    searching.add_argument("--boxes", type=int, default=100, help="at most, an image")
    searching.add_argument(
        "--side-px", type=int, default=WORK_SIDE_PX, help="longer side, for the search"
    )
    searching.add_argument("--workers", type=int, default=2)
    searching.add_argument("--out", type=Path, required=True)
    searching.set_defaults(run=run_search)
    scoring = verbs.add_parser("score", parents=[common])
    scoring.add_argument("detector", type=Path)
    scoring.add_argument("--proposals", type=Path, required=True)
    scoring.add_argument("--threads", type=int, default=1)
    scoring.add_argument("--out", type=Path, required=True)
    scoring.set_defaults(run=run_score)
    judging = verbs.add_parser("quality", parents=[common])
    judging.add_argument("--proposals", type=Path, required=True)
    judging.add_argument("--boxes", type=Path, required=True, help="boxes made by people")
    judging.set_defaults(run=run_quality)
    return parser.parse_args()


def write_proposals(path: Path, proposals: Iterable[tuple[str, Sequence[Box]]]) -> int:
    """Write the lines that `read_proposals` reads, corners to four digits; returns how many.

    A path that ends in `.gz` is gzipped.
    """
    count = 0
    opened = gzip.open if str(path).endswith(".gz") else open
    with atomic_path(path) as temporary, opened(temporary, "wt", encoding="utf-8") as file:
        for key, boxes in proposals:
            corners = [[round(c, 4) for c in (b.x0, b.y0, b.x1, b.y1)] for b in boxes]
            file.write(json.dumps({"id": key, "boxes": corners}) + "\n")
            count += 1
    return count


if __name__ == "__main__":
    main()
