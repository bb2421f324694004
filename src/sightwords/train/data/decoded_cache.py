"""Decoded images of a stream, kept on a disk of this machine for the next epoch.

    DIR/decoded-KEY/pixels.raw        record n: image n's pixels, size on the canvas, two sums
                    marks-BOOT.raw    byte n: 1 once record n is whole

All processes of a machine share them without locks: whoever decodes image n writes the same record
n, and marks it afterwards. One sum is of the image as it is encoded: shards may be replaced, and of
remote ones KEY has the names alone. The other is of the pixels and the size: a disk may change
them. A run that is killed finds its marks again. After the machine itself went down they would be
worth nothing, since a disk keeps what it was given in no certain order: so marks belong to one boot
of the machine, and the next one decodes again, into a file that it empties first.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import zlib
from functools import cached_property
from io import FileIO
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from sightwords.corpus.splits import id_hash
from sightwords.errors import ConfigError
from sightwords.files import named_when_full
from sightwords.train.data.canvas import Canvas, Pixels
from sightwords.types import Example

log = logging.getLogger(__name__)

SPARE_SHARE = 0.1
"""Of the disk's space, which is left to others."""
LOOK_EVERY = 64
"""So many images are written before the space is looked at again."""
HEAD = np.dtype([("size", "<i4", 2), ("sum", "<u8"), ("pixels", "<u4")])


class Kept:
    """Images by number; opened anew in each process that is started with it."""

    def __init__(
        self, folder: str | os.PathLike[str], *, key: str, images: int, side_px: int
    ) -> None:
        """`key` names the images' files and how they are resized: other pixels, another key."""
        if not hasattr(os, "preadv"):
            raise ConfigError(
                "this system cannot keep decoded images (Python has no os.preadv here); leave out "
                "run.keep_decoded"
            )
        name = hashlib.sha256(f"{key}|{images}|{side_px}".encode()).hexdigest()[:16]
        self.folder = Path(folder) / f"decoded-{name}"
        self.images, self.side_px = images, side_px
        self._pixels_path = self.folder / "pixels.raw"
        self._marks_path = self.folder / f"marks-{_boot()}.raw"
        self._written, self._has_room = 0, True
        self.folder.mkdir(parents=True, exist_ok=True)
        with named_when_full(self.folder):
            _ = self._marks, self._file  # opened now: what is wrong shows at once

    def __getstate__(self) -> dict[str, object]:
        opened = ("_marks", "_file", "_pixels", "_head")
        return {name: value for name, value in vars(self).items() if name not in opened}

    def get(self, number: int, example: Example) -> Canvas | None:
        """The image of this number if it was kept; its pixels last until the next call."""
        if not self._marks[number]:
            return None
        try:
            read = os.preadv(
                self._file.fileno(), [self._pixels.data, self._head.data], number * self._record
            )
        except OSError as error:
            log.warning("%s: cannot be read (%s); decoded anew: %s", self.folder, error, example.id)
            return None
        width, height = self._head["size"][0].tolist()
        whole = read == self._record and int(self._head["sum"][0]) == _sum(example)
        if not whole:
            return None
        if int(self._head["pixels"][0]) != _pixels_sum(self._pixels, (width, height)):
            log.warning("%s: record %d is damaged; decoded again", self._pixels_path, number)
            return None
        return self._pixels, (width, height)

    def put(self, number: int, example: Example, found: Canvas) -> None:
        """Keep an image, unless the disk is nearly full."""
        if not self._has_room:
            return
        pixels, size = np.ascontiguousarray(found[0]), found[1]
        head = np.array([(size, _sum(example), _pixels_sum(pixels, size))], dtype=HEAD)
        self._marks[number] = 0  # another image may have stood here
        try:
            if self._written % LOOK_EVERY == 0 and not self._looks_roomy():
                return self._end("has but a tenth of its space left")
            written = os.pwritev(
                self._file.fileno(),
                [pixels.data, head.data],
                number * self._record,
            )
        except OSError as error:
            return self._end(f"takes no more ({error.strerror})")
        self._written += 1
        if written < self._record:
            return self._end("takes no more")
        self._marks[number] = 1
        return None

    def _end(self, why: str) -> None:
        self._has_room = False
        log.warning("%s: the disk %s; further images are decoded every time", self.folder, why)

    def _looks_roomy(self) -> bool:
        space = shutil.disk_usage(self.folder)
        return space.free > SPARE_SHARE * space.total

    @property
    def _record(self) -> int:
        return 3 * self.side_px**2 + HEAD.itemsize

    @cached_property
    def _file(self) -> FileIO:
        self._pixels_path.touch()
        return self._pixels_path.open("r+b", buffering=0)

    @cached_property
    def _marks(self) -> Pixels:
        if not self._marks_path.exists():  # of an earlier boot: space that none would look at
            self._pixels_path.write_bytes(b"")
        self._marks_path.touch()
        with self._marks_path.open("r+b", buffering=0) as file:
            if hasattr(os, "posix_fallocate"):  # what another process has marked stays
                os.posix_fallocate(file.fileno(), 0, self.images)
            else:
                file.truncate(self.images)
            return np.memmap(file, dtype=np.uint8, mode="r+", shape=(self.images,))

    @cached_property
    def _pixels(self) -> Pixels:
        return np.empty((self.side_px, self.side_px, 3), dtype=np.uint8)

    @cached_property
    def _head(self) -> npt.NDArray[np.void]:
        return np.empty(1, dtype=HEAD)


def _sum(example: Example) -> int:
    """64 bits: half of them of the image's id, half of its bytes."""
    data = example.image.data if example.image is not None else None
    return id_hash(example.id) >> 32 << 32 | zlib.crc32(data or b"")


def _pixels_sum(pixels: Pixels, size: tuple[int, int]) -> int:
    """32 bits of a record's pixels and of the image's size on the canvas."""
    return zlib.crc32(pixels.data, zlib.crc32(repr(tuple(size)).encode("ascii")))


def _boot() -> str:
    """Of the machine since it was switched on; where that is not known, of this run alone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"run-{uuid4().hex}"
