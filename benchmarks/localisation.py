"""The pointing game: does the peak of a word's response map fall into a box of what it names?

    python benchmarks/localisation.py DETECTOR --images coco-test-00.tar \
        --boxes coco-test-boxes.json.gz
    python benchmarks/localisation.py MIL CLASSIFICATION --images pascal1k-00.tar \
        --boxes pascal1k-boxes.json.gz
    python benchmarks/localisation.py runs/baselines/*.npz --images coco-test-00.tar \
        --boxes coco-test-boxes.json.gz

A pair of image and word counts if a caption of the image has the word and the image has a box of a
class that the word names (the lists are below). It is a hit if the middle of the region with the
highest probability lies in one of those boxes. Beside it, the same game for the image's centre.
`small` are the pairs whose boxes together cover less than a quarter of the image. A
Classification detector is judged by its class activation map. A detector is a directory, or a file
of peaks that `words_baselines.py` wrote. Boxes: a JSON object, gzipped or not,
id -> [{"label": ..., "box": [x0, y0, x1, y1] in 0..1}]; labels of COCO or of PASCAL VOC.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.evaluate.grid import Grid
from sightwords.evaluate.ids import canonical_id
from sightwords.images import decode
from sightwords.metrics.word_ap import CAPTIONS
from sightwords.text.ptb import tokenize_all
from sightwords.types import Box, Example
from sightwords.words.boxes import peak_points
from sightwords.words.detector import Detector

# A word is listed where what it usually means in a caption always has a box of the class. Left out
# for that reason: light (lamps), sign (other signs), plant (unpotted), glass (no wine), orange (the
# colour), hot, computer, couple, crowd, bag, screen. Plurals are listed beside the singular.
NAMES = {
    "person": "person people man men woman women boy boys girl girls child children kid kids guy "
    "guys lady ladies baby toddler adults someone player players batter catcher umpire skier "
    "skiers surfer surfers snowboarder snowboarders boarder skateboarder skateboarders rider "
    "riders passenger passengers pedestrians mother friends family",
    "bicycle": "bicycle bicycles bike bikes",
    "car": "car cars van vehicle vehicles",
    "motorcycle": "motorcycle motorcycles motorbike motorbikes bike bikes scooter vehicle vehicles",
    "airplane": "airplane airplanes plane planes jet jets aircraft airliner",
    "bus": "bus buses vehicle vehicles",
    "train": "train trains",
    "truck": "truck trucks van vehicle vehicles",
    "boat": "boat boats ship ships sailboat sailboats",
    "fire hydrant": "hydrant hydrants",
    "stop sign": "stop",
    "parking meter": "meter meters",
    "bench": "bench benches",
    "bird": "bird birds duck ducks seagull seagulls",
    "cat": "cat cats kitten kittens",
    "dog": "dog dogs puppy puppies",
    "horse": "horse horses",
    "sheep": "sheep lamb lambs",
    "cow": "cow cows cattle bull bulls",
    "elephant": "elephant elephants",
    "bear": "bear bears",
    "zebra": "zebra zebras",
    "giraffe": "giraffe giraffes",
    "backpack": "backpack backpacks",
    "umbrella": "umbrella umbrellas",
    "handbag": "handbag handbags purse",
    "tie": "tie ties",
    "suitcase": "suitcase suitcases luggage",
    "frisbee": "frisbee frisbees",
    "skis": "ski skis",
    "snowboard": "snowboard snowboards board boards",
    "sports ball": "ball balls",
    "kite": "kite kites",
    "baseball bat": "bat bats",
    "baseball glove": "glove gloves mitt",
    "skateboard": "skateboard skateboards board boards",
    "surfboard": "surfboard surfboards board boards",
    "tennis racket": "racket rackets racquet racquets",
    "bottle": "bottle bottles",
    "cup": "cup cups mug mugs",
    "fork": "fork forks",
    "knife": "knife knives",
    "spoon": "spoon spoons",
    "bowl": "bowl bowls",
    "banana": "banana bananas",
    "apple": "apple apples",
    "sandwich": "sandwich sandwiches",
    "orange": "oranges",
    "broccoli": "broccoli",
    "carrot": "carrot carrots",
    "hot dog": "hotdog hotdogs",
    "pizza": "pizza pizzas",
    "donut": "donut donuts doughnut doughnuts",
    "cake": "cake cakes",
    "chair": "chair chairs",
    "couch": "couch couches sofa sofas",
    "bed": "bed beds",
    "dining table": "table tables",
    "toilet": "toilet toilets",
    "tv": "tv tvs television televisions monitor monitors",
    "laptop": "laptop laptops",
    "mouse": "mouse",
    "remote": "remote remotes controller controllers",
    "keyboard": "keyboard keyboards",
    "cell phone": "phone phones cellphone cellphones",
    "microwave": "microwave microwaves",
    "oven": "oven ovens stove stoves",
    "toaster": "toaster toasters",
    "sink": "sink sinks",
    "refrigerator": "refrigerator refrigerators fridge",
    "book": "book books",
    "clock": "clock clocks",
    "vase": "vase vases",
    "scissors": "scissors",
    "teddy bear": "teddy bear bears",
    "toothbrush": "toothbrush toothbrushes",
}
"""COCO class -> words for it. Several classes may share a word: any of their boxes is right."""

PASCAL = {
    "aeroplane": "airplane",
    "diningtable": "dining table",
    "motorbike": "motorcycle",
    "pottedplant": "potted plant",
    "sofa": "couch",
    "tvmonitor": "tv",
}
"""PASCAL VOC's labels where they differ from COCO's."""

SMALL = 0.25
Boxes = Mapping[str, Sequence[Box]]
Points = Mapping[str, tuple[float, float]]
"""Word -> x and y in fractions of the image."""


@dataclass(frozen=True)
class Pair:
    """One word of one image, and whether the game was won."""

    label: str
    hit: bool
    centre_hit: bool
    small: bool


def main() -> None:
    args = arguments()
    boxes = read_boxes(args.boxes)
    corpus = [e for e in open_corpus(args.images) if boxes.get(e.id)][: args.limit]
    if not corpus:
        raise SystemExit(f"{args.boxes}: no boxes for any image of {', '.join(args.images)}")
    games = {path.name: game(path, corpus, boxes, threads=args.threads) for path in args.detectors}
    for name, pairs in games.items():
        print(report(pairs, f"{name}, {len(corpus)} images").markdown() + "\n")
        if args.classes:
            print(by_class(pairs).markdown() + "\n")
    if len(games) > 1:
        print(comparison(games).markdown() + "\n")


def game(
    path: Path, corpus: Sequence[Example], boxes: Mapping[str, Boxes], *, threads: int = 1
) -> list[Pair]:
    """All pairs of a detector directory or of a file of peaks."""
    if path.suffix == ".npz":
        points = stored_points(path)
        absent = [e.id for e in corpus if canonical_id(e.id) not in points]
        if absent:
            raise SystemExit(f"{path}: no peaks of {len(absent)} images, {absent[0]} among them")
        return [p for e in corpus for p in judged(points[canonical_id(e.id)], e, boxes[e.id])]
    detector = Detector.load(path, threads=threads, calibrated=False)
    return [p for e in corpus for p in play(detector, e, boxes[e.id])]


def read_boxes(path: Path) -> dict[str, dict[str, list[Box]]]:
    """Id -> COCO class -> boxes."""
    raw = path.read_bytes()
    content = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    found: dict[str, dict[str, list[Box]]] = {}
    for key, objects in content.items():
        found[key] = defaultdict(list)
        for thing in objects:
            label = PASCAL.get(thing["label"], thing["label"])
            found[key][label].append(Box(*thing["box"]))
    return found


def targets(captions: Sequence[str], boxes: Boxes) -> dict[str, tuple[str, list[Box]]]:
    """Words that the captions say and that have boxes -> a class and all boxes that are right.

    >>> targets(["a dog on a bike"], {"dog": [Box(0, 0, 1, 1)], "tv": [Box(0, 0, 1, 1)]})
    {'dog': ('dog', [Box(x0=0, y0=0, x1=1, y1=1)])}
    """
    said = {token for tokens in tokenize_all(captions[:CAPTIONS]) for token in tokens}
    found: dict[str, tuple[str, list[Box]]] = {}
    for label, names in NAMES.items():
        for word in names.split():
            if word in said and boxes.get(label):
                first, others = found.get(word, (label, []))
                found[word] = (first, [*others, *boxes[label]])
    return found


def play(detector: Detector, example: Example, boxes: Boxes) -> list[Pair]:
    """All pairs of one image."""
    assert example.image is not None
    known = set(detector.vocabulary.words)
    wanted = [word for word in targets(example.captions, boxes) if word in known]
    if not wanted:
        return []
    regions = detector(decode(example.image), name=example.id)
    assert regions.corners is not None
    places = [detector.vocabulary.index(word) for word in wanted]
    points = peak_points(regions.region_probs[..., places], regions.corners)
    found = {word: (float(x), float(y)) for word, (x, y) in zip(wanted, points, strict=True)}
    return judged(found, example, boxes)


def judged(points: Points, example: Example, boxes: Boxes) -> list[Pair]:
    """The pairs of one image whose words have a point."""
    return [
        Pair(label, inside(*points[word], right), inside(0.5, 0.5, right), covered(right) < SMALL)
        for word, (label, right) in targets(example.captions, boxes).items()
        if word in points
    ]


def stored_points(path: Path) -> dict[str, Points]:
    """Id -> word -> where its map is highest, from a file of `words_baselines.py`."""
    with np.load(path, allow_pickle=False) as arrays:
        ids, words = arrays["ids"].tolist(), arrays["peak_words"].tolist()
        corners, peaks = arrays["corners"], arrays["peaks"]  # (regions, 4), (N, n)
    middles = (corners[:, :2] + corners[:, 2:]) / 2
    return {
        key: {w: (float(x), float(y)) for w, (x, y) in zip(words, middles[row], strict=True)}
        for key, row in zip(ids, peaks, strict=True)
    }


def inside(x: float, y: float, boxes: Iterable[Box]) -> bool:
    return any(b.x0 <= x <= b.x1 and b.y0 <= y <= b.y1 for b in boxes)


def covered(boxes: Iterable[Box], *, cells: int = 200) -> float:
    """Share of the image under the boxes together.

    >>> covered([Box(0, 0, 0.5, 0.5), Box(0, 0, 0.5, 0.25)])
    0.25
    """
    middles = (np.arange(cells) + 0.5) / cells
    under = np.zeros((cells, cells), dtype=np.bool_)
    for b in boxes:
        across = (b.x0 <= middles) & (middles <= b.x1)
        under |= ((b.y0 <= middles) & (middles <= b.y1))[:, None] & across
    return float(under.mean())


def report(pairs: Sequence[Pair], title: str) -> Grid:
    """Per cent over pairs, over classes (each counting once), and over small things."""
    small = [p for p in pairs if p.small]
    classes = grouped(pairs)
    rows = [_shares("peak of the map", pairs, "hit"), _shares("centre", pairs, "centre_hit")]
    rows.append(("pairs, classes, pairs", str(len(pairs)), str(len(classes)), str(len(small))))
    return Grid(("", "pairs, %", "mean of classes, %", "small, %"), tuple(rows), title=title)


def comparison(games: Mapping[str, Sequence[Pair]]) -> Grid:
    """A row a detector, the image's centre last; columns as in `report`."""
    rows = [_shares(name, pairs, "hit") for name, pairs in games.items()]
    first = next(iter(games.values()))
    rows.append(_shares("centre of the image", first, "centre_hit"))
    return Grid(("", "pairs, %", "mean of classes, %", "small, %"), tuple(rows))


def _shares(name: str, pairs: Sequence[Pair], field: str) -> tuple[str, ...]:
    of_classes = [share(members, field) for members in grouped(pairs).values()]
    small = [p for p in pairs if p.small]
    values = (share(pairs, field), float(np.mean(of_classes)), share(small, field))
    return (name, *(f"{value:.1f}" for value in values))


def by_class(pairs: Sequence[Pair]) -> Grid:
    """One row a class, the best first."""
    classes = sorted(grouped(pairs).items(), key=lambda item: -share(item[1], "hit"))
    rows = (
        (label, str(len(of)), f"{share(of, 'hit'):.0f}", f"{share(of, 'centre_hit'):.0f}")
        for label, of in classes
    )
    return Grid(("class", "pairs", "peak, %", "centre, %"), tuple(rows))


def grouped(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    classes: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        classes[pair.label].append(pair)
    return classes


def share(pairs: Sequence[Pair], field: str) -> float:
    return 100 * float(np.mean([getattr(p, field) for p in pairs])) if pairs else float("nan")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("detectors", nargs="+", type=Path, help="directories, or files of peaks")
    parser.add_argument("--images", nargs="+", required=True, help="captioned shards")
    parser.add_argument("--boxes", type=Path, required=True)
    parser.add_argument("--classes", action="store_true", help="a row a class as well")
    parser.add_argument("--limit", type=int, help="the first N images that have boxes")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
