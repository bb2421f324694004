"""Batches prepared before they are needed: a thread fills them and sends them to the device.

thread: rows -> pinned memory -> copied to the GPU, on a CUDA stream of its own
step:   take -> the GPU waits for that copy, if it is not finished yet; the processor does not
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)
Sent = tuple[list[Tensor], torch.cuda.Event | None]
"""Tensors on the device; on a GPU, also the event after which they are complete."""


class Prefetcher(Generic[Key]):
    """The tensors that `make` returns for each key, made in the order the keys are expected."""

    def __init__(self, make: Callable[[Key], Sequence[Tensor]], device: torch.device) -> None:
        """`make` runs in one thread, one call at a time; it can fill the memory of `buffer`."""
        self._make: Callable[[Key], Sequence[Tensor]] = make
        self._device = device
        self._copies: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._thread = ThreadPoolExecutor(1)
        self._pending: deque[tuple[Key, Future[Sent]]] = deque()

    def expect(self, *keys: Key) -> None:
        """Announce the keys that are taken next, in this order."""
        known = {key for key, _ in self._pending}
        for key in keys:
            if key not in known:
                # The thread holds no reference to `self`, so that deleting it ends the thread.
                job = self._thread.submit(_sent, self._make, key, self._device, self._copies)
                self._pending.append((key, job))

    def take(self, key: Key) -> list[Tensor]:
        """Tensors on the device; whatever was expected before this key is discarded."""
        while self._pending and self._pending[0][0] != key:
            self._pending.popleft()[1].cancel()
        self.expect(key)
        parts, whole = self._pending.popleft()[1].result()
        if whole is not None:
            step = torch.cuda.current_stream(self._device)
            step.wait_event(whole)
            for part in parts:
                part.record_stream(step)  # otherwise its memory could be reused too early
        return parts


def _sent(
    make: Callable[[Key], Sequence[Tensor]],
    key: Key,
    device: torch.device,
    copies: torch.cuda.Stream | None,
) -> Sent:
    if copies is None:
        return [part.to(device) for part in make(key)], None
    with torch.cuda.stream(copies):  # also selects the device: a new thread starts on the first one
        parts = [part.to(copies.device, non_blocking=True) for part in make(key)]
        return parts, copies.record_event()


def buffer(shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> Tensor:
    """Empty memory; a GPU can copy from pinned memory while it computes."""
    return torch.empty(tuple(shape), dtype=dtype, pin_memory=pinned)
