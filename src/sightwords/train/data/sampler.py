"""Random numbers that belong to the images of a batch, not to the process that sees them.

Every draw is made for the whole batch, from (seed, step) alone, and whoever works on a part of it
keeps the rows of that part. So crops, dropout and noise are the same on one process and on
several, and whether a share is taken at once or bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn


@dataclass
class _Part:
    """Rows `place`, `place` + `parts`, ... of the batch are being worked on."""

    parts: int = 1
    place: Tensor | None = None
    """(1,) on the device; a tensor, for which a compiled network is not compiled anew."""


_PART = _Part()


@contextmanager
def draws_for(
    index: int, parts: int, *, seed: int, device: torch.device | str = "cpu"
) -> Iterator[None]:
    """Within it, `rand_rows` gives rows `index::parts` of what the seed gives the whole batch."""
    torch.manual_seed(seed)
    _PART.parts, _PART.place = parts, _number(index, torch.device(device))
    try:
        yield
    finally:
        _PART.parts, _PART.place = 1, None


@cache
def _number(index: int, device: torch.device) -> Tensor:
    """(1,) on the device, copied once: a copy makes a GPU wait for all that it was told before."""
    return torch.tensor([index], device=device)


def rand_rows(rows: int, *shape: int, device: torch.device | str | None = None) -> Tensor:
    """(rows, *shape) numbers from 0 to 1, a row for each image of this part of the batch.

    >>> with draws_for(0, 1, seed=7):
    ...     whole = rand_rows(4, 2)
    >>> with draws_for(1, 2, seed=7):
    ...     second = rand_rows(2, 2)
    >>> torch.equal(whole[1::2], second)
    True
    """
    return _mine(torch.rand(rows, _PART.parts, *shape, device=device))


def normal_rows(rows: int, *shape: int, device: torch.device | str | None = None) -> Tensor:
    """The same, normally distributed."""
    return _mine(torch.randn(rows, _PART.parts, *shape, device=device))


def _mine(whole: Tensor) -> Tensor:
    """(rows, parts, ...) -> (rows, ...)."""
    if _PART.parts == 1 or _PART.place is None:
        return whole.squeeze(1)
    return whole.index_select(1, _PART.place).squeeze(1)


class RowDropout(nn.Dropout):
    """`nn.Dropout` that hides the same of an image, whoever works on it."""

    def forward(self, values: Tensor) -> Tensor:
        """(B, ...), as they are but in training."""
        if not self.training or not self.p:
            return values
        kept = rand_rows(*values.shape, device=values.device) >= self.p
        return torch.where(kept, values / (1 - self.p), 0.0)
