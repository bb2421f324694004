"""Photos of PASCAL sentences with the captions of several systems (the paper's Figure 4).

    python benchmarks/paper/pascal_figure.py pascal1k-00.tar --out pascal.jpg \
        --captions 'sightwords=captions/pascal1k/sightwords.json' \
                   'VGG=captions/pascal1k/VGG+Score+DMSM+ft.json'

The captions are those that `paper_rows.py score` left, one colour per system. The photos are the
first of a seeded shuffle of the ids, chosen by nobody; `--ids` names others. The picture is not
part of this repository: the photos are not ours to pass on.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.results import read_results
from sightwords.images import decode

COLOURS = ("black", "#1f4fbf", "#b3261e", "#1b6e3c")
COLUMNS, WIDTH, HEIGHT, GAP, LINE = 4, 300, 225, 14, 17
LETTERS = 42
"""A line of text beneath a photo."""


def main() -> None:
    args = arguments()
    systems = dict(pair.split("=", 1) for pair in args.captions)
    captions = {name: dict(read_results(Path(path))) for name, path in systems.items()}
    examples = {canonical_id(e.id): e for e in open_corpus(args.source)}
    ids = args.ids or shuffled(sorted(examples), args.count, seed=args.seed)
    images = [decode(image) for i in ids if (image := examples[i].image) is not None]
    said = [{name: found[i] for name, found in captions.items()} for i in ids]
    sheet(images, said).save(args.out, quality=90)
    print(f"{args.out}: {', '.join(ids)}")


def shuffled(ids: Sequence[str], count: int, *, seed: int) -> list[str]:
    """The first of a seeded shuffle.

    >>> shuffled(["1", "2", "3"], 2, seed=0)
    ['3', '1']
    """
    order = np.random.default_rng(seed).permutation(len(ids))
    return [ids[place] for place in order[:count]]


def sheet(images: Sequence[Image.Image], said: Sequence[Mapping[str, str]]) -> Image.Image:
    """Rows of photos, captions beneath each in the colour of its system."""
    texts = [lines(captions) for captions in said]
    tall = HEIGHT + LINE * (max(map(len, texts)) + 1)
    rows = -(-len(images) // COLUMNS)
    page = Image.new("RGB", (COLUMNS * (WIDTH + GAP), rows * (tall + GAP)), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=13)
    for place, (image, text) in enumerate(zip(images, texts, strict=True)):
        left, top = place % COLUMNS * (WIDTH + GAP), place // COLUMNS * (tall + GAP)
        small = image.copy()
        small.thumbnail((WIDTH, HEIGHT))
        page.paste(small, (left + (WIDTH - small.width) // 2, top + HEIGHT - small.height))
        for row, (line, colour) in enumerate(text):
            draw.text((left + 4, top + HEIGHT + 6 + row * LINE), line, fill=colour, font=font)
    return page


def lines(captions: Mapping[str, str]) -> list[tuple[str, str]]:
    """Lines of text with their colours.

    >>> lines({"ours": "a dog", "theirs": "a cat"})
    [('ours: a dog', 'black'), ('theirs: a cat', '#1f4fbf')]
    """
    return [
        (line, COLOURS[number % len(COLOURS)])
        for number, (name, caption) in enumerate(captions.items())
        for line in textwrap.wrap(f"{name}: {caption}", LETTERS)
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="the photos")
    parser.add_argument("--captions", nargs="+", required=True, help="SYSTEM=FILE")
    parser.add_argument("--ids", nargs="+", help="these photos")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
