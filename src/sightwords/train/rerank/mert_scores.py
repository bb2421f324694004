"""The networks' scores of every sentence of M-best lists: DMSM of all, grounded of shortlists."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sightwords.rerank.dmsm import Dmsm
from sightwords.rerank.grounded import Grounded
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.rerank.lists import Lists

Values = npt.NDArray[np.float32]
Progress = Callable[[int], None]


def dmsm_scores(
    lists: Lists, features: ImageFeatures, dmsm: Dmsm, *, progress: Progress | None = None
) -> Values:
    """(H,) similarity of each sentence with its image."""
    rows = features.rows(lists.ids.tolist())
    found = np.empty(lists.hypotheses, dtype=np.float32)
    for image, row in enumerate(rows.tolist()):
        part = slice(int(lists.offsets[image]), int(lists.offsets[image + 1]))
        tokens = features.features[row].astype(np.float32)
        found[part] = dmsm.score(tokens, lists.sentences(image))
        if progress:
            progress(image + 1)
    return found


def grounded_scores(
    lists: Lists,
    features: ImageFeatures,
    grounded: Grounded,
    mask: npt.NDArray[np.bool_],
    *,
    progress: Progress | None = None,
) -> Values:
    """(H,) the grounded model's score of the hypotheses in `mask`, 0 elsewhere."""
    rows = features.rows(lists.ids.tolist())
    found = np.zeros(lists.hypotheses, dtype=np.float32)
    for image, row in enumerate(rows.tolist()):
        low, high = int(lists.offsets[image]), int(lists.offsets[image + 1])
        places = low + np.flatnonzero(mask[low:high])
        if len(places):
            tokens = features.features[row].astype(np.float32)
            sentences = [lists.sentence(h) for h in places.tolist()]
            found[places] = grounded.score(tokens, lists.detected(image), sentences)
        if progress:
            progress(image + 1)
    return found


def image_tokens(lists: Lists, features: ImageFeatures) -> Values:
    """(N, D) what describes each image of the lists as a whole."""
    rows = features.rows(lists.ids.tolist()).tolist()
    return np.stack([features.whole(row) for row in rows])


class Remembered:
    """Values that are asked for once: call it with which hypotheses (H,) to score."""

    def __init__(self, ask: Callable[[npt.NDArray[np.bool_]], Values], hypotheses: int) -> None:
        self._ask = ask
        self._known = np.zeros(hypotheses, dtype=np.bool_)
        self._values = np.zeros(hypotheses, dtype=np.float32)

    def __call__(self, mask: npt.NDArray[np.bool_]) -> Values:
        """(H,) the values of `mask`, and of what was asked before; 0 elsewhere."""
        fresh = mask & ~self._known
        if fresh.any():
            self._values[fresh] = self._ask(fresh)[fresh]
            self._known |= fresh
        return self._values
