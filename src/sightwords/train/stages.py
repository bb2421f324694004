"""Stages that are run at most once: each kept under a hash of its inputs and settings.

A stage names the stages it needs, the settings it depends on and a function. It works in a folder
of its own, `NAME-HASH`; `done.json`, written last, says that it is finished. Change a setting, and
that stage and all that need it run again; a run that was stopped resumes from there.
`done.json` holds the sums of the stage's files and of those it was made from: a stage whose files
are damaged runs again, and so do those that need it unless it wrote the very same files again.

A GPU is often available only for short times: `only` and `until` choose stages, a time limit stops
the one that is running. Keys depend on content and settings, not on paths: a work folder that
was copied to another machine resumes there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, Literal, TypeVar

from sightwords._version import __version__
from sightwords.errors import ConfigError
from sightwords.train.integrity import (
    Sums,
    damage,
    read_sealed,
    remove_partials,
    sums_of,
    write_sealed,
)

log = logging.getLogger(__name__)

DONE_NAME = "done.json"
STARTED_NAME = "started.json"
"""There while a stage runs: the sums of the files that it works on."""
R = TypeVar("R")


class TimeLimitError(Exception):
    """The time limit was reached within a stage; its checkpoint, where it has one, is kept."""


@dataclass(frozen=True, slots=True)
class Update:
    """What the one progress view shows."""

    stage: str
    number: int
    """From 1."""
    stages: int
    state: Literal["kept", "running", "done"]
    done: int = 0
    total: int | None = None
    """None where nobody knows how many there will be."""
    unit: str = ""
    seconds: float = 0.0


Progress = Callable[[Update], None]


@dataclass(frozen=True)
class Job(Generic[R]):
    """What a stage gets."""

    recipe: R
    folder: Path
    """Its own; what an earlier, stopped run left is still there."""
    inputs: Mapping[str, Path]
    """Folders of the stages it needs, by name."""
    cache: Path
    """Shared by all stages, for what only depends on the data."""
    say: Callable[[int, int | None, str], None] = lambda *_: None
    """Told how much is done, of how much, in which unit."""


@dataclass(frozen=True)
class Stage(Generic[R]):
    """One line of the table."""

    name: str
    needs: tuple[str, ...]
    settings: Callable[[R], Any]
    """What of the recipe it depends on; its `repr` is hashed."""
    run: Callable[[Job[R]], Mapping[str, object]]
    """Works in `Job.folder`; returns figures to keep in `done.json`."""


@dataclass
class Finished:
    """Folders and figures of all stages, by name."""

    folders: dict[str, Path] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Mapping[str, object]] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)
    """One over all files that a stage wrote."""
    stopped: str | None = None
    """The stage in which the time limit was reached."""


def run_stages(
    stages: Sequence[Stage[R]],
    recipe: R,
    work: Path,
    *,
    only: Collection[str] = (),
    until: str | None = None,
    max_seconds: float = math.inf,
    progress: Progress | None = None,
) -> Finished:
    """Run what is not finished yet or is damaged, in the order of the table.

    `only` runs these stages alone, on what others left; `until` ends after that one. After
    `max_seconds` the running stage is stopped when it next reports progress, and
    `Finished.stopped` names it: the same call resumes from its last checkpoint.
    """
    names = [stage.name for stage in stages]
    for name in (*only, *([until] if until else [])):
        if name not in names:
            raise ConfigError(f"no stage is called {name!r}; expected one of {', '.join(names)}")
    found = Finished()
    ends = perf_counter() + max_seconds
    remove_partials(work)
    wanted = stages[: names.index(until) + 1] if until else stages
    for number, stage in enumerate(wanted, 1):
        missing = [name for name in stage.needs if name not in found.keys]
        if missing:
            raise ConfigError(f"stage {stage.name!r} needs {missing[0]!r}, which is not before it")
        found.keys[stage.name] = key = key_of(stage, recipe, found.keys)
        folder = work / f"{stage.name}-{key[:12]}"
        here = Update(stage.name, number, len(stages), "running")
        unfinished = [name for name in stage.needs if name not in found.folders]
        inputs = {name: found.sums[name] for name in stage.needs if name in found.sums}
        stored = None if unfinished else _kept(stage.name, folder, key, inputs)
        state: Literal["kept", "done"] = "kept"
        if stored is None:
            if only and stage.name not in only:
                continue
            if unfinished:
                raise ConfigError(
                    f"stage {stage.name!r} needs {unfinished[0]!r}, which is not finished in "
                    f"{work}; run that first"
                )
            needed = {name: found.folders[name] for name in stage.needs}
            say = _Teller(progress, here, ends)
            job = Job(recipe, folder, needed, work / "cache", say)
            try:
                stored, state = _run(stage, job, key, inputs), "done"
            except TimeLimitError:
                found.stopped = stage.name
                return found
        _tell(progress, here, state=state, seconds=stored["seconds"])
        found.folders[stage.name] = folder
        found.figures[stage.name] = stored["figures"]
        found.sums[stage.name] = _sum_over(stored["files"])
    return found


def _kept(name: str, folder: Path, key: str, inputs: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What `done.json` says of a finished stage; None where the stage has to run."""
    if not (folder / DONE_NAME).exists():
        return None
    stored = read_sealed(folder / DONE_NAME)
    if stored is None:
        return None
    if (stored.get("stage"), stored.get("key"), stored.get("inputs")) != (name, key, inputs):
        log.warning("%s: was made from other files; the stage %r runs again", folder, name)
        return None
    problem = damage(folder, stored["files"])
    if problem is not None:
        log.warning("damaged: %s; the stage %r runs again", problem, name)
        return None
    return stored


def _run(stage: Stage[R], job: Job[R], key: str, inputs: Mapping[str, str]) -> Mapping[str, Any]:
    """Run one stage and write down that it is finished."""
    _remove_work_on_other_files(job.folder, inputs)
    job.folder.mkdir(parents=True, exist_ok=True)
    write_sealed(job.folder / STARTED_NAME, {"inputs": inputs})
    (job.folder / DONE_NAME).unlink(missing_ok=True)
    job.say(0, None, "")
    started = perf_counter()
    figures = dict(stage.run(job))
    document = {
        "stage": stage.name,
        "key": key,
        "seconds": round(perf_counter() - started, 1),
        "figures": figures,
        "inputs": inputs,
        "files": {n: s for n, s in sums_of(job.folder).items() if n != STARTED_NAME},
    }
    write_sealed(job.folder / DONE_NAME, document)
    (job.folder / STARTED_NAME).unlink()
    return document


def _remove_work_on_other_files(folder: Path, inputs: Mapping[str, str]) -> None:
    """Delete what an earlier run left (lists, a checkpoint) if it worked on other files."""
    for path in (folder / STARTED_NAME, folder / DONE_NAME):
        if path.exists():
            stored = read_sealed(path)
            if stored is None or stored.get("inputs") != inputs:
                shutil.rmtree(folder)
                return


def _sum_over(files: Sums) -> str:
    """One sum over the files of a stage."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode("ascii")).hexdigest()


@dataclass(frozen=True)
class _Teller:
    """What a stage tells its progress to; ends the stage when its time is over."""

    progress: Progress | None
    here: Update
    ends: float

    def __call__(self, done: int, total: int | None, unit: str) -> None:
        if perf_counter() > self.ends:
            raise TimeLimitError
        _tell(self.progress, self.here, done=done, total=total, unit=unit)


def _tell(progress: Progress | None, here: Update, **changes: Any) -> None:
    if progress:
        progress(replace(here, **changes))


def key_of(stage: Stage[R], recipe: R, keys: Mapping[str, str]) -> str:
    """The hash under which a stage is kept: its settings and the hashes of what it needs."""
    parts = [__version__, stage.name, repr(stage.settings(recipe))]
    parts += [f"{name}={keys[name]}" for name in stage.needs]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
