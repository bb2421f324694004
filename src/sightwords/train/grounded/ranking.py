"""CIDEr of the sentences that the grounded model ranks first, on lists it was not trained on.

Stage: re-ranking (section 5), beyond the paper; the choice of settings and epochs in training.
A small grid finds weights for the first language model's log-likelihood and the length beside the
grounded score; MERT weighs all features later.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from sightwords.train.grounded.data import Images
from sightwords.train.grounded.lists import ScoredLists
from sightwords.train.grounded.loss import Scored, look, sentence_scores
from sightwords.train.grounded.network import GroundedNetwork

LIKELIHOODS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)
LENGTHS = (-0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Ranking:
    """Mean CIDEr of the sentences put first."""

    alone: float
    """By the grounded score alone."""
    mixed: float
    """By grounded score + likelihood * log-likelihood + length * words."""
    likelihood: float
    length: float
    first: float
    """By the first language model's log-likelihood per word."""
    oracle: float
    """Of the best sentence of each list."""

    def __str__(self) -> str:
        return (
            f"CIDEr {self.alone:.4f} alone, {self.mixed:.4f} with {self.likelihood:g} x "
            f"log-likelihood and {self.length:g} x length; without it {self.first:.4f}, best of "
            f"the list {self.oracle:.4f}"
        )


@torch.no_grad()
def score_lists(
    network: GroundedNetwork, images: Images, lists: ScoredLists, *, batch: int = 16
) -> Scored:
    """Scores of every sentence, (G, M) each, in evaluation mode.

    In float32, on a GPU too: bfloat16 would blur sentences that differ by a word.
    """
    network.eval()
    parts = []
    for first in range(0, len(lists), batch):
        rows = slice(first, first + batch)
        looked = look(network, images, lists.sentences.images[rows])
        parts.append(sentence_scores(network, looked, lists.sentences.targets[rows]))
    return Scored(
        torch.cat([p.log_probs for p in parts]),
        torch.cat([p.values for p in parts]),
        torch.cat([p.lengths for p in parts]),
    )


def rank(scores: Tensor, lists: ScoredLists, weights: tuple[float, float] | None = None) -> Ranking:
    """Rank sentences by (G, M) scores; without `weights` the grid finds the best."""
    words = lists.lengths.clamp_min(0).float()
    grid = [weights] if weights else list(product(LIKELIHOODS, LENGTHS))
    found = {
        (a, b): _reward_of_first(scores + a * lists.log_probs + b * words, lists) for a, b in grid
    }
    best = max(found, key=lambda pair: (found[pair], -abs(pair[0]), -abs(pair[1])))
    rewards = lists.rewards.masked_fill(~lists.valid, -torch.inf)
    return Ranking(
        alone=_reward_of_first(scores, lists),
        mixed=found[best],
        likelihood=best[0],
        length=best[1],
        first=_reward_of_first(lists.log_probs / (words + 1), lists),
        oracle=float(rewards.max(dim=1).values.mean()),
    )


def _reward_of_first(scores: Tensor, lists: ScoredLists) -> float:
    first = scores.masked_fill(~lists.valid, -torch.inf).argmax(dim=1, keepdim=True)
    return float(lists.rewards.gather(1, first).mean())
