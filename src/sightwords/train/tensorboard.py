"""Progress of detector training as TensorBoard files."""

from __future__ import annotations

import os

from sightwords.errors import require
from sightwords.train.words.training import Progress, StepReport


def tensorboard_progress(directory: str | os.PathLike[str]) -> Progress:
    """A callback that writes loss, rate and speed of each report."""
    require("tensorboard", extra="tensorboard", purpose="writing TensorBoard logs")
    boards = require("torch.utils.tensorboard", extra="train", purpose="writing TensorBoard logs")
    writer = boards.SummaryWriter(os.fspath(directory))

    def write(report: StepReport) -> None:
        for name in ("loss", "learning_rate", "images_per_second"):
            writer.add_scalar(f"words/{name}", getattr(report, name), report.step)
        writer.flush()

    return write
