"""Finds a corpus's images in a folder (local or fsspec URL) by path, name or stem."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from sightwords.corpus.sources import is_url, listed_image
from sightwords.errors import CorpusError, require
from sightwords.types import ImageRef

EXTENSIONS = frozenset(
    ("jpg", "jpeg", "jpe", "jfif", "png", "webp", "avif", "gif", "bmp", "tif", "tiff", "ppm",
     "pgm", "jp2", "heic", "heif", "hif")
)  # fmt: skip


def is_image_name(name: str) -> bool:
    """Whether a file name ends as an image's does.

    >>> is_image_name("a/b.JPG"), is_image_name("b.json")
    (True, False)
    """
    return PurePosixPath(name).suffix.lower().lstrip(".") in EXTENSIONS


class ImageFolder:
    """A folder of images; listed once, and only when a name is not simply there."""

    def __init__(self, root: str) -> None:
        self.root = root
        if not is_url(root) and not Path(root).is_dir():
            raise CorpusError(
                f"{root}: is not a folder; name the folder that holds the corpus's images"
            )

    def find(self, *names: str) -> str | None:
        """Location of the first name that is there; None when none is, or a name is ambiguous.

        Each name is tried as a path below the root, then as a file name anywhere below it, then
        as a stem (`000000000009` finds `val2014/000000000009.jpg`).
        """
        for name in names:
            if is_url(name):
                return name
            path = os.path.join(self.root, name)  # noqa: PTH118 - keeps the spelling given
            # os.path, because Path.is_file raises for names that no file system can have
            if not is_url(self.root) and os.path.isfile(path):  # noqa: PTH113
                return path
        for name in names:
            found = self._by_name.get(PurePosixPath(name.replace("\\", "/")).name)
            if found:
                return found
        return None

    def image(self, *names: str) -> ImageRef | None:
        """The image that `find` finds; a URL that a name itself is needs the user's consent."""
        found = self.find(*names)
        if found is None:
            return None
        return listed_image(found) if found in names else ImageRef(found)

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """Every image under its file name and its stem; `` where two share it."""
        index: dict[str, str] = {}
        for location in self._listing():
            path = PurePosixPath(location.replace("\\", "/"))
            for key in {path.name, path.stem}:
                index[key] = location if index.get(key, location) == location else ""
        return index

    def _listing(self) -> Iterator[str]:
        if not is_url(self.root):
            yield from filter(is_image_name, _walk(self.root))
            return
        fsspec = require("fsspec", extra="remote", purpose=f"reading {self.root}")
        files, path = fsspec.core.url_to_fs(self.root)
        yield from map(files.unstrip_protocol, filter(is_image_name, sorted(files.find(path))))


def _walk(root: str) -> Iterator[str]:
    for folder, subfolders, names in os.walk(root):
        subfolders.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)  # noqa: PTH118 - hundreds of thousands of times


def first_folder(base: str, names: Iterable[str]) -> str | None:
    """The first of some folder names that exists beside a local file, as corpora unpack."""
    if is_url(base):
        return None
    for name in names:
        if (Path(base) / name).is_dir():
            return str(Path(base) / name)
    return None


def parent(location: str) -> str:
    """The folder of a path or URL.

    >>> parent("memory://data/manifest.csv"), parent("manifest.csv")
    ('memory://data', '.')
    """
    return location.rsplit("/", 1)[0] if is_url(location) else str(Path(location).parent)


def stem(location: str) -> str:
    """The name of a corpus file without folder, `.gz` and ending.

    >>> stem("data/coco-train.jsonl.gz"), stem("s3://b/flickr8k-00.tar")
    ('coco-train', 'flickr8k-00')
    """
    name = location.replace("\\", "/").rsplit("/", 1)[-1]
    return name.removesuffix(".gz").rsplit(".", 1)[0] or name
