"""Spoilt photos: does the caption stay sensible, and does its confidence fall with it?

    python benchmarks/robustness.py coco-val-00.tar --images 500
    python benchmarks/robustness.py coco-val-00.tar --images 200 --bundle mine --show 3

SOURCE is any captioned corpus with its images. The first N images of it are captioned as they are
and under each change; CIDEr-D is against their own captions, with document frequencies of the
whole source, and stands beside the mean confidence. At the end, rank correlation over all captions
says whether confidence falls where CIDEr does, and blank images are captioned, which deserve none.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context

import numpy as np
from PIL import Image, ImageFilter

import sightwords
from sightwords.corpus.open import open_corpus
from sightwords.images import decode
from sightwords.metrics.cider import CiderIdf, cider
from sightwords.metrics.score import Comparison
from sightwords.pipeline import Captioner
from sightwords.text.ptb import tokenize_all
from sightwords.types import Caption, ImageRef

Change = Callable[[Image.Image], Image.Image]


def blur(image: Image.Image, *, share: float) -> Image.Image:
    """A Gaussian whose deviation is a share of the longer side."""
    return image.filter(ImageFilter.GaussianBlur(share * max(image.size)))


def middle(image: Image.Image, *, share: float) -> Image.Image:
    """The middle of the image, of this share of its area."""
    return _cut(image, share, left=0.5, top=0.5)


def corner(image: Image.Image, *, share: float) -> Image.Image:
    return _cut(image, share, left=0.0, top=0.0)


def _cut(image: Image.Image, share: float, *, left: float, top: float) -> Image.Image:
    width, height = (max(1, round(side * share**0.5)) for side in image.size)
    x, y = round(left * (image.width - width)), round(top * (image.height - height))
    return image.crop((x, y, x + width, y + height))


def turn(image: Image.Image, *, degrees: float) -> Image.Image:
    """Counter-clockwise; corners that open are black."""
    return image.rotate(degrees, expand=True, resample=Image.Resampling.BICUBIC)


def grey(image: Image.Image) -> Image.Image:
    return image.convert("L").convert("RGB")


def thumbnail(image: Image.Image, *, longer_side_px: int) -> Image.Image:
    small = image.copy()
    small.thumbnail((longer_side_px, longer_side_px))
    return small


def noise(image: Image.Image, *, deviation: float) -> Image.Image:
    drawn = np.random.default_rng(0).normal(0, 255 * deviation, (image.height, image.width, 3))
    return Image.fromarray(np.clip(np.asarray(image) + drawn, 0, 255).astype(np.uint8))


CHANGES: dict[str, Change] = {
    "as it is": lambda image: image,
    "blur, 1 % of the side": partial(blur, share=0.01),
    "blur, 3 %": partial(blur, share=0.03),
    "middle half": partial(middle, share=0.5),
    "middle eighth": partial(middle, share=0.125),
    "corner quarter": partial(corner, share=0.25),
    "turned by 15 degrees": partial(turn, degrees=15),
    "turned by 90 degrees": partial(turn, degrees=90),
    "upside down": partial(turn, degrees=180),
    "grey": grey,
    "noise, deviation .2": partial(noise, deviation=0.2),
    "thumbnail, 64 px": partial(thumbnail, longer_side_px=64),
    "thumbnail, 32 px": partial(thumbnail, longer_side_px=32),
}
BLANKS = {name: Image.new("RGB", (640, 480), name) for name in ("white", "black", "grey", "navy")}


@dataclass(frozen=True)
class Photo:
    """An image with its captions."""

    id: str
    image: ImageRef
    captions: tuple[str, ...]


def main() -> None:
    args = arguments()
    corpus = [e for e in open_corpus(args.source, images=args.images_in) if e.image and e.captions]
    idf = CiderIdf.of([tuple(map(tuple, tokenize_all(e.captions))) for e in corpus])
    photos = [Photo(e.id, e.image, e.captions) for e in islice(corpus, args.images) if e.image]
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        jobs = [(photo, args.bundle) for photo in photos]
        rows = list(pool.map(captions_of, jobs, chunksize=4))
    print(f"{len(photos)} images of {args.source}; {sightwords.__version__}\n")
    print("| change | CIDEr-D | mean confidence | words a caption |\n|---|---|---|---|")
    sure: list[float] = []
    good: list[float] = []
    for place, name in enumerate(CHANGES):
        captions = [row[place] for row in rows]
        score = of_each(photos, captions, idf)
        sure += [caption.confidence for caption in captions]
        good += score
        length = np.mean([len(caption.text.split()) for caption in captions])
        confidence = np.mean([caption.confidence for caption in captions])
        print(f"| {name} | {np.mean(score):.3f} | {confidence:.3f} | {length:.1f} |")
    print(f"\nrank correlation of confidence and CIDEr-D over all: {spearman(sure, good):.3f}")
    for name, image in BLANKS.items():
        caption = loaded(args.bundle)(image)
        print(f"blank {name}: confidence {caption.confidence:.3f}: {caption.text}")
    show(photos[: args.show], rows)


def show(photos: Iterable[Photo], rows: list[list[Caption]]) -> None:
    for photo, row in zip(photos, rows, strict=False):
        print(f"\n{photo.id}")
        for name, caption in zip(CHANGES, row, strict=True):
            print(f"  {name:22s} {caption.confidence:.2f}  {caption.text}")


def of_each(photos: list[Photo], captions: list[Caption], idf: CiderIdf) -> list[float]:
    pairs = Comparison.of(
        {p.id: c.text for p, c in zip(photos, captions, strict=True)},
        {p.id: p.captions for p in photos},
    )
    return [float(value) for value in cider(pairs, idf=idf).per_image]


@cache
def loaded(bundle: str | None) -> Captioner:
    return sightwords.load(bundle, threads=1)


def captions_of(job: tuple[Photo, str | None]) -> list[Caption]:
    """The photo's caption under every change."""
    photo, bundle = job
    image = decode(photo.image)
    return [loaded(bundle)(change(image)) for change in CHANGES.values()]


def spearman(one: list[float], other: list[float]) -> float:
    """Rank correlation; ties share their mean rank."""
    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def ranks(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """From 0; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: np.ndarray[tuple[int], np.dtype[np.float64]] = (last - (counts + 1) / 2)[places]
    return means


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="a captioned corpus")
    parser.add_argument("--images-in", metavar="DIR", help="its images, where they lie elsewhere")
    parser.add_argument("--images", type=int, default=500, metavar="N")
    parser.add_argument("--bundle", help="default: the one inside the package")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print captions of N")
    return parser.parse_args()


if __name__ == "__main__":
    main()
