"""Does the DMSM find the sentence of a photo, and the photo of a sentence (section 5.1)?

    image and text vectors -> recall at 1, 5, 10 and the median rank, both ways

As Hodosh et al. (2013) and those after them count: of an image's captions the one that ranks best;
1,000 images x 5 captions each. Of equal similarities the wrong one ranks first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError
from sightwords.types import FloatArray

CUTS = (1, 5, 10)
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recalls:
    """One direction."""

    at_1: float
    at_5: float
    at_10: float
    median_rank: float
    """1 is the best."""

    def row(self) -> str:
        """For tables: shares in per cent."""
        shares = (f"{100 * value:.1f}" for value in (self.at_1, self.at_5, self.at_10))
        return f"{' | '.join(shares)} | {self.median_rank:g}"


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Both directions, and how many there were to choose from."""

    image_to_text: Recalls
    text_to_image: Recalls
    images: int
    captions: int

    def markdown(self, name: str) -> str:
        """A row of `HEADER`'s table."""
        return f"| {name} | {self.image_to_text.row()} | {self.text_to_image.row()} |"


HEADER = (
    "| | image to text R@1 | R@5 | R@10 | median | text to image R@1 | R@5 | R@10 | median |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def retrieval(images: FloatArray, texts: FloatArray, owners: Sequence[int] | IntArray) -> Retrieval:
    """Rank every caption for each image and every image for each caption.

    `images` (N, S) and `texts` (C, S) are vectors of length 1; `owners` (C,) is the image of each
    caption, and every image has one.

    >>> found = retrieval(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0]],
    ...                   [0, 1, 1])
    >>> found.image_to_text.at_1, found.text_to_image.at_1
    (0.5, 0.6666666666666666)
    """
    places = np.asarray(owners, dtype=np.int64)
    _check(images, texts, places)
    similarity = images @ texts.T  # (N, C); 20 MB for 1,000 x 5,000
    matching = places[None] == np.arange(len(images))[:, None]
    best = np.where(matching, similarity, -np.inf).max(axis=1)
    # Among the wrong ones only: other captions of the same image are not ahead of it.
    ahead = ((similarity >= best[:, None]) & ~matching).sum(axis=1)
    right = similarity[places, np.arange(len(texts))]
    ahead_images = ((similarity >= right[None]) & ~matching).sum(axis=0)
    return Retrieval(recalls(ahead + 1), recalls(ahead_images + 1), len(images), len(texts))


def recalls(ranks: npt.NDArray[np.int64]) -> Recalls:
    """Ranks from 1 -> shares at or above each cut.

    >>> recalls(np.array([1, 2, 7, 30]))
    Recalls(at_1=0.25, at_5=0.5, at_10=0.75, median_rank=4.5)
    """
    first, fifth, tenth = (float((ranks <= cut).mean()) for cut in CUTS)
    return Recalls(first, fifth, tenth, float(np.median(ranks)))


def _check(images: FloatArray, texts: FloatArray, owners: IntArray) -> None:
    if images.ndim != 2 or texts.ndim != 2 or images.shape[1] != texts.shape[1]:
        raise ScoreError(
            f"image vectors {images.shape} and text vectors {texts.shape} cannot be compared; "
            "both must come from one model"
        )
    if owners.shape != (len(texts),):
        raise ScoreError(f"{len(texts)} captions with {owners.size} owners; give one each")
    if not np.isfinite(images).all() or not np.isfinite(texts).all():
        raise ScoreError("vectors hold NaN or infinity; check the model that made them")
    if set(owners.tolist()) != set(range(len(images))):
        raise ScoreError(
            f"captions belong to {len(set(owners.tolist()))} of {len(images)} images, or to "
            "others; every image needs a caption"
        )
