"""One process or several: plain torchrun, no other launcher (`torchrun -m sightwords train ...`).

Each process takes its share of every batch, gradients are averaged, and the first one alone
writes files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn

from sightwords.errors import ConfigError

PATIENCE = timedelta(hours=12)
"""Others wait so long for the first process, which decodes the images."""


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; gives this process its device."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or torch.distributed.is_initialized():
        yield device
        return
    on_gpu = device.startswith("cuda")
    if on_gpu:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
    try:
        yield device
    finally:
        torch.distributed.destroy_process_group()


def best_device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def rank_and_world() -> tuple[int, int]:
    """Number of this process, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def first_then_others(work: Callable[[], Any]) -> Any:
    """Run `work` in the first process, then in the others, which find what it left on disk."""
    rank, world = rank_and_world()
    if world > 1 and rank > 0:
        torch.distributed.barrier()
    result = work()
    if world > 1 and rank == 0:
        torch.distributed.barrier()
    return result


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean of a number over all processes."""
    _, world = rank_and_world()
    if world > 1:
        value = value.clone()
        torch.distributed.all_reduce(value)
        value /= world
    return value


def share_of_batch(batch_size: int, images: int) -> int:
    """The global batch size in force: no more than there are images, as many in each process."""
    _, world = rank_and_world()
    if batch_size % world or images < world:
        raise ConfigError(
            f"batch_size is {batch_size} for {images} images in {world} processes; expected a "
            "multiple of the number of processes and an image for each"
        )
    return min(batch_size, images // world * world)


def wrapped(
    network: nn.Module, *, compile_network: bool, device: torch.device
) -> Callable[[Tensor], Any]:
    """The network as the loop calls it: gradients averaged over processes, compiled if asked."""
    module = network
    if rank_and_world()[1] > 1:
        module = nn.parallel.DistributedDataParallel(
            network, device_ids=[device] if device.type == "cuda" else None
        )
    if compile_network:
        module = torch.compile(module, dynamic=False)  # type: ignore[assignment]
    return module
