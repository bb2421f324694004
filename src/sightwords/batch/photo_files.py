"""Formats that write one file per photo: a text, an XMP sidecar, or a copy with its caption inside.

Files appear one by one, each whole. What the user wrote is never replaced unasked. What an earlier
run wrote for other bytes of a photo is replaced: the journal and the sums tell which that is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sightwords.batch.journal import Journal
from sightwords.batch.options import BatchOptions
from sightwords.batch.outputs import Format
from sightwords.batch.records import Record
from sightwords.batch.sources import Item
from sightwords.batch.sums import Sums, content_sum
from sightwords.batch.xmp import (
    ChangedError,
    EmbedError,
    can_hold,
    description_of,
    embed,
    write_xmp,
)
from sightwords.corpus.folder import is_image_name
from sightwords.corpus.sources import is_url
from sightwords.errors import InputError
from sightwords.files import FULL, write_text
from sightwords.types import ImageRef


@dataclass(slots=True)
class PhotoFile:
    """Where the caption of one photo goes."""

    photo: Path
    target: Path
    sidecar: Path
    """Of a photo that its caption cannot be embedded in."""
    ours: bool = False
    """Whether an earlier run wrote `target` for other bytes of the photo: it may be replaced."""


@dataclass(slots=True)
class PhotoFiles:
    """The files of one run, by the id of their photo."""

    options: BatchOptions
    journal: Journal | None = None
    sums: Sums = field(default_factory=dict)
    """Of the photos whose files earlier runs have written, by the name of the file."""
    files: dict[str, PhotoFile] = field(default_factory=dict)
    _targets: set[str] = field(default_factory=set)
    _sidecars: set[str] = field(default_factory=set)

    def add(self, item: Item) -> None:
        """Choose where a photo's caption goes."""
        out, form = self.options.out, self.options.format
        target = out / file_name(item.id, form, self._targets)
        if form == "embedded":
            self._check_target(item.image, target)
        sidecar = out / file_name(item.id, "xmp", self._sidecars)
        self.files[item.id] = PhotoFile(Path(item.image.location), target, sidecar)

    def _check_target(self, image: ImageRef, target: Path) -> None:
        """A photo itself is changed only where that was asked for."""
        if image.member is not None or (is_url(image.location) and image.fetch):
            raise InputError(
                f"{image}: is not a file on this disk, so nothing can be embedded in it; give a "
                "folder or a list of photos, or another --format"
            )
        photo = Path(image.location)
        if not _is_file(photo):
            return  # opening it says what is wrong
        same = _is_file(target) and target.samefile(photo)
        if same and not self.options.in_place:
            raise InputError(
                f"{photo}: would be changed itself; allow it with --in-place, or give another "
                "folder as --out"
            )
        if self.options.in_place and not same:
            raise InputError(
                f"{photo}: is not {target}; with --in-place, --out must be the folder of the photos"
            )

    def has(self, item: Item) -> bool:
        """Whether a photo needs no caption, because it has one beside it or inside.

        A file that a batch wrote for other bytes of the photo is noted as ours to replace.
        """
        file, form = self.files[item.id], self.options.format
        assert self.journal is not None
        claimed = self.journal.claims.get(self._name(file), set())
        if claimed and not self.options.in_place and _has_caption(form, file.target, claimed):
            file.ours = True
        if self.options.overwrite != "missing" or file.ours or not _is_described(form, file):
            return False
        known = self.sums.get(self._name(file))
        file.ours = known is not None and exists(file.target) and known != content_sum(item.image)
        return not file.ours

    def write(self, record: Record) -> Record:
        """Write a photo's file, after a note in the journal that it is ours.

        Returns the record, or that of what stood in the way.
        """
        file = self.files[record["id"]]
        assert self.journal is not None
        self.journal.claim(self._name(file), record["caption"])
        overwrite = "always" if file.ours else self.options.overwrite
        wrong = None
        try:
            wrong = write_photo_file(self.options.format, file, record, overwrite=overwrite)
        except ChangedError as error:  # the caption may be wrong by now
            wrong = str(error)
        except EmbedError as error:  # the caption is noted first: a sidecar follows at the end
            return {**record, "error": str(error)}
        except OSError as error:  # its name is too long, a folder has it already, ...
            wrong = _cannot_write(file.target, error)
        if wrong:
            return {"id": record["id"], "error": wrong, "sha256": record["sha256"]}
        if self.options.in_place:  # the photo itself was changed
            record = {**record, "sha256": content_sum(ImageRef(str(file.photo)))}
        return record

    def error_of(self, record: Record) -> Record:
        """The error of a photo; one that could not take its caption gets a sidecar."""
        if "caption" not in record or record["id"] not in self.files:
            return {"id": record["id"], "error": record["error"]}
        sidecar = self.files[record["id"]].sidecar
        return write_instead(sidecar, record, keep=self.options.overwrite != "always")

    def all_sums(self, records: Iterable[Record]) -> Iterator[tuple[str, str | None]]:
        """The sums of this run and of earlier ones, by the name of the file.

        Not by id: two photos may take turns in having one file.
        """
        written = set()
        for record in records:
            if "error" not in record:
                name = self._name(self.files[record["id"]])
                written.add(name)
                yield name, record.get("sha256")
        yield from ((name, known) for name, known in self.sums.items() if name not in written)

    def paths(self) -> Iterator[Path]:
        """All files that this run or an earlier part of it may have begun."""
        assert self.journal is not None
        yield from (self.options.out / name for name in self.journal.claims)
        for file in self.files.values():
            yield from (file.target, file.sidecar)

    def _name(self, file: PhotoFile) -> str:
        return file.target.relative_to(self.options.out).as_posix()


def file_name(image_id: str, kind: Format, taken: set[str]) -> str:
    """Where a photo's file goes below the output folder: the source's tree again.

    `a.jpg` gets `a.txt`, as tools that train on captions expect; a later `a.png` beside it gets
    `a.png.txt`. Names given out are added to `taken`.

    >>> taken = set()
    >>> names = ("2019/dog.jpg", "2019/dog.png", "../cat.jpg")
    >>> [file_name(name, "txt", taken) for name in names]
    ['2019/dog.txt', '2019/dog.png.txt', 'cat.txt']
    """
    # Elsewhere a folder may be called "12:30", and a photo may have a backslash in its name.
    windows = os.name == "nt"
    inside = PurePosixPath(image_id.replace("\\", "/") if windows else image_id)
    elsewhere = (windows and ":" in inside.parts[0]) or is_url(image_id)
    if inside.is_absolute() or ".." in inside.parts or elsewhere:
        inside = PurePosixPath(inside.name)  # a list may name photos anywhere
    ending = inside.suffix if kind == "embedded" else f".{kind}"
    short = inside.with_suffix(ending) if is_image_name(inside.name) else None
    long = inside.with_name(f"{inside.name}{ending}")
    name = (short if short is not None and str(short) not in taken else long).as_posix()
    while name in taken:
        name = f"{name.removesuffix(ending)}-2{ending}"
    taken.add(name)
    return name


def write_photo_file(
    kind: Format, file: PhotoFile, record: Record, *, overwrite: str
) -> str | None:
    """Write one photo's file; what is wrong, where something that is there must stay.

    `always` makes a copy from the photo as it is now, whatever is there.
    """
    caption, words, keep = record["caption"], _used_words(record), overwrite == "never"
    if kind == "xmp":
        return write_xmp(file.target, caption, words, keep=keep)
    if kind == "embedded":
        return embed(
            file.photo,
            file.target,
            caption,
            words,
            keep=keep,
            new_copy=overwrite == "always",
            sha256=record.get("sha256"),
        )
    if keep and file.target.exists():
        # An equal one is what a run that was killed has left.
        if file.target.read_bytes() == f"{caption}\n".encode():
            return None
        return f"{file.target}: already exists and was kept; replace it with --overwrite always"
    write_text(file.target, f"{caption}\n")
    return None


def write_instead(sidecar: Path, record: Record, *, keep: bool) -> Record:
    """A sidecar for a photo that its caption could not be embedded in; the error that says so."""
    try:
        wrong = write_xmp(sidecar, record["caption"], _used_words(record), keep=keep)
    except OSError as error:
        wrong = _cannot_write(sidecar, error)
    where = f"no sidecar could be written: {wrong}" if wrong else f"its caption is in {sidecar}"
    return {"id": record["id"], "error": f"{record['error']}; {where}"}


def _cannot_write(path: Path, error: OSError) -> str:
    if error.errno in FULL:
        raise error
    return f"{path}: cannot be written ({error.strerror or error})"


def _used_words(record: Record) -> list[str]:
    """The detected words that a caption uses."""
    return [word["word"] for word in record["words"] if word["used"]]


def _is_described(kind: Format, file: PhotoFile) -> bool:
    """Whether a photo has what would be written already.

    A sidecar beside a photo counts only if its format cannot hold a caption itself.
    """
    if kind == "txt" or (kind == "xmp" and not exists(file.target)):
        return exists(file.target)
    described = file.target if exists(file.target) else file.photo
    if description_of(described) is not None:
        return True
    instead = kind == "embedded" and exists(file.sidecar) and not can_hold(file.photo)
    return instead and description_of(file.sidecar) is not None


def _has_caption(kind: Format, target: Path, captions: set[str]) -> bool:
    """Whether a file has one of these captions, which an earlier run gave it."""
    if kind != "txt":
        return exists(target) and description_of(target) in captions
    try:
        return target.read_bytes() in {f"{caption}\n".encode() for caption in captions}
    except OSError:
        return False


def exists(path: Path) -> bool:
    """As `Path.exists`, which raises where a name is too long or a folder cannot be opened."""
    return os.path.exists(path)  # noqa: PTH110


def _is_file(path: Path) -> bool:
    """As `Path.is_file`, which raises in these cases too."""
    return os.path.isfile(path)  # noqa: PTH113
