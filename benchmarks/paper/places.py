"""What each step of `words.maps` does for where words are found; things and surroundings.

    python benchmarks/paper/places.py DETECTOR --images coco-val-00.tar --boxes BOXES

The pointing game of `localisation.py`, one row a map: that of the regions, that of the patches as
they come, smoothed, with the attention for every word, and with the attention for words that have
their share of it, which is the one that is kept. `around` is the share of pairs of an image and a
word for what lies around things (sky, grass, street), said of it in a caption, whose peak lies in
the box of a person, an animal or a vehicle: few is good.

    python benchmarks/paper/places.py DETECTOR --images ... --boxes ... --fractions .2 .3 .4 .5

Boxes instead: for each share of the peak that belongs to a word's box, how often that box and one
of the thing's have half of their union in common.

    python benchmarks/paper/places.py DETECTOR --against OLDER_DETECTOR

What it costs: processor time of one thread from the file to calibrated words, the two in turn on
the sample photos, which a busy machine disturbs little.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from localisation import (  # type: ignore[import-not-found]
    GROUPS,
    Boxes,
    Pair,
    inside,
    judged,
    overlap,
    read_boxes,
    share,
    targets,
)

from sightwords.corpus import open_corpus
from sightwords.evaluate.grid import Grid
from sightwords.images import decode
from sightwords.metrics.word_ap import CAPTIONS
from sightwords.samples import sample_paths
from sightwords.text.ptb import tokenize_all
from sightwords.types import Example, FloatArray, RegionScores
from sightwords.words.boxes import peak_points
from sightwords.words.detector import Detector
from sightwords.words.maps import patch_maps, smoothed, word_maps
from sightwords.words.noisy_or import sigmoid

AROUND = (
    "sky grass field snow beach ocean water wall floor street road sand trees mountain mountains "
    "clouds hill lake river sidewalk ground dirt"
)
MOVING = ",".join(GROUPS[group] for group in ("people", "animals", "vehicles")).split(",")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("detector", type=Path)
    parser.add_argument("--images", nargs="+", help="captioned shards")
    parser.add_argument("--boxes", type=Path)
    parser.add_argument("--fractions", nargs="+", type=float, help="of the peak; judge boxes")
    parser.add_argument("--against", type=Path, metavar="DETECTOR", help="compare times instead")
    parser.add_argument("--limit", type=int, help="the first N images that have boxes")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.against is not None:
        print(times(args.against, args.detector).markdown())
        return
    if not args.images or args.boxes is None:
        parser.error("give --images and --boxes, or --against")
    boxes = read_boxes(args.boxes)
    corpus = [e for e in open_corpus(args.images) if boxes.get(e.id)][: args.limit]
    detector = Detector.load(args.detector, threads=args.threads, calibrated=False)
    if args.fractions:
        print(box_table(detector, corpus, boxes, args.fractions).markdown())
        return
    things: dict[str, list[Pair]] = defaultdict(list)
    around: dict[str, list[bool]] = defaultdict(list)
    for example in corpus:
        play(detector, example, boxes[example.id], things, around)
    print(table(things, around, images=len(corpus)).markdown())


def play(
    detector: Detector,
    example: Example,
    boxes: Boxes,
    things: dict[str, list[Pair]],
    around: dict[str, list[bool]],
) -> None:
    """Add the pairs of one image to those of each map."""
    assert example.image is not None
    said = {token for tokens in tokenize_all(example.captions[:CAPTIONS]) for token in tokens}
    known = set(detector.vocabulary.words)
    moving = [box for label in MOVING for box in boxes.get(label, ())]
    outside = sorted(said & set(AROUND.split()) & known) if moving else []
    wanted = [*(w for w in targets(example.captions, boxes) if w in known), *outside]
    if not wanted:
        return
    regions = detector(decode(example.image), name=example.id)
    chosen = [detector.vocabulary.index(word) for word in wanted]
    for name, points in variants(regions, chosen):
        found = {w: (float(x), float(y)) for w, (x, y) in zip(wanted, points, strict=True)}
        things[name] += judged(found, example, boxes)
        around[name] += [inside(*found[word], moving) for word in outside]


def variants(regions: RegionScores, chosen: Sequence[int]) -> Iterator[tuple[str, FloatArray]]:
    """Name and peaks (n, 2) of each map."""
    patches = regions.patches
    if patches is None:
        raise SystemExit("the detector gives no patches; see: sightwords train places --help")
    yield "regions", word_maps(replace(regions, patches=None), chosen).points()
    probs = sigmoid(patches.logits[..., list(chosen)])
    maps = {
        "patches": probs,
        "smoothed": smoothed(probs),
        "attention for all words": smoothed(probs * np.sqrt(patches.attention[..., None])),
        "attention for words with their share": patch_maps(patches, chosen),
    }
    for name, values in maps.items():
        yield name, peak_points(values, patches.corners)


def table(things: dict[str, list[Pair]], around: dict[str, list[bool]], *, images: int) -> Grid:
    """One row a map."""
    rows = []
    for name, pairs in things.items():
        small = [p for p in pairs if p.small]
        on_things = f"{100 * float(np.mean(around[name])):.1f}" if around[name] else ""
        rows.append((name, f"{share(pairs, 'hit'):.1f}", f"{share(small, 'hit'):.1f}", on_things))
    first = next(iter(things), "")
    counts = (str(len(things[first])), "", str(len(around[first])))
    rows.append(("number of pairs", *counts))
    columns = ("map", "things, %", "small, %", "around, %")
    return Grid(columns, tuple(rows), title=f"{images} images")


def box_table(
    detector: Detector,
    corpus: Sequence[Example],
    boxes: Mapping[str, Boxes],
    fractions: Sequence[float],
) -> Grid:
    """One row a share of the peak."""
    halves: dict[float, list[bool]] = {fraction: [] for fraction in fractions}
    for example in corpus:
        right = targets(example.captions, boxes[example.id])
        wanted = [word for word in right if word in set(detector.vocabulary.words)]
        if not wanted or example.image is None:
            continue
        seen = detector(decode(example.image), name=example.id)
        found = word_maps(seen, [detector.vocabulary.index(word) for word in wanted])
        for fraction, hits in halves.items():
            drawn = zip(wanted, replace(found, fraction=fraction).boxes(), strict=True)
            hits += [max(overlap(box, b) for b in right[w][1]) >= 0.5 for w, box in drawn]
    rows = [(f"{f:g}", f"{100 * float(np.mean(hits)):.1f}") for f, hits in halves.items()]
    return Grid(("share of the peak", "box, %"), tuple(rows), title=f"{len(corpus)} images")


def times(older: Path, newer: Path, *, rounds: int = 12) -> Grid:
    """Milliseconds of processor time per photo, and the median of the differences."""
    detectors = [Detector.load(path, threads=1) for path in (older, newer)]
    spent: list[list[float]] = []
    for photo in [*sample_paths()] * (rounds + 1):
        spent.append([])
        for detector in detectors:
            start = time.thread_time()
            detector.words(photo)
            spent[-1].append(1e3 * (time.thread_time() - start))
    taken = np.array(spent[len(spent) // (rounds + 1) :])  # without the first round
    middle = [*np.median(taken, axis=0), np.median(taken[:, 1] - taken[:, 0])]
    row = ("median", *(f"{value:.1f}" for value in middle))
    names = (older.name, newer.name, "difference")
    return Grid(("CPU ms", *names), (row,), title=f"{len(taken)} runs of each, one thread")


if __name__ == "__main__":
    main()
