"""One process or several: torchrun starts them, accelerate connects them.

    torchrun --nproc-per-node 4 -m sightwords train words ...

Each process takes its share of every batch, gradients are averaged, and only the first process
writes files. A single process needs none of this, nor accelerate.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from sightwords.errors import ConfigError, require

PATIENCE = timedelta(hours=12)
"""How long the others wait for the first process, which decodes the images."""


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; yields the device of this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield device
    else:
        yield str(_joined(device.startswith("cuda")).device)


@cache
def _joined(on_gpu: bool) -> Any:
    """Accelerate's handle on all processes: NCCL between GPUs, gloo elsewhere."""
    accelerate = require("accelerate", extra="train", purpose="training in several processes")
    _join("nccl" if on_gpu else "gloo")
    joined = accelerate.Accelerator(cpu=not on_gpu)
    atexit.register(_part, joined)
    return joined


def _part(joined: Any) -> None:
    """Leave the group before Python ends: a thread that gloo leaves behind aborts the process.

    Wrapped networks hold it in reference cycles, which only a collection breaks.
    """
    gc.collect()
    joined.end_training()


def _join(backend: str) -> None:
    """Meet the other processes under a key that differs for each restart.

    Torchrun's store outlives processes and keeps the addresses of dead ones. Restarted processes
    may wait for them forever (pytorch/pytorch issue 135712), as accelerate's own start does.
    """
    from torch.distributed.distributed_c10d import PrefixStore  # not in every build of torch
    from torch.distributed.rendezvous import rendezvous

    store, rank, world = next(rendezvous("env://", timeout=PATIENCE))
    is_kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if is_kept else "0"
    torch.distributed.init_process_group(
        backend,
        store=PrefixStore(f"attempt-{attempt}", store),
        rank=rank,
        world_size=world,
        timeout=PATIENCE,
    )


def _others() -> Any:
    """The handle if there are several processes, else None."""
    return _joined(torch.distributed.get_backend() == "nccl") if rank_and_world()[1] > 1 else None


def best_device() -> str:
    """A GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def rank_and_world() -> tuple[int, int]:
    """Rank of this process, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def is_first() -> bool:
    """Whether this process writes files and reports."""
    return rank_and_world()[0] == 0


def first_then_others(work: Callable[[], Any]) -> Any:
    """Run `work` in the first process, then in the others, which find its files on disk."""
    others = _others()
    with others.main_process_first() if others else nullcontext():
        return work()


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean of a number over all processes."""
    others = _others()
    mean: Tensor = others.reduce(value, "mean") if others else value
    return mean


def gathered(rows: Tensor) -> Tensor:
    """Rows of the whole batch from each process' (B, ...) share, in the batch's order.

    Only the rows of this process have a gradient. Every process computes the loss over all rows;
    gradients are multiplied by the number of processes because `wrapped` takes their mean.
    """
    rank, world = rank_and_world()
    if world == 1:
        return rows
    parts = list(_others().gather(rows.detach()).chunk(world))
    parts[rank] = rows.detach() + world * (rows - rows.detach())
    return torch.stack(parts, dim=1).flatten(0, 1)


def check_same_step(step: int, *, device: torch.device) -> None:
    """Stop where processes found different checkpoints: they would train different networks."""
    here = torch.tensor(float(step), device=device)
    if float(mean_over_processes(here)) != step:
        raise ConfigError(
            f"process {rank_and_world()[0]} is at step {step}, others are not; checkpoints must "
            "be on a disk that all processes see: --set run.work=DIR"
        )


def share_of_batch(batch_size: int, images: int, *, accumulate: int = 1) -> int:
    """The batch size of all processes together: at most the number of images, all parts equal."""
    world = rank_and_world()[1]
    parts = world * accumulate
    if batch_size % parts or images < parts:
        raise ConfigError(
            f"batch_size is {batch_size} for {images} images in {world} processes, accumulate is "
            f"{accumulate}; expected a multiple of {parts} (processes times accumulate), and at "
            "least as many images"
        )
    return min(batch_size, images // parts * parts)


def wrapped(
    network: nn.Module, *, compile_network: bool = False, graphs: bool = False
) -> Callable[..., Any]:
    """The network as a loop calls it: gradients averaged over processes, compiled if asked.

    With `graphs` a single process records a step once as a CUDA graph. Gradients must then be
    used before the next call, which writes into the same memory.
    """
    others = _others()
    module: nn.Module = others.prepare_model(network) if others else network
    if not compile_network:
        return module
    mode = "reduce-overhead" if graphs and others is None else None
    return torch.compile(module, dynamic=False, mode=mode)


def without_sync(module: Callable[..., Any], *, when: bool) -> AbstractContextManager[Any]:
    """Average gradients only after the last part of a batch."""
    plain = getattr(module, "_orig_mod", module)
    return plain.no_sync() if when and hasattr(plain, "no_sync") else nullcontext()
