"""What a batch is asked for, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from sightwords._version import __version__
from sightwords.batch.outputs import SIDECARS, Format

Overwrite = Literal["never", "missing", "always"]


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """What a batch is asked for."""

    out: Path
    """The results file, or the folder of the sidecars."""
    format: Format = "jsonl"
    bundle: str | None = None
    """None: the one inside the package."""
    overwrite: Overwrite = "never"
    """What is there already: `never` touched, kept with what is `missing` added, or `always`
    replaced."""
    in_place: bool = False
    """Whether `embedded` may change the photographs themselves; `out` is then their folder."""
    resume: bool = False
    """Go on where an earlier run was killed."""
    workers: int | None = None
    """Processes; None: one for each core."""
    n_best: int = 0
    """Sentences to keep beside the caption, in JSONL."""
    min_precision: float = 0.0
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()

    @property
    def sidecars(self) -> bool:
        """Whether each photograph gets a file of its own."""
        return self.format in SIDECARS

    @property
    def journal(self) -> Path:
        """What is done so far."""
        if self.sidecars:
            return self.out / ".sightwords-batch.part"
        return self.out.with_name(f"{self.out.name}.part")

    @property
    def errors(self) -> Path:
        """Photographs that could not be captioned."""
        if self.sidecars:
            return self.out / "sightwords-errors.jsonl"
        return self.out.with_name(f"{self.out.name}.errors.jsonl")

    def settings(self, fingerprint: str) -> dict[str, Any]:
        """All that the records depend on: a run is resumed with the same only."""
        return {
            "sightwords": __version__,
            "bundle": fingerprint,
            "format": self.format,
            "n_best": self.n_best,
            "min_precision": self.min_precision,
            "require": list(self.require),
            "forbid": list(self.forbid),
        }


@dataclass(slots=True)
class Progress:
    """How far a batch is."""

    total: int | None
    done: int = 0
    """Photographs dealt with, those of earlier runs included."""
    failed: int = 0
    kept: int = 0
    """Of those done, the ones that this run did not have to caption."""
    started: float = field(default_factory=monotonic)

    @property
    def seconds(self) -> float:
        """Since the start of this run."""
        return monotonic() - self.started

    @property
    def images_a_second(self) -> float:
        """Of this run."""
        return (self.done - self.kept) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """None while it cannot be told."""
        if self.total is None or self.done <= self.kept:
            return None
        return max(0, self.total - self.done) / self.images_a_second
