"""The options of a batch, and how far it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from sightwords._version import __version__
from sightwords.batch.outputs import FILE_PER_PHOTO, Format
from sightwords.errors import InputError
from sightwords.images.limits import MAX_MEGABYTES, MAX_SECONDS, limits_of
from sightwords.language.constraints import split_words, unknown_words_warning
from sightwords.pipeline import Captioner, load
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary

log = logging.getLogger(__name__)

Overwrite = Literal["never", "missing", "always"]


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """The options of a batch on any engine."""

    format: Format = "jsonl"
    bundle: str | None = None
    """None: the one inside the package."""
    overwrite: Overwrite = "never"
    """Existing output: `never` touched, kept with what is `missing` added, or `always` replaced."""
    resume: bool = False
    """Continue an earlier run that was killed."""
    workers: int | None = None
    """Cores to use; None: all."""
    n_best: int = 0
    """Sentences to keep beside the caption, in JSONL and Parquet."""
    max_seconds: float = MAX_SECONDS
    """Time limit for one photo; one that takes longer is listed as an error."""
    max_megabytes: float = MAX_MEGABYTES
    """Memory limit for decoding one photo."""
    min_precision: float = 0.0
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()

    def captioner(self, bundle: Path) -> Callable[[], Captioner]:
        """A function that loads the bundle with these options, on one core.

        It leaves out forbidden words that the bundle never says: `warn` names them once, but each
        process and each machine would name them again.
        """
        forbid = split_words(self.forbid)
        if forbid:
            spoken = _spoken(bundle)
            forbid = tuple(word for word in forbid if word in spoken)
        return partial(
            load,
            bundle,
            threads=1,
            n_best=max(1, self.n_best),
            min_precision=self.min_precision,
            require=self.require,
            forbid=forbid,
            limits=limits_of(self.max_seconds, self.max_megabytes),
        )

    def warn(self, bundle: Path) -> None:
        """Warn of forbidden words that a bundle never says anyway: they may be misspelt."""
        if self.forbid and (
            idle := unknown_words_warning(split_words(self.forbid), _spoken(bundle))
        ):
            log.warning("%s", idle)

    def settings(self, fingerprint: str) -> dict[str, Any]:
        """All that the records depend on: a run is resumed only with the same settings."""
        return {
            "sightwords": __version__,
            "bundle": fingerprint,
            "format": self.format,
            "n_best": self.n_best,
            "min_precision": self.min_precision,
            "require": list(self.require),
            "forbid": list(self.forbid),
        }

    def refuse_unfinished(self, place: object) -> None:
        """Refuse to start over an unfinished batch, unless asked to resume or replace it."""
        if not self.resume and self.overwrite != "always":
            raise InputError(
                f"{place}: is an unfinished batch; continue it with --resume, or start again with "
                "--overwrite always"
            )


@dataclass(frozen=True, kw_only=True)
class BatchOptions(CommonOptions):
    """The options of a batch on this machine."""

    out: Path
    """The results file, or the folder of the files per photo."""
    in_place: bool = False
    """Whether `embedded` may change the photos themselves; `out` is then their folder."""

    @property
    def file_per_photo(self) -> bool:
        """Whether each photo gets its own file."""
        return self.format in FILE_PER_PHOTO

    @property
    def journal(self) -> Path:
        """What is done so far."""
        if self.file_per_photo:
            return self.out / ".sightwords-batch.part"
        return self.out.with_name(f"{self.out.name}.part")

    @property
    def sums(self) -> Path:
        """Which bytes the captions describe, for a later `--overwrite missing` or `--resume`."""
        if self.file_per_photo:
            return self.out / ".sightwords-sums"
        return self.out.with_name(f".{self.out.name}.sums")

    @property
    def errors(self) -> Path:
        """Photos that could not be captioned."""
        if self.file_per_photo:
            return self.out / "sightwords-errors.jsonl"
        return self.out.with_name(f"{self.out.name}.errors.jsonl")


CLUSTER_FORMATS: tuple[Format, ...] = ("jsonl", "parquet")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(CommonOptions):
    """The options of a batch on a Ray cluster."""

    out: str
    """A path or URL: one file where it ends in .jsonl or .parquet, else a folder of them."""
    address: str | None = None
    """HOST:PORT of the cluster, or `auto`; None: RAY_ADDRESS, or a cluster of this machine."""
    slice_images: int = 256
    """Photos captioned and kept together: a lost machine loses at most one slice per core."""

    def __post_init__(self) -> None:
        """Refuse options that a cluster does not support."""
        if self.format not in CLUSTER_FORMATS:
            raise InputError(
                f"--engine ray writes {' or '.join(CLUSTER_FORMATS)}, not {self.format}; end --out "
                "in such a format, give --format, or use --engine local"
            )
        if self.overwrite == "missing":
            raise InputError(
                "--overwrite missing needs --engine local; --engine ray captions a whole "
                "source: continue it with --resume, or give the new shards and another --out"
            )
        if self.address is not None and self.address.startswith("ray://"):
            raise InputError(
                f"--address {self.address}: Ray Data needs a driver inside the cluster; run this "
                "on one of its machines with --address auto, or submit it with: ray job submit"
            )

    @property
    def one_file(self) -> bool:
        """Whether the captions of all units go into one file."""
        return self.out.lower().endswith((".jsonl", ".ndjson", ".parquet"))

    @property
    def parts(self) -> str:
        """The folder of what is done so far."""
        return f"{self.out}.parts" if self.one_file else f"{self.out.rstrip('/')}/.parts"

    @property
    def errors(self) -> str:
        """Photos that could not be captioned."""
        if self.one_file:
            return f"{self.out}.errors.jsonl"
        return f"{self.out.rstrip('/')}/sightwords-errors.jsonl"

    @property
    def marker(self) -> str:
        """The file that exists only when the whole output is written."""
        return self.out if self.one_file else f"{self.out.rstrip('/')}/sightwords-batch.json"


def _spoken(bundle: Path) -> Vocabulary:
    """The words that a bundle's sentences are made of."""
    return load_vocabulary(bundle / "language" / "vocabulary.json")


@dataclass(slots=True)
class Progress:
    """How far a batch is."""

    total: int | None
    done: int = 0
    """Photos captioned or failed, those of earlier runs included."""
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
        """None while it is unknown."""
        if self.total is None or self.done <= self.kept:
            return None
        return max(0, self.total - self.done) / self.images_a_second
