"""Trained detectors that teach another one (beyond the paper).

Captions name only some of the words that fit an image; probabilities of other detectors for the
same crop fill in the rest. Input: detectors, a batch of network inputs. Output: (B, V)
probabilities, mixed into the targets of section 3.1 by `WordsConfig.teacher_weight`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sightwords.errors import ConfigError
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import image_prob


class Teachers(nn.Module):
    """The mean probability of detectors of the same words; they are not trained."""

    def __init__(self, networks: Sequence[WordNetwork]) -> None:
        super().__init__()
        if len({network.head.out_features for network in networks}) != 1:
            raise ConfigError(
                f"{len(networks)} teachers; expected at least one, all of the same words"
            )
        self.networks = nn.ModuleList(networks)
        self.requires_grad_(False)
        self.eval()

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) normalised -> (B, V)."""
        found = [image_prob(network(images).bag_logits) for network in self.networks]
        return torch.stack(found).mean(dim=0)

    def compile_networks(self) -> None:
        """Compile each for batches of one size."""
        for network in self.networks:
            network.compile(dynamic=False)

    def train(self, mode: bool = True) -> Teachers:
        """Stay in evaluation mode: no dropout."""
        del mode
        super().train(False)
        return self


def mixed(targets: Tensor, opinion: Tensor, weight: float) -> Tensor:
    """Targets mixed with the teachers' opinion; NaN (unknown) becomes the opinion itself.

    >>> targets = torch.tensor([1.0, 0.0, torch.nan])
    >>> mixed(targets, torch.tensor([0.5, 0.25, 0.75]), 0.5).tolist()
    [0.75, 0.125, 0.75]
    """
    opinion = opinion.to(targets.dtype)
    known = torch.where(targets.isnan(), opinion, targets)
    return known + weight * (opinion - known)
