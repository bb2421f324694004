"""START HERE: creates a study: draws pairs and check cases, stores photos, adds judges.

photos, captions of A, captions of B -> Store
"""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.folder import is_image_name
from sightwords.corpus.ids import canonical_id
from sightwords.errors import ImageError, StudyError
from sightwords.evaluate.results import read_results
from sightwords.images import decode_apart
from sightwords.study.draw import (
    DrawnPairs,
    Similarity,
    draw_checks,
    draw_pairs,
    text_similarity,
)
from sightwords.study.judging import add_judges
from sightwords.study.model import Design, Pair, Photo
from sightwords.study.store import Store, create_store
from sightwords.types import Example, ImageRef

log = logging.getLogger(__name__)

PHOTO_PX = 1024
"""The longer side of a photo shown to judges."""

CHECK_POOL = 20
"""Check cases in a study; each judge gets a few of them."""


def create_study(
    where: str,
    design: Design,
    *,
    images: str | Path,
    system: str | Path | Mapping[str, str],
    against: str | Path | Mapping[str, str] | None = None,
    all_pairs: bool = False,
    similarity: Similarity | None = None,
) -> Store:
    """Draw and store a study, with its judges.

    `images` is any source that `open_corpus` reads, or a folder that holds only photos. Its human
    captions are the other side (if `against` is None), the captions of check cases, and the
    references. `similarity` measures how well captions fit images, to choose the wrong captions of
    check cases: DMSM, or TF-IDF of the captions if None. With `all_pairs`, every image with
    captions of both sides is used, and `design.pairs` is ignored.
    """
    captions = _read_captions(images)
    first = _captions_of(system)
    second = None if against is None else _captions_of(against)
    count = None if all_pairs else design.pairs
    while True:
        rng = np.random.default_rng(design.seed)
        drawn = draw_pairs(captions, first, second, count=count, rng=rng)
        checks = _draw_checks(captions, drawn, design, similarity, rng=rng)
        photos, unreadable = _load_photos(images, {*_images(drawn.pairs), *_images(checks)}, drawn)
        if not unreadable:
            break
        log.warning("%d unreadable images are left out", len(unreadable))
        captions = {image: said for image, said in captions.items() if image not in unreadable}
    measure = design.checks_by or ("given" if similarity else "TF-IDF of captions")
    design = replace(
        design,
        pairs=len(drawn.pairs),
        checks_by=measure if checks else "",
        source=design.source or Path(images).name,
    )
    store = create_store(where, design, photos, [*drawn.pairs, *checks])
    with store.write() as connection:
        add_judges(connection, design.judges)
    return store


def encode_photo(image: ImageRef) -> bytes:
    """A JPEG for judges: upright, at most 1024 px, without metadata that could identify it."""
    picture = decode_apart(image)
    picture.thumbnail((PHOTO_PX, PHOTO_PX))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _captions_of(results: str | Path | Mapping[str, str]) -> dict[str, str]:
    if isinstance(results, (str, Path)):
        return read_results(results)
    return {canonical_id(image): caption for image, caption in results.items()}


def _examples(source: str | Path) -> Iterable[Example]:
    """Anything that `open_corpus` reads, or a folder that holds only photos."""
    folder = Path(source)
    files = sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []
    if files and all(is_image_name(path.name) for path in files):
        return [Example(p.stem, ImageRef(str(p)), (), "", folder.name) for p in files]
    return open_corpus(str(source), need_captions=False)


def _read_captions(images: str | Path) -> dict[str, tuple[str, ...]]:
    """The human captions (possibly none) of every image that has a photo."""
    found = {
        canonical_id(example.id): example.captions
        for example in _examples(images)
        if example.image is not None
    }
    if not found:
        raise StudyError(f"{images}: no photos found; judges need to see them")
    return found


def _draw_checks(
    captions: Mapping[str, tuple[str, ...]],
    drawn: DrawnPairs,
    design: Design,
    similarity: Similarity | None,
    *,
    rng: np.random.Generator,
) -> tuple[Pair, ...]:
    """Check cases, on images that are in no pair if there are enough of them."""
    if not design.checks_per_judge:
        return ()
    shown = _images(drawn.pairs)
    captioned = sorted(image for image, said in captions.items() if said)
    spare = [image for image in captioned if image not in shown]
    pool = spare if len(spare) >= design.checks_per_judge else captioned
    count = max(design.checks_per_judge, min(CHECK_POOL, len(pool)))
    measure = similarity or text_similarity({image: captions[image] for image in captioned})
    return draw_checks(captions, pool, count=count, similarity=measure, rng=rng)


def _images(pairs: Collection[Pair]) -> set[str]:
    return {pair.image for pair in pairs}


def _load_photos(
    source: str | Path, wanted: set[str], drawn: DrawnPairs
) -> tuple[list[Photo], set[str]]:
    """The photos, and the ids of unreadable ones."""
    photos: dict[str, Photo] = {}
    unreadable: set[str] = set()
    for example in _examples(source):
        image = canonical_id(example.id)
        if image not in wanted or image in photos or example.image is None:
            continue
        try:
            jpeg = encode_photo(example.image)
        except ImageError as error:
            log.warning("%s", error)
            unreadable.add(image)
            continue
        photos[image] = Photo(image, jpeg, drawn.references.get(image, ()))
    return list(photos.values()), unreadable
