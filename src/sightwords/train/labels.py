"""What captions teach about words: targets of detector training (section 3.1).

Input: the tokenised captions of each image. Output: (N, V) targets in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightwords.types import FloatArray


def caption_targets(
    captions: Sequence[Sequence[Sequence[str]]],
    words: Sequence[str],
    *,
    labels: Literal["any", "fraction"] = "any",
    first: int = 5,
) -> FloatArray:
    """1 where any of the first captions has the word, or the share of them that do.

    An image with fewer captions than others is not penalised under `fraction`: its share is of
    the captions it has. Under `any`, the paper's form, words its missing captions would have
    named count as absent.

    >>> captions = [[("a", "dog"), ("a", "cat")], [("dog",)]]
    >>> caption_targets(captions, ["a", "dog"], labels="fraction").tolist()
    [[1.0, 0.5], [0.0, 1.0]]
    >>> caption_targets(captions, ["a", "dog"]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    column = {word: number for number, word in enumerate(words)}
    targets = np.zeros((len(captions), len(words)), dtype=np.float32)
    for row, of_image in zip(targets, captions, strict=True):
        used = of_image[:first]
        for caption in used:
            for token in set(caption) & column.keys():
                row[column[token]] += 1
        row /= max(1, len(used))
    return targets if labels == "fraction" else np.ceil(targets)
