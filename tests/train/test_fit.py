"""The training loop on a line to fit: rates, average, reports, budget, checkpoints."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sightwords.errors import ConfigError  # noqa: E402
from sightwords.train.data.sampler import rand_rows  # noqa: E402
from sightwords.train.fit import (  # noqa: E402
    Fit,
    Plan,
    StepReport,
    adamw,
    identity,
    parameter_groups,
    warm_cosine,
)

pytestmark = pytest.mark.torch

RATE = 0.1


class Line(Fit[Any]):
    """y = 2 x + 1 at random points, a batch of four."""

    checkpoint_name = "line.pt"
    identity_of_what = "seed"

    def __init__(self, **changes: Any) -> None:
        plan = Plan(
            **{
                "epochs": 3,
                "steps_per_epoch": 4,
                "batch_size": 4,
                "seed": 0,
                "learning_rate": RATE,
                "schedule": lambda step, steps: warm_cosine(step, steps, 0.25),
                **changes,
            }
        )
        torch.manual_seed(7)
        network = torch.nn.Linear(1, 1)
        groups = parameter_groups(network.parameters(), learning_rate=RATE, weight_decay=0.01)
        super().__init__(
            network,
            adamw(groups),
            plan,
            device=torch.device("cpu"),
            identity=identity(str(plan.seed)),
        )

    def loss(self, step: int, part: slice) -> Any:
        """Mean square error."""
        x = torch.arange(4.0)[part, None] + rand_rows(len(range(4)[part]), 1)
        return (self.network(x) - 2 * x - 1).square().mean()


def _state(network: Any) -> list[float]:
    return [v for parameter in network.parameters() for v in parameter.detach().flatten().tolist()]


def test_reports_have_the_mean_loss_and_the_next_rate() -> None:
    found: list[StepReport] = []
    one_by_one = Line()
    losses = [float(one_by_one.advance()) for _ in range(12)]
    Line().run(progress=found.append, report_every=5)
    assert [report.step for report in found] == [5, 10, 12]
    assert [report.epoch for report in found] == [2, 3, 3]
    means = [sum(part) / len(part) for part in (losses[:5], losses[5:10], losses[10:])]
    assert [report.loss for report in found] == pytest.approx(means)
    assert found[0].learning_rate == pytest.approx(RATE * warm_cosine(5, 12, 0.25))
    assert found[-1].seconds_left == 0


def test_the_average_by_hand() -> None:
    """Its decay is at most (1 + n) / (10 + n) after n steps."""
    fit, averaged = Line(weight_average=0.3), None
    for step in (1, 2, 3):
        fit.advance()
        now = _state(fit.network)
        start = _state(Line().network) if averaged is None else averaged
        decay = min(0.3, (1 + step) / (10 + step))
        averaged = [decay * a + (1 - decay) * b for a, b in zip(start, now, strict=True)]
    assert averaged is not None
    assert _state(fit.averaged_network()) == pytest.approx(averaged)
    assert _state(fit.network) != pytest.approx(averaged)
    assert _state(fit.finished()) == pytest.approx(averaged)


def test_parts_of_a_batch_add_up() -> None:
    whole, parts = (Line(accumulate=n).run() for n in (1, 4))
    assert _state(parts) == pytest.approx(_state(whole), rel=1e-5)


def test_a_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    def kill(report: StepReport) -> None:
        if report.step == 7:
            raise KilledError

    with pytest.raises(KilledError):
        Line(weight_average=0.9).run(
            tmp_path, checkpoint_seconds=0.0, progress=kill, report_every=1
        )
    resumed = Line(weight_average=0.9)
    resumed.restore(tmp_path / "line.pt")
    assert resumed.step == 7  # saved before it was told
    assert _state(resumed.run()) == _state(Line(weight_average=0.9).run())
    with pytest.raises(ConfigError, match=r"line\.pt: .*seed"):
        Line(seed=1).run(tmp_path)


@pytest.mark.parametrize("kill_at", [0, 1, 7, 11])
def test_a_step_that_was_under_way_is_taken_again(tmp_path: Path, kill_at: int) -> None:
    class KilledError(Exception):
        pass

    class Killed(Line):
        def loss(self, step: int, part: slice) -> Any:
            if step == kill_at:
                raise KilledError
            return super().loss(step, part)

    unbroken = Line().run()
    with pytest.raises(KilledError):
        Killed().run(tmp_path, checkpoint_seconds=0.0)
    steps: list[int] = []
    again = Line().run(tmp_path, progress=lambda report: steps.append(report.step), report_every=1)
    assert steps == list(range(kill_at + 1, 13))  # counted from 1: the step itself is the first
    assert _state(again) == _state(unbroken)


def test_a_budget_ends_the_run_and_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that gains 10 ms each time it is read: about thirty steps in a second."""
    clock = count()
    monkeypatch.setattr("sightwords.train.fit.perf_counter", lambda: next(clock) / 100)
    first = Line(epochs=1000, budget_seconds=1.0)
    first.run(tmp_path)
    assert 10 < first.step < 100
    assert first.rate_factor < 0.01  # the rate fell by the clock
    again = Line(epochs=1000, budget_seconds=1.0)
    again.run(tmp_path)
    assert again.step == first.step


def test_matrices_decay_and_vectors_do_not() -> None:
    frozen = torch.nn.Parameter(torch.zeros(2, 2), requires_grad=False)
    matrix, vector = torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))
    found = list(
        parameter_groups(
            [frozen, vector, matrix], learning_rate=1.0, weight_decay=0.5, vectors_factor=2.0
        )
    )
    assert [(g["lr"], g["weight_decay"]) for g in found] == [(1.0, 0.5), (2.0, 0.0)]
    assert found[0]["params"][0] is matrix
    assert math.isclose(warm_cosine(0.5, 1.0, 0.0), 0.5)
