"""What captions teach about words: targets of detector training (section 3.1).

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

    An image with fewer captions than others is not penalised under `fraction`: its share is of
    the captions it has. Under `any`, the paper's form, words its missing captions would have
    named count as absent.

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

    One person's caption says what is there, and little about what is not; an image without
    captions says nothing. Only teachers can fill this in (`train/words/teacher.py`).

    >>> targets = np.array([[1, 0], [1, 0], [0, 0]], dtype=np.float32)
    >>> unknown_where_few(targets, [["a dog"] * 5, ["a dog"], []]).tolist()
    [[1.0, 0.0], [1.0, nan], [nan, nan]]
    """
    few = np.array([len(of_image) < enough for of_image in captions], dtype=np.bool_)
    filled: FloatArray = targets.copy()
    filled[few[:, None] & (targets == 0)] = np.nan
    return filled
