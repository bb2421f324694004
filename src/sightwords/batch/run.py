"""Many photos -> captions on disk. A run that is killed at any moment can be resumed.

sources -> items -> workers -> journal -> results file, or one file per photo as it goes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sightwords.batch.journal import Journal
from sightwords.batch.options import BatchOptions, Progress
from sightwords.batch.outputs import read_results, result_id, write_errors, write_results
from sightwords.batch.parquet import require_pyarrow
from sightwords.batch.photo_files import PhotoFiles
from sightwords.batch.records import Record
from sightwords.batch.sources import Item, Source
from sightwords.batch.sums import content_sum, read_sums, write_sums
from sightwords.batch.workers import MakeCaptioner, captioned
from sightwords.batch.xmp import require_exiv2
from sightwords.bundle import open_bundle
from sightwords.errors import BundleError, InputError
from sightwords.files import remove_partials
from sightwords.parallel import available_cores
from sightwords.pipeline import Captioner


def run_batch(
    source: Source,
    options: BatchOptions,
    *,
    make: MakeCaptioner | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Caption every photo of a source; `make` loads another system than the bundle's.

    Afterwards the results, and the errors if there are any, are whole and in the source's order.
    """
    progress = Progress(source.count)
    if options.format in ("xmp", "embedded"):
        require_exiv2()  # now, not after an hour of captions
    if options.format == "parquet":
        require_pyarrow()
    if _is_finished(source, options):
        return progress
    with open_bundle(options.bundle) as bundle:  # a zip is unpacked once, for all processes
        bundle.verify()
        fingerprint = bundle.manifest.fingerprint
        if make is None:
            options.warn(bundle.directory)
            make = partial(_same_system, options.captioner(bundle.directory), fingerprint)
        journal = _journal(options, options.settings(fingerprint))
        try:
            job = _Job(source, options, journal, progress, on_progress or (lambda _: None))
            job.caption(make)
        except BaseException:
            journal.leave()
            raise
    job.finish()
    return progress


def _same_system(make: MakeCaptioner, fingerprint: str) -> Captioner:
    """Load the system; refused where the bundle's files were replaced since the batch began."""
    captioner = make()
    if captioner.fingerprint != fingerprint:
        raise BundleError(
            f"the bundle changed while the batch ran: {fingerprint[:12]} became "
            f"{captioner.fingerprint[:12]}; start again with --overwrite always"
        )
    return captioner


# --- what is there already ------------------------------------------------------------------------


def _is_finished(source: Source, options: BatchOptions) -> bool:
    """Whether a resumed run has nothing left to do; refuses to overwrite anything unasked."""
    if options.journal.exists():
        options.refuse_unfinished(options.journal)
        return False
    if options.file_per_photo or options.overwrite != "never" or not options.out.exists():
        return False
    if not options.resume:
        raise InputError(
            f"{options.out}: already exists; add the missing captions with --overwrite missing, "
            "replace it with --overwrite always, or give another --out"
        )
    _refuse_other_photos(source, options)
    return True


def _refuse_other_photos(source: Source, options: BatchOptions) -> None:
    """Refuse to call a file whole that lacks photos of the source, or describes other photos."""
    sums = read_sums(options.sums)
    if sums is None:
        raise _unknown_photos(options)
    for item in source.read():
        found = sums.get(_output_id(item, options), "")
        if found is not None and found != content_sum(item.image):
            raise InputError(
                f"{options.out}: is complete, but {item.image} is not in it or has changed since; "
                "add the missing captions with --overwrite missing, or give another --out"
            )


def _journal(options: BatchOptions, settings: Mapping[str, Any]) -> Journal:
    if options.resume and options.journal.exists():
        return Journal.resume(options.journal, settings)
    known: Iterator[Record] = iter(())
    if options.overwrite == "missing" and not options.file_per_photo and options.out.exists():
        known = _known(options)
    return Journal.start(options.journal, settings, known)


def _known(options: BatchOptions) -> Iterator[Record]:
    """The captions in an existing results file, with the sums of the photos they describe.

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


def _unknown_photos(options: BatchOptions) -> InputError:
    return InputError(
        f"{options.sums}: is missing, so it is not known which photos the captions in "
        f"{options.out} describe; caption them again with --overwrite always, or give another --out"
    )


# --- one run --------------------------------------------------------------------------------------


def _output_id(item: Item, options: BatchOptions) -> str:
    return str(result_id(item.id)) if options.format == "coco" else item.id


def _named(source: Source, options: BatchOptions, files: PhotoFiles | None) -> Iterator[Item]:
    """The items under the ids of the output, none twice; `files` chooses where captions go."""
    seen: dict[str, str] = {}
    for item in source.read():
        image_id = _output_id(item, options)
        if image_id in seen:
            raise InputError(
                f"{item.image}: would be image {image_id} in the results, and so would "
                f"{seen[image_id]}; write --format jsonl, which keeps folders apart"
            )
        seen[image_id] = str(item.image)
        named = Item(image_id, item.image)
        if files is not None:
            files.add(named)
        yield named


@dataclass(slots=True)
class _Job:
    """One run: what it captions, where it keeps it, whom it tells."""

    source: Source
    options: BatchOptions
    journal: Journal
    progress: Progress
    tell: Callable[[Progress], None]
    files: PhotoFiles | None = field(init=False, default=None)
    order: list[str] = field(init=False, default_factory=list)
    """The ids of the output, in the order of the source."""

    def __post_init__(self) -> None:
        """Look at all targets before the first photo is changed in its place."""
        if self.options.file_per_photo:
            sums = read_sums(self.options.sums) or {}
            self.files = PhotoFiles(self.options, self.journal, sums)
        if self.options.in_place:
            for _ in _named(self.source, self.options, PhotoFiles(self.options)):
                pass

    def caption(self, make: MakeCaptioner) -> None:
        """Caption what the journal lacks."""
        records = captioned(
            self._missing(),
            make,
            workers=self.options.workers or available_cores(),
            n_best=self.options.n_best,
            max_seconds=self.options.max_seconds,
        )
        for record in records:
            if self.files is not None and "error" not in record:
                record = self.files.write(record)
            self.journal.add(record)
            self._count()

    def _missing(self) -> Iterator[Item]:
        """The items that are not done; the others are counted."""
        for item in _named(self.source, self.options, self.files):
            done = self._is_done(item)
            if not done and self.files is not None and self.files.has(item):
                done = True
            else:
                self.order.append(item.id)
            if not done:
                yield item
                continue
            self.progress.kept += 1
            self._count()

    def _is_done(self, item: Item) -> bool:
        """Whether the journal has a record of these very bytes, or one that the user wrote."""
        if item.id not in self.journal:
            return False
        known = self.journal.sum_of(item.id)
        if known is None:
            return item.id in self.journal.kept
        return known == content_sum(item.image)

    def _count(self) -> None:
        self.progress.done += 1
        self.tell(self.progress)

    def finish(self) -> None:
        """Write the files from the journal, each whole or not at all, then remove it."""
        options, journal, files = self.options, self.journal, self.files
        # Captions that were in the results before stay, behind the others, if their photo is gone.
        present = set(self.order)
        gone = (image_id for image_id in journal if image_id not in present)
        order = [*self.order, *(image_id for image_id in gone if image_id in journal.kept)]
        failed = [record for record in journal.records(order) if "error" in record]
        self.progress.failed = len(failed)
        write_errors(options.errors, [self._error_of(record) for record in failed])
        if files is None:
            sound = (record for record in journal.records(order) if "error" not in record)
            write_results(options.out, options.format, sound)
        if not options.in_place:  # photos that hold their captions need nothing beside them
            write_sums(options.sums, self._sums(order))
        written = (options.out, options.errors, options.sums, options.journal)
        remove_partials([*written, *(files.paths() if files else ())])
        journal.remove()

    def _error_of(self, record: Record) -> Record:
        if self.files is not None:
            return self.files.error_of(record)
        return {"id": record["id"], "error": record["error"]}

    def _sums(self, order: list[str]) -> Iterator[tuple[str, str | None]]:
        records = self.journal.records(order)
        if self.files is not None:
            return self.files.all_sums(records)
        return ((record["id"], record.get("sha256")) for record in records)
