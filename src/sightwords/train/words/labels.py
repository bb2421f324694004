"""Captions -> targets of detector training (section 3.1).

Input: the captions of each image. Output: (N, V) targets in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightwords.text.vocabulary import Vocabulary
from sightwords.types import FloatArray

CAPTIONS = 5
"""The authors' labels look at the first five captions of an image."""


def caption_targets(
    captions: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    *,
    labels: Literal["any", "fraction"] = "any",
    captions_per_image: int = CAPTIONS,
) -> FloatArray:
    """1 where any of the first captions has the word, or the share of them that do.

    Under `fraction` the share is of the captions that an image has, so that few captions are no
    penalty. Under `any`, the paper's form, words of missing captions count as absent.

    >>> vocabulary = Vocabulary(("a", "dog"), (3, 2), 7)
    >>> captions = [["A dog.", "a cat"], ["dog"]]
    >>> caption_targets(captions, vocabulary, labels="fraction").tolist()
    [[1.0, 0.5], [0.0, 1.0]]
    >>> caption_targets(captions, vocabulary).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    counts = vocabulary.mentions(captions, captions_per_image=captions_per_image)
    if labels == "any":
        return (counts > 0).astype(np.float32)
    used = [max(1, min(len(of_image), captions_per_image)) for of_image in captions]
    shares: FloatArray = counts.astype(np.float32) / np.array(used, dtype=np.float32)[:, None]
    return shares


def unknown_where_few(
    targets: FloatArray, captions: Sequence[Sequence[str]], *, enough: int = 3
) -> FloatArray:
    """NaN for words that no caption of an image with fewer than `enough` captions names.

    A single caption tells what is there, but little about what is not; no caption tells nothing.
    Only teachers can fill this in (`train/words/teacher.py`).

    >>> targets = np.array([[1, 0], [1, 0], [0, 0]], dtype=np.float32)
    >>> unknown_where_few(targets, [["a dog"] * 5, ["a dog"], []]).tolist()
    [[1.0, 0.0], [1.0, nan], [nan, nan]]
    """
    few = np.array([len(of_image) < enough for of_image in captions], dtype=np.bool_)
    filled: FloatArray = targets.copy()
    filled[few[:, None] & (targets == 0)] = np.nan
    return filled
