"""A batch on a Ray cluster: the same captions as on one machine.

    units -> read_unit (one task per shard) -> slices -> Captioning (actors) -> one file per slice
          -> keys checked -> one file in the source's order, or one file per unit

Photos go from the store to the machine that reads them and to the actor that captions them, never
through the driver. The driver only learns which slices are done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.batch.journal import check_header, header_line, line_of, record_of
from sightwords.batch.options import ClusterOptions, Progress
from sightwords.batch.outputs import without_sum, write_results
from sightwords.batch.ray.keys import Prints, doubles, prints_of
from sightwords.batch.ray.machines import Captioning, Work, finish_unit, packed, read_unit
from sightwords.batch.ray.parts import HEADER, DamagedPartsError, Done, Keys, load_unit, named
from sightwords.batch.ray.session import connected, require_ray, rows_of, shape, source_of
from sightwords.batch.ray.store import Store, split_place
from sightwords.batch.ray.units import Unit, source_print, stamped, units_of
from sightwords.batch.records import Record
from sightwords.bundle import Bundle, open_bundle
from sightwords.errors import CorpusError, InputError, SightwordsError
from sightwords.parallel import ONE_THREAD

log = logging.getLogger(__name__)

Told = Callable[[Progress], None]


def run_on_ray(
    source: str,
    options: ClusterOptions,
    *,
    images: str | None = None,
    allow_urls: bool = False,
    on_problem: Callable[[object], None] | None = None,
    on_progress: Told | None = None,
) -> Progress:
    """Caption every photo of a source on a cluster.

    If it is killed, a run with `resume` captions the missing slices. `on_problem` is called with
    each record or shard that could not be read.
    """
    ray = require_ray()
    finished = _is_finished(options)
    units = units_of(
        source,
        images=images,
        slice_images=options.slice_images,
        allow_urls=allow_urls,
        on_problem=on_problem,
    )
    units = stamped(units)
    if finished:
        _refuse_other_photos(options, units)
        return Progress(None)
    with open_bundle(options.bundle) as bundle, connected(ray, options.address):
        bundle.verify()
        options.warn(bundle.directory)
        job = _begun(ray, options, units, bundle)
        counted = None if units[0].shard else sum(len(unit.items) for unit in units)
        kept = job.done().images
        progress = Progress(counted, done=kept, kept=kept)
        tell = on_progress or (lambda _: None)
        files = packed(bundle.directory, ["bundle.json", *bundle.manifest.files])
        problems = _run(job, files, progress, tell)
    for problem in problems if on_problem is not None else ():
        on_problem(problem)  # type: ignore[misc]
    _write_stamp(options, units)
    job.work.parts.remove()
    return progress


def _run(job: _Job, files: dict[str, bytes], progress: Progress, tell: Told) -> list[str]:
    """Caption and write; again if parts of an earlier run turn out to be damaged."""
    for last in (False, False, True):
        _caption(job, files, progress, tell)
        try:
            return _finish(job, progress)
        except DamagedPartsError as error:
            if last:
                raise
            log.warning("%s: these photos are captioned again", error)
            progress.done = job.done().images
    raise AssertionError


@dataclass(frozen=True, slots=True)
class _Job:
    """One run on a cluster."""

    ray: Any
    units: list[Unit]
    work: Work
    actors: int

    @property
    def options(self) -> ClusterOptions:
        return self.work.options

    def done(self) -> Done:
        stamps = {unit.number: unit.stamp for unit in self.units}
        return Done.of(self.work.parts.names(), stamps)


def _is_finished(options: ClusterOptions) -> bool:
    """Whether a resumed run has nothing left to do; refuses to overwrite anything unasked."""
    if Store.at(options.parts).exists(HEADER):
        options.refuse_unfinished(options.parts)
        return False
    store, name = split_place(options.marker)
    if not store.exists(name) or options.overwrite == "always":
        return False
    if not options.resume:
        raise InputError(
            f"{options.out}: already exists; replace it with --overwrite always, or give another "
            "--out"
        )
    return True


def _stamp_place(options: ClusterOptions) -> tuple[Store, str]:
    """A small hidden file beside the output that tells which photos it describes."""
    store, name = split_place(options.marker)
    return store, f".{name}.sums"


def _stamps(units: list[Unit]) -> bytes:
    return line_of({"source": source_print(units), "stamps": [unit.stamp for unit in units]})


def _write_stamp(options: ClusterOptions, units: list[Unit]) -> None:
    """Note which photos the output describes, and remove what killed runs left beside it."""
    store, name = _stamp_place(options)
    store.write(name, _stamps(units))
    written = [split_place(place)[1] for place in (options.marker, options.errors)]
    parts = [f"part-{unit.number:06d}.{options.format}" for unit in units]
    store.tidy([name, *written, *parts])


def _refuse_other_photos(options: ClusterOptions, units: list[Unit]) -> None:
    """Refuse to call an output whole that was made from another source, or from other photos."""
    store, name = _stamp_place(options)
    if not store.exists(name) or store.read(name) != _stamps(units):
        raise InputError(
            f"{options.out}: is complete, but it was made from another source, or its photos have "
            "changed since; caption them again with --overwrite always, or give another --out"
        )


def _begun(ray: Any, options: ClusterOptions, units: list[Unit], bundle: Bundle) -> _Job:
    """Begin a batch, or continue one that was begun with the same settings."""
    parts = Store.at(options.parts)
    settings = {
        **options.settings(bundle.manifest.fingerprint),
        "slice_images": options.slice_images,
        "source": source_print(units),
    }
    if options.resume and parts.exists(HEADER):
        check_header(parts.read(HEADER), parts.folder, settings)
    else:
        parts.remove()
        parts.write(HEADER, header_line(settings))
    threads, actors = shape(ray, options.workers)
    work = Work(
        options=options,
        parts=parts,
        out=Store.at(options.out),
        header=parts.read(HEADER),
        folder=str(Path.cwd()),
        threads=threads,
    )
    return _Job(ray, units, work, actors)


def _caption(job: _Job, files: dict[str, bytes], progress: Progress, tell: Told) -> None:
    """Caption the slices that are not done."""
    done = job.done()
    waiting = [unit for unit in job.units if not done.whole(unit.number)]
    if not waiting:
        return
    rows = [(unit, frozenset(done.slices.get(unit.number, ()))) for unit in waiting]
    ray, bundle = job.ray, job.ray.put(files)
    read = source_of(ray, rows).map_batches(
        read_unit,
        batch_size=1,
        batch_format="pyarrow",
        fn_kwargs={"work": job.work},
        num_cpus=0,  # it waits for the store; all cores are the actors'
        compute=ray.data.TaskPoolStrategy(size=min(job.actors + 1, len(rows))),
    )
    captioned = read.map_batches(
        Captioning,
        batch_size=1,
        batch_format="pyarrow",
        fn_constructor_kwargs={"work": job.work, "bundle": bundle},
        compute=ray.data.ActorPoolStrategy(size=job.actors),
        # Half of what it uses: actors of a lost machine then find room on the others, where the
        # slices that were sent to them wait.
        num_cpus=job.work.threads / 2,
        runtime_env={"env_vars": ONE_THREAD},
    )
    for row in rows_of(captioned):
        progress.done += row["images"]
        progress.failed += row["failed"]
        tell(progress)


def _finish(job: _Job, progress: Progress) -> list[str]:
    """Check that every key is there once and write the output; what was wrong with the units."""
    done = job.done()
    lacking = [str(unit) for unit in job.units if not done.whole(unit.number)]
    if lacking:
        raise SightwordsError(
            f"{job.work.parts.folder}: slices of {len(lacking)} units are missing "
            f"({named(lacking)}); continue with --resume"
        )
    if not done.images:
        problems = [p for unit in job.units for p in _keys(job, done, unit.number).problems]
        raise CorpusError(f"{job.units[0]}: no unit holds an image; {named(problems[:1])}")
    ends = _one_file if job.options.one_file else _files
    return ends(job, done, progress)


def _one_file(job: _Job, done: Done, progress: Progress) -> list[str]:
    """All units into one file, in the order of the source."""
    problems: list[str] = []
    errors: list[Record] = []
    prints: dict[int, Prints] = {}

    def sound() -> Iterator[Record]:
        for unit in job.units:
            keys, records = load_unit(job.work.parts, unit.number, done)
            problems.extend(keys.problems)
            prints[unit.number] = prints_of(keys.ids)
            errors.extend(record for record in records if "error" in record)
            yield from (record for record in records if "error" not in record)
        _refuse_doubles(job, done, prints)  # before the file gets its name
        _write_errors(job.options, errors)

    store, name = split_place(job.options.out)
    store.fill(name, lambda path: write_results(path, job.options.format, sound()))
    progress.failed = len(errors)
    return problems


def _files(job: _Job, done: Done, progress: Progress) -> list[str]:
    """One file per unit, each written by a machine of the cluster; the marker when all exist."""
    rows = [
        (unit.number, done.slices.get(unit.number, {}), done.read[unit.number], unit.stamp)
        for unit in job.units
    ]
    store, marker = split_place(job.options.marker)
    store.drop(marker)  # of a batch that this one replaces
    finished = source_of(job.ray, rows).map_batches(
        finish_unit, batch_size=1, batch_format="pyarrow", fn_kwargs={"work": job.work}
    )
    found = sorted(rows_of(finished), key=lambda row: row["unit"])
    damaged = [row["damaged"] for row in found if row["damaged"]]
    if damaged:
        raise DamagedPartsError(named(damaged))
    prints = {row["unit"]: np.frombuffer(row["prints"], np.uint64) for row in found}
    _refuse_doubles(job, done, prints)
    lines = [line for row in found for line in row["errors"].splitlines()]
    errors = [record for record in map(record_of, lines) if record is not None]
    _write_errors(job.options, errors)
    progress.failed = len(errors)
    out = job.work.out
    written = {f"part-{unit.number:06d}.{job.options.format}" for unit in job.units}
    for name in out.names():  # of that batch again
        if name.startswith("part-") and name not in written:
            out.drop(name)
    summary = {"rows": sum(map(len, prints.values())) - len(errors), "failed": len(errors)}
    store.write(marker, json.dumps(summary).encode() + b"\n")
    return [problem for row in found for problem in row["problems"] if problem]


def _refuse_doubles(job: _Job, done: Done, prints: dict[int, Prints]) -> None:
    double = doubles(prints, lambda unit: _keys(job, done, unit).ids)
    if double:
        found = [f"{key} (in {', '.join(str(job.units[unit]) for unit in units)})"
                for key, units in double.items()]  # fmt: skip
        raise InputError(
            f"{len(double)} keys stand for several images: {named(found)}; give each image its own "
            "key, or caption these shards one by one"
        )


def _keys(job: _Job, done: Done, unit: int) -> Keys:
    return Keys.load(job.work.parts, unit, done.read[unit], done.stamps.get(unit, ""))


def _write_errors(options: ClusterOptions, errors: list[Record]) -> None:
    store, name = split_place(options.errors)
    if errors:
        lines = [json.dumps(without_sum(record), ensure_ascii=True) + "\n" for record in errors]
        store.write(name, "".join(lines).encode("ascii"))
    else:
        store.drop(name)
