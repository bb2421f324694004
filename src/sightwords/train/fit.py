"""The training loop: word detector (section 3.1), DMSM (5.1) and grounded model share it.

A training is a subclass of `Fit` that provides a network, the batches and the loss of a step. `Fit`
does the rest: learning rates, gradient accumulation and clipping, the running average of weights,
checkpoints, progress reports, several processes.

Every step draws its order, crops and dropout from (seed, step) alone. A run that is killed at any
moment and resumed from its last checkpoint therefore ends with the weights of an unbroken one, bit
for bit on a CPU. All draws are made for the whole batch (`train.data.sampler`), so that the number
of processes changes nothing but the order of sums.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sightwords.errors import ConfigError, require
from sightwords.train.data.sampler import draws_for
from sightwords.train.integrity import is_whole, summed_path
from sightwords.train.processes import (
    check_same_step,
    is_first,
    mean_over_processes,
    rank_and_world,
    without_sync,
    wrapped,
)

log = logging.getLogger(__name__)

N = TypeVar("N", bound=nn.Module)
Precision = Literal["auto", "bfloat16", "float32"]
Schedule = Callable[[float, int], float]
"""(step, steps) -> share of the full rates. The step is a fraction where the clock is ahead."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a training sets: how long, how fast, from which seed."""

    epochs: int
    steps_per_epoch: int
    batch_size: int
    """Of all processes together."""
    seed: int
    learning_rate: float
    """The rate to report; each group of the optimiser has its own full rate."""
    schedule: Schedule
    accumulate: int = 1
    """Number of parts in which each process takes its share of a batch."""
    gradient_clip: float = 0.0
    """Largest norm of all gradients together; 0: no limit."""
    weight_average: float = 0.0
    """Decay of the running average of weights; 0: no average."""
    precision: Precision = "auto"
    budget_seconds: float = math.inf
    """The rate falls by the clock where that is ahead of the steps, and training ends in time."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a progress callback gets."""

    step: int
    steps: int
    epoch: int
    """Counted from 1."""
    loss: float
    """Mean of the steps since the last report."""
    learning_rate: float
    """Of the next step."""
    examples_per_second: float
    """Images or captions, since this process started."""
    seconds: float
    """Spent on training so far, in this process and in those it resumed from."""
    seconds_left: float


Progress = Callable[[StepReport], None]


class Fit(Generic[N]):
    """A training: network, optimiser, average of weights, and the step it is at."""

    checkpoint_name: str
    identity_of_what: str
    """What two runs must share to share a checkpoint, as the error names it."""

    def __init__(
        self,
        network: N,
        optimizer: torch.optim.Optimizer,
        plan: Plan,
        *,
        device: torch.device,
        identity: str,
        compile_network: bool = False,
        graphs: bool = False,
    ) -> None:
        """`network` is on the device; `identity` is what the function of that name returns."""
        self.network, self.optimizer, self.plan = network, optimizer, plan
        self.device, self.identity = device, identity
        self.step, self.steps = 0, plan.epochs * plan.steps_per_epoch
        self.network.train()
        self.full_rates = [group["lr"] for group in optimizer.param_groups]
        self.forward = wrapped(network, compile_network=compile_network, graphs=graphs)
        # Looked up once: walking through all modules takes as long as launching a layer on a GPU.
        self.parameters = list(network.parameters())
        self.averaged = list(_averaged(network))
        self.average = [v.detach().clone() for v in self.averaged] if plan.weight_average else []
        self._started = perf_counter()

    def loss(self, step: int, part: slice) -> Tensor:
        """Loss of these rows of a step's batch. Each training defines it."""
        raise NotImplementedError

    def draws_seed(self, step: int) -> int:
        """Seed of everything random in a step."""
        return self.plan.seed * 1_000_003 + step

    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        checkpoint_seconds: float = 60.0,
        progress: Progress | None = None,
        report_every: int = 20,
    ) -> N:
        """Take all steps, or those that the checkpoint in `folder` has not taken."""
        path = None if folder is None else Path(folder) / self.checkpoint_name
        if path is not None and is_whole(path):
            self.restore(path)
        report = _Reporter(self, progress)
        saved = perf_counter()
        over = self.is_over
        while not over:
            loss = self.advance()
            over = self.is_over  # asked once: the clock may run out between two questions
            if path is not None and (over or perf_counter() - saved > checkpoint_seconds):
                self.save(path)
                saved = perf_counter()
            # Last: `progress` may end the run (`TimeLimitError`).
            report.add(loss, now=over or self.step % report_every == 0)
        return self.finished()

    def advance(self) -> Tensor:
        """One step. Returns the loss of this process' share of the batch."""
        rank, world = rank_and_world()
        parts = world * self.plan.accumulate
        seed, factor = self.draws_seed(self.step), self.rate_factor
        for group, rate in zip(self.optimizer.param_groups, self.full_rates, strict=True):
            group["lr"] = rate * factor
        if not self.network.training:
            self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self.device)
        for index in range(rank, parts, world):
            waits = without_sync(self.forward, when=index + world < parts)
            with waits, draws_for(index, parts, seed=seed, device=self.device):
                part = self.loss(self.step, slice(index, None, parts)) / self.plan.accumulate
                part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        if self.plan.gradient_clip:
            nn.utils.clip_grad_norm_(self.parameters, self.plan.gradient_clip)
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss

    @property
    def seconds(self) -> float:
        """Spent on training so far; what progress callbacks took does not count."""
        return perf_counter() - self._started

    @property
    def is_over(self) -> bool:
        """Whether all steps are taken, or the time is up."""
        return self.step >= self.steps or self.seconds >= self.plan.budget_seconds

    @property
    def rate_factor(self) -> float:
        """Share of the full learning rate at the next step."""
        by_clock = self.steps * (self.seconds / self.plan.budget_seconds)
        return self.plan.schedule(max(self.step, by_clock), self.steps)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of this training."""
        return precision(self.device, self.plan.precision)

    @torch.no_grad()
    def _update_average(self) -> None:
        if not self.average:
            return
        # Early on the average forgets faster, so that it does not remember the start.
        decay = min(self.plan.weight_average, (1 + self.step) / (10 + self.step))
        current = [value.detach() for value in self.averaged]
        torch._foreach_lerp_(self.average, current, 1 - decay)

    def finished(self) -> N:
        """The network with the averaged weights, where an average is kept; in evaluation mode."""
        return self._with_average(self.network)

    def averaged_network(self) -> N:
        """The same as a copy, in the middle of a training."""
        return self._with_average(copy.deepcopy(self.network))

    @torch.no_grad()
    def _with_average(self, network: N) -> N:
        if self.average:
            for value, mean in zip(_averaged(network), self.average, strict=True):
                value.copy_(mean)
        network.eval()
        return network

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all, in the first process. It ends with its sum."""
        if not is_first():
            return
        state = {
            "identity": self.identity,
            "step": self.step,
            "seconds": self.seconds,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average,
        }
        with summed_path(path) as temporary:
            torch.save(state, temporary)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint of the same run; one of another run is refused."""
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state.get("identity") != self.identity:
            raise ConfigError(
                f"{path}: belongs to a run with other {self.identity_of_what}; use the same ones "
                "again, choose another folder, or delete the file to start over"
            )
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average, self.step = state["average"], state["step"]
        self._started = perf_counter() - state["seconds"]
        check_same_step(self.step, device=self.device)
        log.info("resumed %s at step %d of %d", path, self.step, self.steps)


class _Reporter:
    """Calls `progress` now and then: reading the loss makes a GPU wait."""

    def __init__(self, fit: Fit[Any], progress: Progress | None) -> None:
        self.fit, self.progress = fit, progress
        self.started, self.first = fit.seconds, fit.step
        self.losses: list[Tensor] = []

    def add(self, loss: Tensor, *, now: bool) -> None:
        """Keep the loss of a step, or report the mean of those kept."""
        self.losses.append(loss)
        if not now:
            return
        loss = mean_over_processes(torch.stack(self.losses).mean())  # in all, whoever reports
        self.losses.clear()
        if self.progress is None:
            return
        fit, paused = self.fit, perf_counter()
        done = fit.step - self.first
        seconds = max(fit.seconds - self.started, 1e-9)
        left = min((fit.steps - fit.step) * seconds / done, fit.plan.budget_seconds - fit.seconds)
        self.progress(
            StepReport(
                step=fit.step,
                steps=fit.steps,
                epoch=-(-fit.step // fit.plan.steps_per_epoch),
                loss=float(loss),
                learning_rate=fit.plan.learning_rate * fit.rate_factor,
                examples_per_second=done * fit.plan.batch_size / seconds,
                seconds=fit.seconds,
                seconds_left=max(left, 0.0),
            )
        )
        fit._started += perf_counter() - paused


def parameter_groups(
    parameters: Iterable[nn.Parameter],
    *,
    learning_rate: float,
    weight_decay: float,
    vectors_factor: float = 1.0,
) -> Iterator[dict[str, Any]]:
    """Matrices, which decay, and vectors (biases, scales), which do not and may learn faster.

    Frozen parameters are in no group.
    """
    trained = [p for p in parameters if p.requires_grad]
    matrices, vectors = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim < 2]
    if matrices:
        yield {"params": matrices, "lr": learning_rate, "weight_decay": weight_decay}
    if vectors:
        yield {"params": vectors, "lr": learning_rate * vectors_factor, "weight_decay": 0.0}


def adamw(
    groups: Iterable[dict[str, Any]], *, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.Optimizer:
    """AdamW, as one program for all parameters on a GPU."""
    several = list(groups)
    return torch.optim.AdamW(several, betas=betas, fused=several[0]["params"][0].is_cuda)


def warm_cosine(step: float, steps: float, warmup: float, *, lowest: float | None = None) -> float:
    """Share of the full rate: up in a straight line for `warmup` of the steps, then a half cosine.

    >>> [round(warm_cosine(step, 100, 0.1), 2) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]

    With `lowest` the line starts there and reaches the full rate a step later:

    >>> [round(warm_cosine(done, 1.0, 0.5, lowest=0.02), 2) for done in (0.0, 0.25, 0.5, 0.75)]
    [0.02, 0.5, 1.0, 0.5]
    """
    warm = warmup * steps
    if step < warm:
        return (step + 1) / warm if lowest is None else max(lowest, step / warm)
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / ((steps - warm) or 1.0)))


def precision(device: torch.device, wanted: Precision = "auto") -> AbstractContextManager[Any]:
    """bfloat16 on a GPU, float32 elsewhere, unless another is wanted."""
    if wanted == "bfloat16" or (wanted == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def identity(*parts: str | bytes | np.ndarray | None) -> str:
    """A sum over settings and data: equal for runs that may share a checkpoint."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            part = np.ascontiguousarray(part).tobytes()
        digest.update(part.encode() if isinstance(part, str) else part or b"")
    return digest.hexdigest()


def tensorboard_progress(folder: str | os.PathLike[str]) -> Progress:
    """A callback that writes loss, rate and speed of each report as TensorBoard files."""
    require("tensorboard", extra="tensorboard", purpose="writing TensorBoard logs")
    boards = require("torch.utils.tensorboard", extra="train", purpose="writing TensorBoard logs")
    writer = boards.SummaryWriter(os.fspath(folder))

    def write(report: StepReport) -> None:
        writer.add_scalar("words/loss", report.loss, report.step)
        writer.add_scalar("words/learning_rate", report.learning_rate, report.step)
        writer.add_scalar("words/images_per_second", report.examples_per_second, report.step)
        writer.flush()

    return write


def _averaged(network: nn.Module) -> Iterator[Tensor]:
    """What the running average holds: parameters, and the statistics of normalisation layers."""
    yield from network.parameters()
    yield from (buffer for buffer in network.buffers() if buffer.is_floating_point())
