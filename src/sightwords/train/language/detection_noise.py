"""Detections for images that no detector scored, drawn from those of images that one did.

For training the language model (section 4.1) on more captions than have detected words. The model
must learn from a detector's mistakes, so these are copied from held-out images:

- a word that c of an image's captions mention gets its score from a held-out image of which about
  as many captions mention it (1, 2, or 3 and more);
- a word that no caption mentions gets its score from a held-out image with similar captions,
  because false alarms depend on the scene; if that image's captions mention the word, from any
  image whose captions do not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.types import FloatArray

Mentions = npt.NDArray[np.uint8]
LEVELS = 4
"""Mentioned by no caption, one, two, three or more."""
SIMILAR = 3
"""Most similar held-out images to choose from."""


def simulate_scores(
    mentions: Mentions,
    held_out_mentions: Mentions,
    held_out_scores: FloatArray,
    *,
    seed: int = 0,
    block: int = 4096,
) -> FloatArray:
    """Scores (M, W) for images whose captions mention words `mentions` (M, W) times.

    held_out_mentions, held_out_scores: (N, W), of images that the detector did not train on.
    """
    if held_out_mentions.shape != held_out_scores.shape or (
        mentions.shape[1:] != held_out_scores.shape[1:]
    ):
        raise InputError(
            f"mentions {mentions.shape}, held out {held_out_mentions.shape} with scores "
            f"{held_out_scores.shape}; expected (M, W), (N, W) and (N, W)"
        )
    rng = np.random.default_rng(seed)
    scores = np.empty(mentions.shape, dtype=np.float32)
    for start in range(0, len(mentions), block):
        part = slice(start, start + block)
        similar = _similar(mentions[part], held_out_mentions, rng)
        scores[part] = held_out_scores[similar]
        wanted = (mentions[part] > 0) | (held_out_mentions[similar] > 0)
        for word in np.flatnonzero(wanted.any(axis=0)):
            rows = np.flatnonzero(wanted[:, word])
            scores[start + rows, word] = _drawn(
                np.minimum(mentions[start + rows, word], LEVELS - 1),
                np.minimum(held_out_mentions[:, word], LEVELS - 1),
                held_out_scores[:, word],
                rng,
            )
    return scores


def _similar(
    mentions: Mentions, held_out: Mentions, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """(M,) one of the most similar held-out images, by cosine of mentions weighted by rarity."""
    rarity = np.log(len(held_out) / (1 + (held_out > 0).sum(axis=0))).clip(min=0)

    def directions(counts: Mentions) -> FloatArray:
        weighted = (counts * rarity).astype(np.float32)
        norms = np.linalg.norm(weighted, axis=1, keepdims=True)
        found: FloatArray = weighted / np.maximum(norms, 1e-9)
        return found

    likeness = directions(mentions) @ directions(held_out).T
    count = min(SIMILAR, len(held_out))
    nearest = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
    chosen: npt.NDArray[np.intp] = nearest[
        np.arange(len(mentions)), rng.integers(0, count, len(mentions))
    ]
    return chosen


def _drawn(
    levels: Mentions, held_levels: Mentions, held_scores: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """(M,) scores of one word, each from a held-out image at that level, or the nearest level.

    Levels with and without mentions are not mixed; 0 if there is no such held-out image.
    """
    found = np.zeros(len(levels), dtype=np.float32)
    for level in np.unique(levels):
        near = sorted(range(LEVELS), key=lambda other: (abs(other - int(level)), -other))
        for close in (other for other in near if (other > 0) == (level > 0)):
            donors = np.flatnonzero(held_levels == close)
            if len(donors):
                rows = levels == level
                found[rows] = held_scores[rng.choice(donors, int(rows.sum()))]
                break
    return found
