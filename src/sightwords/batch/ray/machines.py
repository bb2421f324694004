"""What runs on the machines of a cluster: a unit read, a slice captioned, a unit finished.

Ray calls these with Arrow tables of one row. An error that the user can fix comes back as the row's
`fatal`, so that it ends the batch with one line instead of a traceback of Ray's.
"""

from __future__ import annotations

import os
import pickle
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sightwords._version import __version__
from sightwords.batch.journal import line_of, record_of
from sightwords.batch.options import ClusterOptions
from sightwords.batch.outputs import write_results
from sightwords.batch.ray.keys import prints_of
from sightwords.batch.ray.parts import (
    HEADER,
    DamagedPartsError,
    Done,
    Keys,
    load_unit,
    save_slice,
    tries_name,
)
from sightwords.batch.ray.store import Store
from sightwords.batch.ray.units import Unit, slices
from sightwords.batch.records import Record
from sightwords.batch.sources import Item
from sightwords.batch.workers import GRACE_SECONDS, describe
from sightwords.corpus.problems import Problems
from sightwords.errors import BundleError, SightwordsError, require
from sightwords.pipeline import Captioner

TRIES = 2
"""Actors that may be lost while they caption one photo by itself; then it is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What every machine must know."""

    options: ClusterOptions
    parts: Store
    out: Store
    """The folder of the output, where it is not one file."""
    header: bytes
    """Of the parts' folder: a machine that reads something else there sees another disk."""
    folder: str
    """Where the command was run; names of photos are relative to it."""
    threads: int
    """Photos that an actor captions at a time."""
    version: str = __version__


Row = dict[str, Any]


def table(row: Row) -> Any:
    """One row as Ray wants it."""
    arrow = require("pyarrow", extra="ray", purpose="--engine ray")
    return arrow.table({name: [value] for name, value in row.items()})


def fatal(error: object) -> Row:
    """A row that ends the batch."""
    row: Row = {"unit": -1, "stamp": "", "slice": -1, "images": 0, "failed": 0, "items": b""}
    return {**row, "fatal": str(error)}


def prepare(work: Work) -> None:
    """Change to the folder of the command; refuse a machine that cannot take part."""
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
    """A unit -> its slices that are not done, with the photos' bytes; at the end its keys."""
    unit, done = pickle.loads(batch["unit"][0].as_py())
    try:
        prepare(work)
        for row in _slice_rows(unit, done, work):
            yield table(row)
    except SightwordsError as error:
        yield table(fatal(error))


def _slice_rows(unit: Unit, done: frozenset[int], work: Work) -> Iterator[Row]:
    if unit.shard is not None and unit.seen and not Path(unit.shard).is_file():
        raise SightwordsError(
            f"machine {platform.node()}: does not see {unit.shard}; give a SOURCE that all "
            "machines share: a network folder's absolute path, or a URL"
        )
    messages: list[str] = []
    problems = Problems(on_problem=lambda problem: messages.append(str(problem)))
    ids: list[str] = []
    number = -1
    for number, items in enumerate(slices(unit, problems, images=work.options.slice_images)):
        ids += [item.id for item in items]
        if number not in done:
            row = {"unit": unit.number, "stamp": unit.stamp, "slice": number}
            more = {"images": len(items), "failed": 0, "items": pickle.dumps(items)}
            yield {**row, **more, "fatal": ""}
    Keys(ids, messages).save(work.parts, unit.number, number + 1, unit.stamp)


class Captioning:
    """An actor: holds the whole system once, captions a slice and keeps it."""

    def __init__(self, work: Work, bundle: Any) -> None:
        """Take the bundle out of Ray's store; the first slice reports what goes wrong."""
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
        """A slice -> its file, and how many photos it has."""
        row: Row = {name: batch[name][0].as_py() for name in batch.column_names}
        if row["fatal"] or self._wrong:
            return table(fatal(row["fatal"] or self._wrong))
        items = pickle.loads(row.pop("items"))
        records = self._together(row, items) or self._one_by_one(row, items)
        if not _is_ours(self._work):  # its driver was killed, and another batch begun there
            return table(fatal(f"{self._work.parts.folder}: now belongs to another batch"))
        save_slice(self._work.parts, row["unit"], row["slice"], records, row["stamp"])
        failed = sum("error" in record for record in records)
        return table({**row, "failed": failed, "items": b""})

    def _together(self, row: Row, items: list[Item]) -> list[Record]:
        """Records on all threads; none where an actor was lost with this slice before.

        Only actors that replace a lost one look for that.
        """
        if self._replaces_another:
            lost = self._lost(row)
            self._note_lost(row, {**lost, "slice": lost["slice"] + 1})
            if lost["slice"]:
                return []
        try:
            return list(
                self._threads.map(
                    self._describe, items, timeout=self._patience * max(1, len(items))
                )
            )
        except FutureTimeoutError:
            self._note_lost(row, {**self._lost(row), "slice": 1})
            os._exit(1)  # a thread hangs: Ray starts another actor, and gives it this slice

    def _one_by_one(self, row: Row, items: list[Item]) -> list[Record]:
        """Records of a slice with which actors were lost; the photo that did it is an error."""
        lost = self._lost(row)
        if lost["at"] >= 0:
            lost["photos"] = [*lost["photos"], lost["at"]]
        records = []
        for number, item in enumerate(items):
            if lost["photos"].count(number) >= TRIES:
                reason = "the process that captions it died or hangs; check the photo, or remove it"
                record = {"id": item.id, "sha256": None, "error": f"{item.image}: {reason}"}
                records.append(record)
                continue
            self._note_lost(row, {**lost, "at": number})
            try:
                records.append(self._threads.submit(self._describe, item).result(self._patience))
            except FutureTimeoutError:
                self._note_lost(row, {**lost, "photos": [*lost["photos"], *[number] * TRIES]})
                os._exit(1)
        return records

    @property
    def _patience(self) -> float:
        return 2 * self._work.options.max_seconds + GRACE_SECONDS

    def _lost(self, row: Row) -> dict[str, Any]:
        """How often actors were lost with a slice, at which photo now, and at which before."""
        name = tries_name(row["unit"], row["slice"], row["stamp"])
        found = self._work.parts.read(name) if self._work.parts.exists(name) else b""
        return record_of(found) or {"slice": 0, "at": -1, "photos": []}

    def _note_lost(self, row: Row, lost: Mapping[str, Any]) -> None:
        name = tries_name(row["unit"], row["slice"], row["stamp"])
        self._work.parts.write(name, line_of(lost))

    def _describe(self, item: Item) -> Record:
        assert self._captioner is not None
        return describe(self._captioner, item, self._work.options.n_best)


def packed(directory: Path, names: list[str]) -> dict[str, bytes]:
    """The files of a bundle, to be sent to machines that have no such folder."""
    return {name: (directory / name).read_bytes() for name in names}


def unpacked(files: Mapping[str, bytes], load: Callable[[Path], Captioner]) -> Captioner:
    """Load a bundle that came through Ray; its sums are checked, and its files removed again."""
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
    unit, slices_, count, stamp = pickle.loads(batch["unit"][0].as_py())
    row: Row = {"unit": unit, "errors": b"", "problems": [""], "prints": b"", "fatal": ""}
    row["damaged"] = ""
    try:
        prepare(work)
        done = Done({unit: slices_}, {unit: count}, {unit: stamp})
        keys, records = load_unit(work.parts, unit, done)
        kind = work.options.format
        sound = [record for record in records if "error" not in record]
        name = f"part-{unit:06d}.{kind}"
        work.out.fill(name, lambda path: write_results(path, kind, sound))
        row["errors"] = b"".join(line_of(record) for record in records if "error" in record)
        row["problems"] += keys.problems
        row["prints"] = prints_of(keys.ids).tobytes()
    except DamagedPartsError as error:
        row["damaged"] = str(error)
    except SightwordsError as error:
        row["fatal"] = str(error)
    return table(row)
