"""Many photographs -> captions on disk; killed at any moment and run again, nothing is lost.

source -> items -> captioned in parallel -> journal -> results file, or sidecars as it goes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightwords.batch.journal import Journal
from sightwords.batch.options import BatchOptions, Progress
from sightwords.batch.outputs import (
    is_described,
    read_results,
    result_id,
    sidecar_name,
    used_words,
    write_beside,
    write_errors,
    write_instead,
    write_results,
)
from sightwords.batch.parquet import require_pyarrow
from sightwords.batch.records import Record
from sightwords.batch.sources import Item, Source
from sightwords.batch.workers import MakeCaptioner, captioned
from sightwords.batch.xmp import ChangedError, EmbedError, require_exiv2
from sightwords.bundle import open_bundle
from sightwords.errors import InputError
from sightwords.runtime import available_cores


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
    if _finished(options):
        return progress
    with open_bundle(options.bundle) as bundle:
        fingerprint = bundle.manifest.fingerprint
        # A zip is unpacked once, for all processes.
        if make is None:
            options.warn(bundle.directory)
            make = options.captioner(bundle.directory)
        journal = _journal(options, options.settings(fingerprint))
        job = _Job(source, options, journal, progress, on_progress or (lambda _: None))
        try:
            job.fill(make)
        except BaseException:
            journal.leave()
            raise
    _finish(job)
    return progress


def _finished(options: BatchOptions) -> bool:
    """Refuse to write over anything unasked; whether a resumed run has nothing left to do."""
    begun = options.journal.exists()
    if begun and not options.resume and options.overwrite != "always":
        raise InputError(
            f"{options.journal}: an unfinished batch is there; go on with it by --resume, or start "
            "anew with --overwrite always"
        )
    if options.sidecars or begun or not options.out.exists():
        return False
    if options.resume and options.overwrite == "never":
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
        known = read_results(options.out, options.format)
    return Journal.start(options.journal, settings, known)


@dataclass(frozen=True, slots=True)
class _Job:
    """One run: what it captions, where it keeps it, whom it tells."""

    source: Source
    options: BatchOptions
    journal: Journal
    progress: Progress
    tell: Callable[[Progress], None]
    order: list[str] = field(default_factory=list)
    """The ids of all items, as they come."""
    photographs: dict[str, str] = field(default_factory=dict)
    """Where each one's image is."""
    targets: dict[str, Path] = field(default_factory=dict)
    """Where each one's own file goes, if the format has such."""
    instead: dict[str, Path] = field(default_factory=dict)
    """Where its sidecar goes if nothing can be embedded in it."""

    def fill(self, make: MakeCaptioner) -> None:
        """Caption what the journal lacks."""
        workers = self.options.workers or available_cores()
        n_best = self.options.n_best
        for record in captioned(self.missing(), make, workers=workers, n_best=n_best):
            if self.options.sidecars and "error" not in record:
                record = self._beside(record)
            self.journal.add(record)
            self.progress.done += 1
            self.tell(self.progress)

    def missing(self) -> Iterator[Item]:
        """The items that are not done; the others are counted."""
        for item in self._named():
            done = item.id in self.journal
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
            written = str(result_id(item.id)) if self.options.format == "coco" else item.id
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
        if item.image.member is not None or not photograph.is_file():
            if photograph.parent.is_dir() and item.image.member is None:
                return target  # a photograph that is not there is named when it is opened
            raise InputError(
                f"{item.image}: is no file on this disk, so nothing can be embedded in it; give a "
                "folder or a list of photographs, or another --format"
            )
        same = target.exists() and target.samefile(photograph)
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

    def _has_sidecar(self, item: Item) -> bool:
        """Whether it needs no caption because it has one beside it or inside."""
        if not self.options.sidecars or self.options.overwrite != "missing":
            return False
        photograph = Path(item.image.location)
        return is_described(
            self.options.format,
            self.targets[item.id],
            photograph=photograph,
            sidecar=self.instead[item.id],
        )

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
            caption = {"caption": record["caption"], "words": used_words(record)}
            return {"id": image_id, "error": str(error), **caption}
        return {"id": image_id, "error": wrong} if wrong else record

    def with_sidecar(self, record: Record) -> Record:
        """The error of a photo; one that could not take its caption gets a sidecar."""
        if "caption" not in record or record["id"] not in self.instead:
            return {"id": record["id"], "error": record["error"]}
        keep = self.options.overwrite != "always"
        return write_instead(self.instead[record["id"]], record, keep=keep)


def _finish(job: _Job) -> None:
    """Write the files from the journal, each whole or not at all, then remove it."""
    options, journal = job.options, job.journal
    # What was known before and is not in the source any more is kept, behind the others.
    present = set(job.order)
    order = [*job.order, *(image_id for image_id in journal if image_id not in present)]
    failed = [job.with_sidecar(record) for record in journal.records(order) if "error" in record]
    job.progress.failed = len(failed)
    write_errors(options.errors, failed)
    if not options.sidecars:
        sound = (record for record in journal.records(order) if "error" not in record)
        write_results(options.out, options.format, sound)
    journal.remove()
