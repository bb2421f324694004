"""From sentences to losses: log-probabilities, minimum risk and listwise training.

Stage: re-ranking (section 5), beyond the paper. Minimum risk training after Shen et al. (ACL 2016),
over sentences of the M-best list in place of samples; the listwise loss is ListNet's (Cao et al.,
ICML 2007) with a softmax of CIDEr as the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sightwords.config import GroundedConfig
from sightwords.train.grounded.data import NOTHING, Images, inputs_of
from sightwords.train.grounded.network import GroundedNetwork


@dataclass(frozen=True)
class Looked:
    """What the network sees of B images."""

    memory: Tensor
    """(B, 1 + T + W, d)"""
    kept: Tensor
    """(B, 1 + T + W) False where a place is hidden or empty."""


@dataclass(frozen=True)
class Scored:
    """Scores of B x H sentences."""

    log_probs: Tensor
    """(B, H) sums over words and end."""
    values: Tensor
    """(B, H)"""
    lengths: Tensor
    """(B, H) in words."""

    def total(self, config: GroundedConfig) -> Tensor:
        """(B, H) as `rerank.grounded.SentenceScores.total`."""
        log_probs = self.log_probs / (self.lengths + 1.0) ** config.length_power
        return log_probs + self.values if config.value_head else log_probs


def look(network: GroundedNetwork, images: Images, rows: Tensor) -> Looked:
    """The memory of some images; in training random places are hidden."""
    config = network.config
    features = images.features[rows]
    if network.training and images.mirrored is not None:
        turned = torch.rand(len(rows), 1, 1, device=rows.device) < 0.5
        features = torch.where(turned, images.mirrored[rows], features)
    word_ids = images.word_ids[rows].long()
    words = word_ids != NOTHING
    shown = (rows != images.no_image)[:, None].expand(-1, images.shape[0])
    if network.training:
        words = words & (torch.rand_like(words, dtype=torch.float) >= config.word_dropout)
        whole = torch.rand(len(rows), 1, device=rows.device) >= config.image_dropout
        parts = torch.rand_like(shown, dtype=torch.float) >= config.token_dropout
        shown = shown & whole & parts
    kept = torch.cat([torch.ones_like(shown[:, :1]), shown, words], dim=1)
    probs = images.word_probs[rows].float()
    memory = network.memory(features.float(), word_ids.clamp_min(0), probs, kept)
    return Looked(memory, kept)


def caption_loss(network: GroundedNetwork, looked: Looked, targets: Tensor) -> Tensor:
    """Mean cross entropy of all words of (B, K, P) captions, with smoothed labels."""
    hidden, present, targets = _read(network, looked, targets)
    logits = network.logits(hidden[present]).float()
    smoothing = network.config.label_smoothing if network.training else 0.0
    return functional.cross_entropy(logits, targets[present], label_smoothing=smoothing)


def sentence_scores(network: GroundedNetwork, looked: Looked, targets: Tensor) -> Scored:
    """Log-probabilities and values of (B, H, P) sentences; rows of NOTHING score 0."""
    hidden, present, targets = _read(network, looked, targets)
    losses = functional.cross_entropy(
        network.logits(hidden[present]).float(), targets[present], reduction="none"
    )
    words = torch.zeros(present.shape, device=losses.device).masked_scatter(present, -losses)
    lengths = (present.sum(dim=-1) - 1).clamp_min(0)
    place = lengths[..., None, None].expand(-1, -1, 1, hidden.shape[-1])
    values = network.values(hidden.gather(2, place)[:, :, 0]).float()
    return Scored(words.sum(dim=-1), values, lengths)


def expected_loss(scores: Tensor, rewards: Tensor, valid: Tensor) -> Tensor:
    """Negative reward expected under a softmax of scores (B, H), mean over images.

    Of two sentences of equal score and rewards 2 and 0 the expected reward is 1:

    >>> everything = torch.tensor([[True, True]])
    >>> expected_loss(torch.zeros(1, 2), torch.tensor([[2.0, 0.0]]), everything).item()
    -1.0
    """
    probs = scores.masked_fill(~valid, -torch.inf).softmax(dim=-1)
    return -(probs * rewards).sum(dim=-1).mean()


def listwise_loss(scores: Tensor, rewards: Tensor, valid: Tensor, *, temperature: float) -> Tensor:
    """Cross entropy of a softmax of scores with a softmax of rewards / temperature (B, H).

    >>> everything = torch.tensor([[True, True]])
    >>> equal = torch.zeros(1, 2)
    >>> round(listwise_loss(equal, equal, everything, temperature=1.0).item(), 4)  # log 2
    0.6931
    """
    target = (rewards / temperature).masked_fill(~valid, -torch.inf).softmax(dim=-1)
    log_probs = scores.masked_fill(~valid, -torch.inf).log_softmax(dim=-1)
    return -(target * log_probs.masked_fill(~valid, 0.0)).sum(dim=-1).mean()


def list_loss(scored: Scored, rewards: Tensor, valid: Tensor, config: GroundedConfig) -> Tensor:
    """The loss of `config.objective`."""
    scores = config.sharpness * scored.total(config)
    if config.objective == "risk":
        return expected_loss(scores, rewards, valid)
    return listwise_loss(scores, rewards, valid, temperature=config.temperature)


def sample_hypotheses(rewards: Tensor, valid: Tensor, count: int) -> Tensor:
    """(B, M) -> (B, count) the best sentence of each list and random others."""
    keys = torch.rand_like(rewards).masked_fill(~valid, -1.0)
    best = rewards.masked_fill(~valid, -torch.inf).argmax(dim=1, keepdim=True)
    return keys.scatter(1, best, 2.0).topk(min(count, keys.shape[1]), dim=1).indices


def _read(
    network: GroundedNetwork, looked: Looked, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, where targets are present, and targets, cut after the longest sentence."""
    present = targets != NOTHING
    longest = max(1, int(present.any(dim=0).any(dim=0).sum()))
    targets, present = targets[..., :longest].long(), present[..., :longest]
    hidden = network.read(inputs_of(targets, network.start_id), looked.memory, looked.kept)
    return hidden, present, targets
