"""Eq. 5 and 6 of section 5.1: the negative log posterior of the matching caption, and variants.

Captions of the same image, where a batch has several, are neither matching nor non-matching.

Deviation: the paper's N random captions are drawn from the batch, which is itself a random part of
the corpus: each image sees random captions of other images as in the paper, and each caption is
encoded once instead of 50 times.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sightwords.config import DmsmConfig


def dmsm_loss(
    cosines: Tensor,
    owners: Tensor,
    *,
    config: DmsmConfig,
    gamma: Tensor | float,
    log_norm: Tensor | float = 0.0,
    extra: Tensor | None = None,
) -> Tensor:
    """Loss of a batch, the mean over its pairs.

    `cosines` (B, B): images in rows, captions in columns, the matching ones on the diagonal.
    `owners` (B,) is the image of each caption. `extra` (B, K) are cosines with sentences of the
    image's own list that do not match it; NaN where there is none.
    """
    logits = gamma * cosines
    chosen = negatives(owners, config.negatives)
    beside = None
    if extra is not None:
        # Filled before gamma is multiplied in, whose gradient a NaN would spoil.
        beside = (gamma * extra.nan_to_num(0.0)).masked_fill(extra.isnan(), -torch.inf)
    if config.objective == "nce":
        loss = _nce(logits - log_norm, chosen)
        return loss if beside is None else loss + _noise(beside - log_norm).mean()
    loss = _posterior(logits, chosen, beside)
    if config.objective == "both_ways":
        loss = (loss + _posterior(logits.T, negatives(owners, config.negatives))) / 2
    return loss


def list_loss(
    cosines: Tensor, worth: Tensor, *, gamma: Tensor | float, temperature: float
) -> Tensor:
    """Cross entropy between a softmax of the sentences' values and the posterior over them.

    Both are (B, K); `worth` is NaN where there is no sentence. The mean over images that have any.
    """
    absent = worth.isnan()
    there = ~absent.all(1)
    # In rows without a sentence nothing is hidden: their softmax stays finite, and they count 0.
    hidden = absent & there[:, None]
    wanted = (worth.nan_to_num(0.0) / temperature).masked_fill(hidden, -torch.inf).softmax(1)
    found = (gamma * cosines).masked_fill(hidden, -torch.inf).log_softmax(1)
    terms = -(wanted * found.masked_fill(hidden, 0.0)).sum(1)
    return (terms * there).sum() / there.sum().clamp(min=1)


def negatives(owners: Tensor, count: int) -> Tensor:
    """(B, B) the negatives of each image: `count` random captions of other images, or all.

    >>> negatives(torch.tensor([7, 7, 3]), 0).int().tolist()
    [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    """
    others = owners[:, None] != owners[None]
    if not count or count >= len(owners) - 1:
        return others
    keys = torch.rand(others.shape, device=owners.device).masked_fill(~others, -1.0)
    least = keys.topk(count, dim=1).values[:, -1:]
    return others & (keys >= least)


def _posterior(logits: Tensor, chosen: Tensor, extra: Tensor | None = None) -> Tensor:
    """-log P(D+ | Q) over the matching, the chosen and the extra captions."""
    matching = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    candidates = logits.masked_fill(~(chosen | matching), -torch.inf)
    if extra is not None:
        candidates = torch.cat([candidates, extra], dim=1)
    targets = torch.arange(len(logits), device=logits.device)
    return functional.cross_entropy(candidates, targets)


def _nce(logits: Tensor, chosen: Tensor) -> Tensor:
    """Noise-contrastive estimation (Gutmann and Hyvärinen 2010), each caption by itself.

    The noise is uniform over the captions; the log of its density is part of `log_norm`.
    """
    found = functional.softplus(-logits.diagonal())
    return (found + _noise(logits.masked_fill(~chosen, -torch.inf))).mean()


def _noise(logits: Tensor) -> Tensor:
    """(B, K) -> (B,): the loss of the noise samples; -inf counts 0."""
    return functional.softplus(logits).sum(1)
