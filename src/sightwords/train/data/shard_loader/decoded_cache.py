"""Decoded images of a stream of shards, on a disk of this machine, for the next epoch.

    DIR/decoded-KEY/pixels.raw        record n: image n's pixels, size on the canvas, two sums
                    marks-BOOT.raw    byte n: 1 once record n is whole

All processes of a machine share the files without locks: whoever decodes image n writes the same
record n, then its mark. One check sum is of the encoded image, because shards may be replaced, and
KEY knows remote ones only by name. The other is of the pixels and the size, because disks may
damage them. A killed run finds its marks again. After a crash of the machine marks would prove
nothing, because disks do not write in order; so marks belong to one boot of the machine, and
after the next boot all images are decoded again, into an emptied file.
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
"""Share of the disk that is left free."""
CHECK_EVERY = 64
"""Images written between two checks of the free space."""
HEAD = np.dtype([("size", "<i4", 2), ("sum", "<u8"), ("pixels", "<u4")])


class DecodedCache:
    """Decoded images by number; each process that receives it opens the files itself."""

    def __init__(
        self, folder: str | os.PathLike[str], *, key: str, images: int, side_px: int
    ) -> None:
        """key: the images' files and how they are resized; other pixels need another key."""
        if not hasattr(os, "preadv"):
            raise ConfigError(
                "this system cannot keep decoded images (its Python has no os.preadv); leave out "
                "run.keep_decoded"
            )
        name = hashlib.sha256(f"{key}|{images}|{side_px}".encode()).hexdigest()[:16]
        self.folder = Path(folder) / f"decoded-{name}"
        self.images, self.side_px = images, side_px
        self._pixels_path = self.folder / "pixels.raw"
        self._marks_path = self.folder / f"marks-{_boot()}.raw"
        self._written, self._is_full = 0, False
        self.folder.mkdir(parents=True, exist_ok=True)
        with named_when_full(self.folder):
            _ = self._marks, self._file  # opened now, so that errors show at once

    def __getstate__(self) -> dict[str, object]:
        opened = ("_marks", "_file", "_pixels", "_head")
        return {name: value for name, value in vars(self).items() if name not in opened}

    def get(self, number: int, example: Example) -> Canvas | None:
        """The image of this number if it is here; its pixels are valid until the next call."""
        if not self._marks[number]:
            return None
        try:
            read = os.preadv(
                self._file.fileno(), [self._pixels.data, self._head.data], number * self._record
            )
        except OSError as error:
            log.warning(
                "%s: cannot be read (%s); %s is decoded again", self.folder, error, example.id
            )
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
        """Store an image, unless the disk is nearly full."""
        if self._is_full:
            return
        pixels, size = np.ascontiguousarray(found[0]), found[1]
        head = np.array([(size, _sum(example), _pixels_sum(pixels, size))], dtype=HEAD)
        self._marks[number] = 0  # another image may have stood here
        try:
            if self._written % CHECK_EVERY == 0 and not self._has_space():
                return self._stop("the disk is nearly full")
            written = os.pwritev(
                self._file.fileno(),
                [pixels.data, head.data],
                number * self._record,
            )
        except OSError as error:
            return self._stop(f"cannot be written ({error.strerror})")
        self._written += 1
        if written < self._record:
            return self._stop("cannot be written")
        self._marks[number] = 1
        return None

    def _stop(self, why: str) -> None:
        self._is_full = True
        log.warning("%s: %s; further images are decoded in every epoch", self.folder, why)

    def _has_space(self) -> bool:
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
        if not self._marks_path.exists():  # pixels of an earlier boot are useless
            self._pixels_path.write_bytes(b"")
        self._marks_path.touch()
        with self._marks_path.open("r+b", buffering=0) as file:
            if hasattr(os, "posix_fallocate"):  # keeps what another process has marked
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
    """64 bits: half from the image's id, half from its bytes."""
    data = example.image.data if example.image is not None else None
    return id_hash(example.id) >> 32 << 32 | zlib.crc32(data or b"")


def _pixels_sum(pixels: Pixels, size: tuple[int, int]) -> int:
    """32 bits from a record's pixels and the image's size on the canvas."""
    return zlib.crc32(pixels.data, zlib.crc32(repr(tuple(size)).encode("ascii")))


def _boot() -> str:
    """Names this boot of the machine; where that is unknown, this run."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"run-{uuid4().hex}"
