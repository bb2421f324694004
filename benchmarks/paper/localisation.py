"""The pointing game: does the peak of a word's response map fall into a box of what it names?

    python benchmarks/paper/localisation.py DETECTOR --images coco-test-00.tar \
        --boxes coco-test-boxes.json.gz --regions --groups
    python benchmarks/paper/localisation.py MIL CLASSIFICATION --images pascal1k-00.tar \
        --boxes pascal1k-boxes.json.gz
    python benchmarks/paper/localisation.py runs/baselines/*.npz --images coco-test-00.tar \
        --boxes coco-test-boxes.json.gz

A pair of image and word counts if a caption of the image has the word and the image has a box of a
class that the word names (the lists are below). It is a hit if the highest point of the word's map
(`words.maps`) lies in one of those boxes. Beside it, the same game for the image's centre, and
with `--regions` for the middle of the likeliest region. `small` are the pairs whose boxes together
cover less than a quarter of the image; `box` is the share of pairs where the word's own box and one
of the thing's have half of their union in common. A Classification detector is judged by its class
activation map. A detector is a directory, or a file of peaks that `words_baselines.py` wrote.
Boxes: a JSON object, gzipped or not, id -> [{"label": ..., "box": [x0, y0, x1, y1] in 0..1}] with
labels of COCO or of PASCAL VOC; or a file of COCO's instances.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.grid import Grid
from sightwords.images import decode
from sightwords.metrics.word_ap import CAPTIONS
from sightwords.text.ptb import tokenize_all
from sightwords.types import Box, Example
from sightwords.words.detector import Detector
from sightwords.words.maps import word_maps

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

GROUPS = {
    "people": "person",
    "animals": "bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe",
    "vehicles": "bicycle,car,motorcycle,airplane,bus,train,truck,boat",
    "street": "fire hydrant,stop sign,parking meter,bench",
    "sports": "frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,"
    "surfboard,tennis racket",
    "worn and carried": "backpack,umbrella,handbag,tie,suitcase",
    "table and kitchen": "bottle,cup,fork,knife,spoon,bowl,microwave,oven,toaster,sink,"
    "refrigerator",
    "food": "banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake",
    "furniture": "chair,couch,bed,dining table,toilet",
    "electronics": "tv,laptop,mouse,remote,keyboard,cell phone",
    "small things indoors": "book,clock,vase,scissors,teddy bear,toothbrush",
}
"""COCO's kinds of things, with words of our own."""

SMALL = 0.25
HALF = 0.5
COLUMNS = ("", "pairs, %", "mean of classes, %", "small, %", "box, %")
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
    overlap: float = float("nan")
    """Intersection over union of the word's box with the thing's, the best of them."""


def main() -> None:
    args = arguments()
    boxes = read_boxes(args.boxes)
    corpus = [e for e in open_corpus(args.images) if boxes.get(e.id)][: args.limit]
    if not corpus:
        raise SystemExit(f"{args.boxes}: no boxes for any image of {', '.join(args.images)}")
    games: dict[str, list[Pair]] = {}
    for path in args.detectors:
        pairs, by_regions = both_games(path, corpus, boxes, threads=args.threads)
        games |= {f"{path.name}, regions": by_regions} if args.regions and by_regions else {}
        games[path.name] = pairs
    for name, pairs in games.items():
        print(report(pairs, f"{name}, {len(corpus)} images").markdown() + "\n")
        if args.classes:
            print(by_class(pairs).markdown() + "\n")
    if len(games) > 1:
        print(comparison(games).markdown() + "\n")
    if args.groups:
        print(by_group(games).markdown() + "\n")


def game(
    path: Path, corpus: Sequence[Example], boxes: Mapping[str, Boxes], *, threads: int = 1
) -> list[Pair]:
    """All pairs of a detector directory or of a file of peaks."""
    return both_games(path, corpus, boxes, threads=threads)[0]


def both_games(
    path: Path, corpus: Sequence[Example], boxes: Mapping[str, Boxes], *, threads: int = 1
) -> tuple[list[Pair], list[Pair]]:
    """All pairs by the maps of places, and by those of regions (none from a file of peaks)."""
    if path.suffix == ".npz":
        points = stored_points(path)
        absent = [e.id for e in corpus if canonical_id(e.id) not in points]
        if absent:
            raise SystemExit(f"{path}: no peaks of {len(absent)} images, {absent[0]} among them")
        return [p for e in corpus for p in judged(points[canonical_id(e.id)], e, boxes[e.id])], []
    detector = Detector.load(path, threads=threads, calibrated=False)
    played = [play(detector, e, boxes[e.id]) for e in corpus]
    return [p for pairs, _ in played for p in pairs], [p for _, pairs in played for p in pairs]


def read_boxes(path: Path) -> dict[str, dict[str, list[Box]]]:
    """Id -> COCO class -> boxes."""
    raw = path.read_bytes()
    content = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    if "annotations" in content:
        content = coco_boxes(content)
    found: dict[str, dict[str, list[Box]]] = {}
    for key, objects in content.items():
        found[key] = defaultdict(list)
        for thing in objects:
            label = PASCAL.get(thing["label"], thing["label"])
            found[key][label].append(Box(*thing["box"]))
    return found


def coco_boxes(content: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What this script reads, from COCO's `instances_*.json`."""
    sizes = {i["id"]: (i["width"], i["height"]) for i in content["images"]}
    labels = {c["id"]: c["name"] for c in content["categories"]}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for thing in content["annotations"]:
        (width, height), (x, y, w, h) = sizes[thing["image_id"]], thing["bbox"]
        box = [x / width, y / height, (x + w) / width, (y + h) / height]
        found[f"{thing['image_id']:012d}"].append(
            {"label": labels[thing["category_id"]], "box": box}
        )
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


def play(detector: Detector, example: Example, boxes: Boxes) -> tuple[list[Pair], list[Pair]]:
    """All pairs of one image, by the maps of places and by those of regions."""
    assert example.image is not None
    known = set(detector.vocabulary.words)
    wanted = [word for word in targets(example.captions, boxes) if word in known]
    if not wanted:
        return [], []
    seen = detector(decode(example.image), name=example.id)
    chosen = [detector.vocabulary.index(word) for word in wanted]
    games = []
    for regions in (seen, replace(seen, patches=None)):
        found = word_maps(regions, chosen)
        points = {w: (float(x), float(y)) for w, (x, y) in zip(wanted, found.points(), strict=True)}
        drawn = dict(zip(wanted, found.boxes(), strict=True))
        games.append(judged(points, example, boxes, drawn=drawn))
    return games[0], games[1]


def judged(
    points: Points, example: Example, boxes: Boxes, *, drawn: Mapping[str, Box] | None = None
) -> list[Pair]:
    """The pairs of one image whose words have a point; `drawn` are the words' own boxes."""
    return [
        Pair(
            label,
            inside(*points[word], right),
            inside(0.5, 0.5, right),
            covered(right) < SMALL,
            max(overlap(drawn[word], b) for b in right) if drawn else float("nan"),
        )
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


def overlap(a: Box, b: Box) -> float:
    """Intersection over union.

    >>> overlap(Box(0, 0, 0.5, 1), Box(0.25, 0, 0.75, 1))
    0.3333333333333333
    """
    width = max(0.0, min(a.x1, b.x1) - max(a.x0, b.x0))
    height = max(0.0, min(a.y1, b.y1) - max(a.y0, b.y0))
    areas = (a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0)
    return width * height / (areas - width * height)


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
    counts = (str(len(pairs)), str(len(classes)), str(len(small)), str(len(pairs)))
    rows.append(("pairs, classes, pairs, pairs", *counts))
    return Grid(COLUMNS, tuple(rows), title=title)


def comparison(games: Mapping[str, Sequence[Pair]]) -> Grid:
    """A row a detector, the image's centre last; columns as in `report`."""
    rows = [_shares(name, pairs, "hit") for name, pairs in games.items()]
    first = next(iter(games.values()))
    rows.append(_shares("centre of the image", first, "centre_hit"))
    shown = 5 if any(row[4] for row in rows) else 4  # files of peaks have no boxes
    return Grid(COLUMNS[:shown], tuple(row[:shown] for row in rows))


def _shares(name: str, pairs: Sequence[Pair], field: str) -> tuple[str, ...]:
    of_classes = [share(members, field) for members in grouped(pairs).values()]
    small = [p for p in pairs if p.small]
    values = (share(pairs, field), float(np.mean(of_classes)), share(small, field))
    halves = [p.overlap >= HALF for p in pairs if not np.isnan(p.overlap) and field == "hit"]
    box = f"{100 * float(np.mean(halves)):.1f}" if halves else ""
    return (name, *(f"{value:.1f}" for value in values), box)


def by_group(games: Mapping[str, Sequence[Pair]]) -> Grid:
    """One row a kind of things: its pairs, per cent of them by each game, and by the centre."""
    rows = []
    for group, classes in GROUPS.items():
        of = [[p for p in pairs if p.label in classes.split(",")] for pairs in games.values()]
        if of[0]:
            hits = [f"{share(pairs, 'hit'):.1f}" for pairs in of]
            rows.append((group, str(len(of[0])), *hits, f"{share(of[0], 'centre_hit'):.1f}"))
    return Grid(("", "pairs", *(f"{name}, %" for name in games), "centre, %"), tuple(rows))


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
    parser.add_argument("--groups", action="store_true", help="a row a kind of things as well")
    parser.add_argument("--regions", action="store_true", help="play by regions' maps as well")
    parser.add_argument("--limit", type=int, help="the first N images that have boxes")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
