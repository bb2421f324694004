"""What runs on the machines of a cluster: a unit read, a slice captioned, a unit finished.

Ray calls these with Arrow tables of one row. What a user can do something about comes back as a
row's `trouble`, so that it ends the batch with one line instead of a traceback of Ray's.
"""

from __future__ import annotations

import os
import pickle
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sightwords._version import __version__
from sightwords.batch.journal import line_of
from sightwords.batch.keys import prints_of
from sightwords.batch.options import ClusterOptions
from sightwords.batch.outputs import write_results
from sightwords.batch.parts import (
    HEADER,
    Done,
    Keys,
    load_unit,
    named,
    save_slice,
    tries_name,
)
from sightwords.batch.sources import Item
from sightwords.batch.store import Store
from sightwords.batch.units import Unit, slices
from sightwords.batch.workers import describe
from sightwords.corpus.problems import Problems
from sightwords.errors import BundleError, SightwordsError, require
from sightwords.pipeline import Captioner

TRIES = 5
"""Actors that a slice may outlive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What every machine must know."""

    options: ClusterOptions
    parts: Store
    out: Store
    """The folder of the output, where it is not one file."""
    header: bytes
    """Of the parts' folder: who reads something else there looks at another disk."""
    folder: str
    """Where the command was given; names of photographs are relative to it."""
    threads: int
    """Photographs that an actor captions at a time."""
    version: str = __version__


Row = dict[str, Any]


def table(row: Row) -> Any:
    """One row as Ray wants it."""
    arrow = require("pyarrow", extra="ray", purpose="--engine ray")
    return arrow.table({name: [value] for name, value in row.items()})


def trouble(error: object) -> Row:
    """A row that ends the batch."""
    return {"unit": -1, "slice": -1, "images": 0, "failed": 0, "items": b"", "trouble": str(error)}


def prepare(work: Work) -> None:
    """Stand where the command was given; refuse a machine that cannot share in the work."""
    where = f"machine {platform.node()}"
    if work.version != __version__:
        raise SightwordsError(
            f"{where}: has sightwords {__version__}, and the batch was started with "
            f"{work.version}; install the same version on all machines"
        )
    if not _is_ours(work):
        raise SightwordsError(
            f"{where}: does not see {work.parts.folder}, or sees another one; give an --out that "
            "all machines share: a network folder, or a URL such as s3://BUCKET/NAME"
        )
    if Path(work.folder).is_dir():
        os.chdir(work.folder)


def _is_ours(work: Work) -> bool:
    """Whether the folder of parts is, here and now, that of this batch."""
    try:
        return work.parts.read(HEADER) == work.header
    except OSError:
        return False


def read_unit(batch: Any, work: Work) -> Iterator[Any]:
    """A unit -> its slices that are not done, with the photographs' bytes; at the end its keys."""
    unit, done = pickle.loads(batch["unit"][0].as_py())
    try:
        prepare(work)
        for row in _slice_rows(unit, done, work):
            yield table(row)
    except SightwordsError as error:
        yield table(trouble(error))


def _slice_rows(unit: Unit, done: frozenset[int], work: Work) -> Iterator[Row]:
    if unit.shard is not None and unit.seen and not Path(unit.shard).is_file():
        raise SightwordsError(
            f"machine {platform.node()}: does not see {unit.shard}; give a SOURCE that all "
            "machines share: a network folder's absolute path, or a URL"
        )
    said: list[str] = []
    problems = Problems(on_problem=lambda problem: said.append(str(problem)))
    ids: list[str] = []
    number = -1
    for number, items in enumerate(slices(unit, problems, images=work.options.slice_images)):
        ids += [item.id for item in items]
        if number not in done:
            row = {"unit": unit.number, "slice": number, "images": len(items), "failed": 0}
            yield {**row, "items": pickle.dumps(items), "trouble": ""}
    Keys(ids, said).save(work.parts, unit.number, number + 1)


class Captioning:
    """An actor: holds the whole system once, captions a slice and keeps it."""

    def __init__(self, work: Work, bundle: Any) -> None:
        """Take the bundle out of Ray's store; what goes wrong is said with the first slice."""
        self._work = work
        self._threads = ThreadPoolExecutor(work.threads)
        self._captioner: Captioner | None = None
        self._replaces_another = False
        self._wrong = ""
        try:
            prepare(work)
            ray = require("ray", extra="ray", purpose="--engine ray")
            context = ray.get_runtime_context()
            self._replaces_another = context.was_current_actor_reconstructed
            files = ray.get(bundle)
            self._captioner = unpacked(files, lambda folder: work.options.captioner(folder)())
        except SightwordsError as error:
            self._wrong = str(error)

    def __call__(self, batch: Any) -> Any:
        """A slice -> its file, and how many photographs it has."""
        row: Row = {name: batch[name][0].as_py() for name in batch.column_names}
        try:
            if row["trouble"] or self._wrong:
                raise SightwordsError(row["trouble"] or self._wrong)
            if self._replaces_another:
                self._try_again(row)
        except SightwordsError as error:
            return table(trouble(error))
        records = self._described(pickle.loads(row.pop("items")))
        if not _is_ours(self._work):  # its driver was killed, and another batch begun there
            return table(trouble(f"{self._work.parts.folder}: belongs to another batch by now"))
        save_slice(self._work.parts, row["unit"], row["slice"], records)
        failed = sum("error" in record for record in records)
        return table({**row, "failed": failed, "items": b""})

    def _try_again(self, row: Row) -> None:
        """Count how often a slice has outlived its actor: a photograph may have ended them all.

        Ray itself tries for ever. Only actors that replace a lost one pay for counting.
        """
        name, parts = tries_name(row["unit"], row["slice"]), self._work.parts
        tries = int(parts.read(name)) if parts.exists(name) else 0
        if tries == TRIES:
            ids = [item.id for item in pickle.loads(row["items"])]
            raise SightwordsError(
                f"slice {row['slice']} of unit {row['unit']}: {tries} processes died while they "
                f"captioned it, of memory or of a photograph ({named(ids)}); look at these, and go "
                f"on with --resume after removing {parts.folder}/{name}"
            )
        parts.write(name, str(tries + 1).encode())

    def _described(self, items: list[Item]) -> list[dict[str, Any]]:
        captioner, n_best = self._captioner, self._work.options.n_best
        assert captioner is not None
        return list(self._threads.map(lambda item: describe(captioner, item, n_best), items))


def packed(directory: Path, names: list[str]) -> dict[str, bytes]:
    """The files of a bundle, to travel to machines that have no such folder."""
    return {name: (directory / name).read_bytes() for name in names}


def unpacked(files: Mapping[str, bytes], load: Callable[[Path], Captioner]) -> Captioner:
    """Load a bundle that has travelled; its sums are checked, and its files removed again."""
    try:
        with tempfile.TemporaryDirectory(prefix="sightwords-") as folder:
            for name, data in files.items():
                target = Path(folder, *PurePosixPath(name).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            return load(Path(folder))
    except OSError as error:
        raise BundleError(
            f"machine {platform.node()}: cannot unpack the bundle ({error}); it needs "
            f"{sum(map(len, files.values())) / 1e6:.0f} MB in {tempfile.gettempdir()}"
        ) from error


def finish_unit(batch: Any, work: Work) -> Any:
    """A whole unit -> one file of the output folder; its errors, problems and keys' prints."""
    unit, slices_, count = pickle.loads(batch["unit"][0].as_py())
    row: Row = {"unit": unit, "errors": b"", "problems": [""], "prints": b"", "trouble": ""}
    try:
        prepare(work)
        done = Done({unit: slices_}, {unit: count})
        keys, records = load_unit(work.parts, unit, done)
        kind = work.options.format
        sound = [record for record in records if "error" not in record]
        name = f"part-{unit:06d}.{kind}"
        work.out.fill(name, lambda path: write_results(path, kind, sound))
        row["errors"] = b"".join(line_of(record) for record in records if "error" in record)
        row["problems"] += keys.problems
        row["prints"] = prints_of(keys.ids).tobytes()
    except SightwordsError as error:
        row["trouble"] = str(error)
    return table(row)
