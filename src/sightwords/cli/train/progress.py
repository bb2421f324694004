"""Progress of training: on stderr, and into TensorBoard's files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from sightwords.errors import MissingExtraError

if TYPE_CHECKING:
    from sightwords.train.fit import Progress, StepReport

QUIET_SECONDS = 30.0
"""Between lines of progress where stderr is not a terminal."""


class ProgressLine:
    """Progress on stderr: a line that is redrawn on a terminal, else a line every half minute."""

    def __init__(self) -> None:
        self.drawn = sys.stderr.isatty()
        self.started = self.said = time.monotonic()
        self.first_tokens: int | None = None

    def images(self, count: int) -> None:
        """Show how many images are done, of an unknown number."""
        speed = count / max(time.monotonic() - self.started, 1e-9)
        self._say(f"{count:,} images, {speed:.0f} images/s")

    def step(self, report: StepReport) -> None:
        """A step of the training."""
        self._say(
            f"step {report.step:,}/{report.steps:,}, loss {report.loss:.4f}, "
            f"{report.examples_per_second:.0f} images/s, {clock(report.seconds_left)} left",
            last=report.step == report.steps,
        )

    def captions(self, report: StepReport) -> None:
        """A step of the similarity model's training."""
        self._say(
            f"step {report.step:,}/{report.steps:,}, loss {report.loss:.3f}",
            last=report.step == report.steps,
        )

    def parts(self, done: int, total: int) -> None:
        """Show how many parts of the text are read."""
        self._say(f"{done:,}/{total:,} parts of the text read", last=done == total)

    def tokens(self, done: int, total: int) -> None:
        """Show how many tokens of all epochs are done."""
        if self.first_tokens is None:  # a resumed run starts in the middle, and compiles first
            self.first_tokens, self.started = done, time.monotonic()
        seconds = max(time.monotonic() - self.started, 1e-9)
        speed = (done - self.first_tokens) / seconds
        left = f"{clock((total - done) / speed)} left" if speed else "the first block is done"
        self._say(f"{done:,}/{total:,} tokens, {speed:,.0f} tokens/s, {left}", last=done == total)

    def end(self) -> None:
        """Clear the line."""
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _say(self, text: str, *, last: bool = False) -> None:
        now = time.monotonic()
        if self.drawn:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif last or now - self.said > QUIET_SECONDS:
            print(f"sightwords: {text}", file=sys.stderr, flush=True)
            self.said = now


def need_torch() -> None:
    """One line instead of a traceback where the extra is not installed."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(
            "training needs the package 'torch', which is not installed; "
            "install it with: pip install 'sightwords[train]'"
        )


def step_progress(line: ProgressLine, tensorboard: str) -> Progress:
    """Reports to stderr, and to TensorBoard's files if a folder is given."""
    if not tensorboard:
        return line.step
    from sightwords.train.fit import tensorboard_progress

    write = tensorboard_progress(tensorboard)

    def both(report: StepReport) -> None:
        line.step(report)
        write(report)

    return both


def clock(seconds: float) -> str:
    """Hours and minutes for people.

    >>> clock(75), clock(4000)
    ('1:15', '1:06:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
