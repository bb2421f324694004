"""DMSM's similarity for the check cases of a study, where the bundle has one (section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, ImageError
from sightwords.types import ImageRef

if TYPE_CHECKING:
    from sightwords.study.draw import Similarity

Vector = npt.NDArray[np.float32]


def find_similarity(bundle: str | None, images: str) -> tuple[Similarity | None, str]:
    """(similarity, its name): DMSM's cosine, or (None, "") where the shipped bundle has no DMSM.

    A bundle that was asked for by name must have one.
    """
    from sightwords.rerank.dmsm import DMSM_NAME
    from sightwords.words.artefact import DEFAULT_DETECTOR

    folder = Path(bundle) if bundle is not None else Path(DEFAULT_DETECTOR).parent
    if (folder / "dmsm" / DMSM_NAME).is_file():
        return dmsm_similarity(folder, images), f"DMSM of {folder.name}"
    if bundle is not None:
        raise BundleError(
            f"{folder}: holds no dmsm/{DMSM_NAME}; give a whole bundle, or leave out --bundle"
        )
    return None, ""


def dmsm_similarity(folder: Path, images: str) -> Similarity:
    """The cosine of a photograph's vector with a caption's; each photograph is looked at once."""
    from sightwords.evaluate.references import find_images
    from sightwords.images import decode_apart
    from sightwords.rerank.dmsm import Dmsm
    from sightwords.text.ptb import tokenize_all
    from sightwords.words.detector import Detector

    detector, dmsm = Detector.load(folder / "words"), Dmsm.load(folder / "dmsm")
    known: dict[str, Vector] = {}

    def vector(image: str, ref: ImageRef) -> Vector:
        try:
            features = detector(decode_apart(ref), name=image).features
        except ImageError:  # whoever takes in the photographs will leave this one out
            return np.zeros(dmsm.semantic_units, dtype=np.float32)
        if features is None:
            raise BundleError(f"{folder}: its detector gives no features; DMSM needs them")
        return dmsm.image(features)

    def similarity(ids: Sequence[str], captions: Sequence[str]) -> Vector:
        wanted = [image for image in ids if image not in known]
        known.update(
            (image, vector(image, ref)) for image, ref in find_images(images, wanted).items()
        )
        sentences = [tokens or ["-"] for tokens in tokenize_all(list(captions))]
        cosines: Vector = np.stack([known[image] for image in ids]) @ dmsm.texts(sentences).T
        return cosines

    return similarity
