"""Random numbers that belong to the images of a batch, not to the process that sees them.

Every draw is made for the whole batch, from (seed, step) alone, and whoever works on a part of it
keeps the rows of that part. So crops, dropout and noise are the same on one process and on
several, and whether a share is taken at once or bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class _Part:
    """Rows `index`, `index` + `parts`, ... of the batch are being worked on."""

    index: int = 0
    parts: int = 1


_PART = _Part()


@contextmanager
def draws_for(index: int, parts: int, *, seed: int) -> Iterator[None]:
    """Within it, `rand_rows` gives rows `index::parts` of what the seed gives the whole batch."""
    torch.manual_seed(seed)
    _PART.index, _PART.parts = index, parts
    try:
        yield
    finally:
        _PART.index, _PART.parts = 0, 1


def rand_rows(rows: int, *shape: int, device: torch.device | str | None = None) -> Tensor:
    """(rows, *shape) numbers from 0 to 1, a row for each image of this part of the batch.

    >>> with draws_for(0, 1, seed=7):
    ...     whole = rand_rows(4, 2)
    >>> with draws_for(1, 2, seed=7):
    ...     second = rand_rows(2, 2)
    >>> torch.equal(whole[1::2], second)
    True
    """
    return torch.rand(rows * _PART.parts, *shape, device=device)[_PART.index :: _PART.parts]


def normal_rows(rows: int, *shape: int, device: torch.device | str | None = None) -> Tensor:
    """The same, normally distributed."""
    return torch.randn(rows * _PART.parts, *shape, device=device)[_PART.index :: _PART.parts]


class RowDropout(nn.Dropout):
    """`nn.Dropout` that hides the same of an image, whoever works on it."""

    def forward(self, values: Tensor) -> Tensor:
        """(B, ...), as they are but in training."""
        if not self.training or not self.p:
            return values
        kept = rand_rows(*values.shape, device=values.device) >= self.p
        return torch.where(kept, values / (1 - self.p), 0.0)
