"""TensorBoard files hold what was reported."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from sightwords.train.fit import StepReport, tensorboard_progress

pytestmark = pytest.mark.torch


def test_reports_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped,unused-ignore]
        EventAccumulator,
    )

    write = tensorboard_progress(tmp_path)
    for step, loss in ((20, 3.5), (40, 2.25)):
        write(StepReport(step, 100, 1, loss, 1e-4, 500.0, 3.0, 9.0))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("words/loss")]
    assert found == [(20, 3.5), (40, 2.25)]
    assert len(events.Scalars("words/learning_rate")) == 2
