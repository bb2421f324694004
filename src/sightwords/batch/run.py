"""Many photographs -> captions on disk; killed at any moment and run again, nothing is lost.

source -> items -> captioned in parallel -> journal -> results file, or sidecars as it goes
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sightwords.batch.content import content_sum
from sightwords.batch.journal import Journal
from sightwords.batch.options import BatchOptions, Progress
from sightwords.batch.outputs import (
    exists,
    is_described,
    is_ours,
    read_results,
    result_id,
    sidecar_name,
    write_beside,
    write_errors,
    write_instead,
    write_results,
)
from sightwords.batch.parquet import require_pyarrow
from sightwords.batch.records import Record
from sightwords.batch.sources import Item, Source
from sightwords.batch.sums import Sums, read_sums, write_sums
from sightwords.batch.workers import MakeCaptioner, captioned
from sightwords.batch.xmp import ChangedError, EmbedError, require_exiv2
from sightwords.bundle import open_bundle
from sightwords.corpus.sources import is_url
from sightwords.errors import BundleError, InputError
from sightwords.files import FULL, remove_partials
from sightwords.pipeline import Captioner
from sightwords.runtime import available_cores
from sightwords.types import ImageRef


def run_batch(
    source: Source,
    options: BatchOptions,
    *,
    make: MakeCaptioner | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Caption every photograph of a source; `make` loads another system than the bundle's.

    Afterwards the results, and the errors if there are any, are whole and in the source's order.
    """
    progress = Progress(source.count)
    if options.format in ("xmp", "embedded"):
        require_exiv2()  # now, not after an hour of captions
    if options.format == "parquet":
        require_pyarrow()
    if _finished(source, options):
        return progress
    with open_bundle(options.bundle) as bundle:
        fingerprint = bundle.manifest.fingerprint
        # A zip is unpacked once, for all processes.
        if make is None:
            options.warn(bundle.directory)
            make = partial(_same_system, options.captioner(bundle.directory), fingerprint)
        journal = _journal(options, options.settings(fingerprint))
        try:
            known = (read_sums(options.sums) or {}) if options.sidecars else {}
            job = _Job(source, options, journal, progress, on_progress or (lambda _: None), known)
            job.check_targets()
            job.fill(make)
        except BaseException:
            journal.leave()
            raise
    _finish(job)
    return progress


def _finished(source: Source, options: BatchOptions) -> bool:
    """Refuse to write over anything unasked; whether a resumed run has nothing left to do."""
    begun = options.journal.exists()
    if begun and not options.resume and options.overwrite != "always":
        raise InputError(
            f"{options.journal}: an unfinished batch is there; go on with it by --resume, or start "
            "again with --overwrite always"
        )
    if options.sidecars or begun or not options.out.exists():
        return False
    if options.resume and options.overwrite == "never":
        _refuse_other_photos(source, options)
        return True
    if options.overwrite == "never":
        raise InputError(
            f"{options.out}: is there already; add what it lacks with --overwrite missing, replace "
            "it with --overwrite always, or give another --out"
        )
    return False


def _journal(options: BatchOptions, settings: Mapping[str, Any]) -> Journal:
    if options.resume and options.journal.exists():
        return Journal.resume(options.journal, settings)
    known: Iterator[Record] = iter(())
    if options.overwrite == "missing" and not options.sidecars and options.out.exists():
        known = _known(options)
    return Journal.start(options.journal, settings, known)


def _known(options: BatchOptions) -> Iterator[Record]:
    """The captions that are there already, with the sums of the photos that they describe.

    A caption that no batch has written (its id has no sum) is the user's own and is kept.
    """
    sums = read_sums(options.sums)
    # Names that are not Unicode are escaped in most formats; the sums have them as they are.
    names = {name.encode("utf-8", "backslashreplace").decode(): name for name in sums or ()}
    for record in read_results(options.out, options.format):
        if sums is None:
            raise _unknown_photos(options)
        image_id: str = names.get(record["id"]) or record["id"]
        yield {**record, "id": image_id, "sha256": sums.get(image_id)}


def _refuse_other_photos(source: Source, options: BatchOptions) -> None:
    """Refuse to call a file whole that lacks photos of the source, or has others of their name."""
    sums = read_sums(options.sums)
    if sums is None:
        raise _unknown_photos(options)
    for item in source.read():
        found = sums.get(_written_id(item, options), "")
        if found is not None and found != content_sum(item.image):
            raise InputError(
                f"{options.out}: is whole, but {item.image} is not in it or has changed since; "
                "add what it lacks with --overwrite missing, or give another --out"
            )


def _unknown_photos(options: BatchOptions) -> InputError:
    return InputError(
        f"{options.sums}: is missing, so it is not known which photos the captions in "
        f"{options.out} describe; caption them again with --overwrite always, or give another --out"
    )


def _same_system(make: MakeCaptioner, fingerprint: str) -> Captioner:
    """Load the system; refused where the bundle's files were replaced since the batch began."""
    captioner = make()
    if captioner.fingerprint != fingerprint:
        raise BundleError(
            f"the bundle changed while the batch ran: {fingerprint[:12]} became "
            f"{captioner.fingerprint[:12]}; start again with --overwrite always"
        )
    return captioner


def _written_id(item: Item, options: BatchOptions) -> str:
    return str(result_id(item.id)) if options.format == "coco" else item.id


@dataclass(frozen=True, slots=True)
class _Job:
    """One run: what it captions, where it keeps it, whom it tells."""

    source: Source
    options: BatchOptions
    journal: Journal
    progress: Progress
    tell: Callable[[Progress], None]
    sums: Sums = field(default_factory=dict)
    """Of the photos whose own files an earlier batch has written."""
    order: list[str] = field(default_factory=list)
    """The ids of all items, as they come."""
    photographs: dict[str, str] = field(default_factory=dict)
    """Where each one's image is."""
    targets: dict[str, Path] = field(default_factory=dict)
    """Where each one's own file goes, if the format has such."""
    instead: dict[str, Path] = field(default_factory=dict)
    """Where its sidecar goes if nothing can be embedded in it."""
    ours: set[str] = field(default_factory=set)
    """Photos that have changed since a batch wrote their own files: these may be replaced."""

    def check_targets(self) -> None:
        """Look at all targets before the first photo is changed in its place."""
        if self.options.in_place:
            fresh = replace(self, photographs={}, targets={}, instead={})
            deque(fresh._named(), maxlen=0)

    def fill(self, make: MakeCaptioner) -> None:
        """Caption what the journal lacks."""
        workers = self.options.workers or available_cores()
        records = captioned(
            self.missing(),
            make,
            workers=workers,
            n_best=self.options.n_best,
            max_seconds=self.options.max_seconds,
        )
        for record in records:
            if self.options.sidecars and "error" not in record:
                record = self._written(record)
            self.journal.add(record)
            self.progress.done += 1
            self.tell(self.progress)

    def missing(self) -> Iterator[Item]:
        """The items that are not done; the others are counted."""
        for item in self._named():
            done = self._is_done(item)
            described = not done and self._has_sidecar(item)
            if not described:
                self.order.append(item.id)
            if not done and not described:
                yield item
                continue
            self.progress.kept += 1
            self.progress.done += 1
            self.tell(self.progress)

    def _named(self) -> Iterator[Item]:
        """Items under the ids of the output, none twice; where their files go is noted."""
        taken: set[str] = set()
        taken_xmp: set[str] = set()
        for item in self.source.read():
            written = _written_id(item, self.options)
            if written in self.photographs:
                raise InputError(
                    f"{item.image}: would be image {written} in the results, and so is "
                    f"{self.photographs[written]}; write --format jsonl, which keeps folders apart"
                )
            self.photographs[written] = str(item.image)
            if self.options.sidecars:
                name = sidecar_name(item.id, self.options.format, taken)
                self.targets[written] = self._target(item, name)
                sidecar = sidecar_name(item.id, "xmp", taken_xmp)
                self.instead[written] = self.options.out / sidecar
            yield Item(written, item.image)

    def _target(self, item: Item, name: str) -> Path:
        """A photograph itself is written to only where that was asked for."""
        target, photograph = self.options.out / name, Path(item.image.location)
        if self.options.format != "embedded":
            return target
        fetched = is_url(item.image.location) and item.image.fetch
        if item.image.member is not None or fetched:
            raise InputError(
                f"{item.image}: is no file on this disk, so nothing can be embedded in it; give a "
                "folder or a list of photographs, or another --format"
            )
        if not _is_file(photograph):
            return target  # a photograph that is not there is named when it is opened
        same = _is_file(target) and target.samefile(photograph)
        if same and not self.options.in_place:
            raise InputError(
                f"{photograph}: would be changed itself; allow it with --in-place, or give another "
                "folder as --out"
            )
        if self.options.in_place and not same:
            raise InputError(
                f"{photograph}: does not lie at {target}; --in-place needs the folder of the "
                "photographs as --out"
            )
        return target

    def _is_done(self, item: Item) -> bool:
        """Whether the journal has a record of these very bytes, or one that the user wrote."""
        if item.id not in self.journal:
            return False
        known = self.journal.sum_of(item.id)
        if known is None:
            return item.id in self.journal.kept
        return known == content_sum(item.image)

    def _has_sidecar(self, item: Item) -> bool:
        """Whether it needs no caption because it has one beside it or inside.

        One that a batch wrote for other bytes under this name is noted as ours to replace.
        """
        if not self.options.sidecars:
            return False
        target = self.targets[item.id]
        claimed = self.journal.claims.get(self._name(target), set())
        if not self.options.in_place and claimed and is_ours(self.options.format, target, claimed):
            self.ours.add(item.id)
        if not self._keeps or item.id in self.ours:
            return False
        photograph = Path(item.image.location)
        instead = self.instead[item.id]
        if not is_described(self.options.format, target, photograph=photograph, sidecar=instead):
            return False
        known = self.sums.get(self._name(target))
        if known is not None and exists(target) and known != content_sum(item.image):
            self.ours.add(item.id)
        return item.id not in self.ours

    @property
    def _keeps(self) -> bool:
        return self.options.overwrite == "missing"

    def _name(self, target: Path) -> str:
        return target.relative_to(self.options.out).as_posix()

    def _written(self, record: Record) -> Record:
        """Write a photo's own file, after a note in the journal that it is ours."""
        image_id, job = record["id"], self
        self.journal.claim(self._name(self.targets[image_id]), record["caption"])
        if image_id in self.ours:
            job = replace(self, options=replace(self.options, overwrite="always"))
        written = {**job._beside(record), "sha256": record["sha256"]}
        if self.options.in_place and "error" not in written:  # the photo itself was changed
            written["sha256"] = content_sum(ImageRef(self.photographs[image_id]))
        return written

    def _beside(self, record: Record) -> Record:
        """Write its own file; the record of the photograph, or of what stood in the way."""
        image_id = record["id"]
        try:
            wrong = write_beside(
                self.options.format,
                self.targets[image_id],
                record,
                photograph=Path(self.photographs[image_id]),
                keep=self.options.overwrite == "never",
                anew=self.options.overwrite == "always",
            )
        except ChangedError as error:  # the caption may be wrong by now
            wrong = str(error)
        except EmbedError as error:  # the caption is noted first: a sidecar follows at the end
            return {**record, "error": str(error)}
        except OSError as error:  # its name is too long, a folder has it already, ...
            if error.errno in FULL:
                raise
            wrong = f"{self.targets[image_id]}: cannot be written ({error.strerror or error})"
        return {"id": image_id, "error": wrong} if wrong else record

    def with_sidecar(self, record: Record) -> Record:
        """The error of a photo; one that could not take its caption gets a sidecar."""
        if "caption" not in record or record["id"] not in self.instead:
            return {"id": record["id"], "error": record["error"]}
        keep = self.options.overwrite != "always"
        return write_instead(self.instead[record["id"]], record, keep=keep)


def _is_file(path: Path) -> bool:
    """As `Path.is_file`, which raises where a name is too long or a folder on the way is shut."""
    return os.path.isfile(path)  # noqa: PTH113


def _finish(job: _Job) -> None:
    """Write the files from the journal, each whole or not at all, then remove it."""
    options, journal = job.options, job.journal
    # What was in the results before and is not in the source any more is kept, behind the others.
    present = set(job.order)
    gone = (image_id for image_id in journal if image_id not in present)
    order = [*job.order, *(image_id for image_id in gone if image_id in journal.kept)]
    failed = [job.with_sidecar(record) for record in journal.records(order) if "error" in record]
    job.progress.failed = len(failed)
    write_errors(options.errors, failed)
    if not options.sidecars:
        sound = (record for record in journal.records(order) if "error" not in record)
        write_results(options.out, options.format, sound)
    if not options.in_place:  # photos that hold their captions need nothing beside them
        write_sums(options.sums, _sums(job, order))
    written = (options.out, options.errors, options.sums, options.journal)
    claimed = [options.out / name for name in journal.claims]  # of photos that are gone, too
    remove_partials([*written, *claimed, *job.targets.values(), *job.instead.values()])
    journal.remove()


def _sums(job: _Job, order: list[str]) -> Iterator[tuple[str, str | None]]:
    """The sums of all that was captioned; of photos' own files, those of earlier batches too.

    Photos' own files go by their own names: two photos may take turns in having one.
    """
    written = set()
    for record in job.journal.records(order):
        if not job.options.sidecars:
            yield record["id"], record.get("sha256")
        elif "error" not in record:
            name = job._name(job.targets[record["id"]])
            written.add(name)
            yield name, record.get("sha256")
    yield from ((name, known) for name, known in job.sums.items() if name not in written)
