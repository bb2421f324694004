"""Which images each step of detector training sees, and how they reach the device (section 3.1).

A decoded table is shuffled for each epoch; a stream of shards has its own order
(`train.data.shard_loader`).
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.errors import InputError
from sightwords.train.data.image_table import ImageTable
from sightwords.train.data.prefetch import Prefetcher, buffer
from sightwords.types import FloatArray


class Stream(Protocol):
    """Images that come in an order of their own (`train.data.shard_loader`)."""

    identity: str

    def __len__(self) -> int: ...

    def take(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, content sizes and targets at some places of the stream, on the device."""


class Order:
    """Which rows each step sees: a new order each epoch, without the last incomplete batch."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.steps = count // batch_size
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def rows(self, step: int) -> npt.NDArray[np.int64]:
        """Rows of one batch."""
        epoch, place = divmod(step, self.steps)
        if epoch != self._epoch:  # shuffling 50,000 numbers takes longer than a small step
            self._epoch = epoch
            self._order = np.random.default_rng((self.seed, epoch)).permutation(self.count)
        return self._order[place * self.batch_size : (place + 1) * self.batch_size]


class Onwards:
    """`Order` of a stream, which is already shuffled: one place after another."""

    def __init__(self, count: int, batch_size: int) -> None:
        self.batch_size, self.steps = batch_size, count // batch_size

    def rows(self, step: int) -> npt.NDArray[np.int64]:
        """Places of one batch."""
        return np.arange(step * self.batch_size, (step + 1) * self.batch_size)


class Rows:
    """Rows of a table on the device: all of them if they fit, else copied one batch ahead."""

    def __init__(self, table: ImageTable, targets: FloatArray | None, device: torch.device) -> None:
        found = 0 if targets is None else len(targets)
        if targets is None or found != len(table):
            raise InputError(f"{found} rows of targets for {len(table)} images; give one each")
        self.table, self.device, self.of_images = table, device, targets
        self.targets = torch.from_numpy(targets).to(device)
        self.content = torch.from_numpy(table.content).to(device)
        self.pixels: Tensor | None = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if table.pixels.nbytes < 0.5 * free:
                in_memory = table.pixels.flags.writeable
                pixels = table.pixels if in_memory else np.array(table.pixels)
                self.pixels = torch.from_numpy(pixels).to(device)
        self._ahead: Prefetcher[bytes] = Prefetcher(
            partial(_gathered, table.pixels, pinned=device.type == "cuda"), device
        )

    def expect(self, *shares: npt.NDArray[np.int64]) -> None:
        """Announce the rows that are taken next: they are fetched while a step is computed."""
        if self.pixels is None:
            self._ahead.expect(*(rows.tobytes() for rows in shares))

    def take(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, content sizes and targets of these rows."""
        index = index_on(self.device, rows)
        if self.pixels is not None:
            pixels = self.pixels[index]
        else:
            [pixels] = self._ahead.take(rows.tobytes())
        return pixels, self.content[index], self.targets[index]


def index_on(device: torch.device, rows: npt.NDArray[np.int64]) -> Tensor:
    """Numbers on a device; a plain copy would wait until the step before has ended."""
    index = torch.from_numpy(rows)
    if device.type == "cuda":
        index = index.pin_memory()
    return index.to(device, non_blocking=True)


def _gathered(pixels: npt.NDArray[np.uint8], rows: bytes, *, pinned: bool) -> list[Tensor]:
    """Rows of the memory-mapped table, copied; numpy releases Python's lock meanwhile."""
    wanted = np.frombuffer(rows, dtype=np.int64)
    copied = buffer((len(wanted), *pixels.shape[1:]), torch.uint8, pinned=pinned)
    np.take(pixels, wanted, axis=0, out=copied.numpy(), mode="clip")
    return [copied]
