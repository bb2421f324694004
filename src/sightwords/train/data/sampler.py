"""Random numbers that belong to the images of a batch, not to the process that sees them.

Every draw is made for the whole batch, from (seed, step) alone, and each process keeps the rows of
its part. So crops, dropout and noise do not depend on the number of processes, nor on the number of
parts in which a process takes its share.
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
    """(1,) on the device; a tensor, so that a compiled network is not compiled again."""


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
    """(1,) on the device, copied once, because a copy waits for all earlier work of the GPU."""
    return torch.tensor([index], device=device)


def rand_rows(rows: int, *shape: int, device: torch.device | str | None = None) -> Tensor:
    """(rows, *shape) numbers from 0 to 1, one row for each image of this part of the batch.

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
    """`nn.Dropout` that drops the same values of an image on any number of processes."""

    def forward(self, values: Tensor) -> Tensor:
        """(B, ...), unchanged unless in training."""
        if not self.training or not self.p:
            return values
        kept = rand_rows(*values.shape, device=values.device) >= self.p
        return torch.where(kept, values / (1 - self.p), 0.0)
