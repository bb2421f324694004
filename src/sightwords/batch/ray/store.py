"""Files of a batch that several machines write: a shared folder, or any fsspec store.

A local folder gets files whole or not at all. So do object stores, whose uploads appear when they
are complete.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sightwords.corpus.sources import is_url
from sightwords.errors import InputError, SightwordsError, require
from sightwords.files import atomic_path, remove_partials


@dataclass(frozen=True, slots=True)
class Store:
    """One folder; other machines get its name."""

    folder: str

    @classmethod
    def at(cls, folder: str) -> Store:
        """A path or URL; a path is made absolute, since other processes work elsewhere."""
        local = folder.removeprefix("file://")
        return cls(folder if is_url(local) else str(Path(local).resolve()))

    def names(self) -> list[str]:
        """The files in it, sorted; none where there is no such folder."""
        if not is_url(self.folder):
            folder = Path(self.folder)
            return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        with self._remote() as (files, path):
            try:
                return sorted(PurePosixPath(name).name for name in files.ls(path, detail=False))
            except FileNotFoundError:
                return []

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        if not is_url(self.folder):
            return (Path(self.folder) / name).is_file()
        with self._remote() as (files, path):
            return bool(files.exists(f"{path}/{name}"))

    def read(self, name: str) -> bytes:
        """The bytes of a file; FileNotFoundError where it is not there."""
        if not is_url(self.folder):
            return (Path(self.folder) / name).read_bytes()
        with self._remote() as (files, path):
            return bytes(files.cat_file(f"{path}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        self.fill(name, lambda path: path.write_bytes(data))

    def fill(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write` fill a temporary file, which then becomes this one."""
        if not is_url(self.folder):
            with atomic_path(Path(self.folder) / name) as temporary:
                write(temporary)
            return
        with tempfile.TemporaryDirectory(prefix="sightwords-") as folder:
            temporary = Path(folder) / PurePosixPath(name).name
            write(temporary)
            with self._remote() as (files, path):
                files.makedirs(path, exist_ok=True)
                files.put_file(str(temporary), f"{path}/{name}")

    def drop(self, name: str) -> None:
        """Remove a file that may be there."""
        if not is_url(self.folder):
            (Path(self.folder) / name).unlink(missing_ok=True)
        elif self.exists(name):
            with self._remote() as (files, path):
                files.rm_file(f"{path}/{name}")

    def tidy(self, names: Iterable[str]) -> None:
        """Remove what killed machines left of these files; object stores keep nothing of it."""
        if not is_url(self.folder):
            remove_partials(Path(self.folder) / name for name in names)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        if not is_url(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        with self._remote() as (files, path):
            if files.exists(path):
                files.rm(path, recursive=True)

    @contextmanager
    def _remote(self) -> Iterator[tuple[Any, str]]:
        """The file system and the folder's path in it; its errors become one of ours."""
        fsspec = require("fsspec", extra="ray", purpose=f"writing to {self.folder}")
        try:
            files, path = fsspec.core.url_to_fs(self.folder, use_listings_cache=False)
            yield files, str(path).rstrip("/")
        except (SightwordsError, FileNotFoundError):
            raise
        except Exception as error:  # each remote file system has errors of its own
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.folder}: cannot be used ({type(error).__name__}: {reason}); check the "
                "address and your access, and install what its store needs, on every machine"
            ) from error


def split_place(place: str) -> tuple[Store, str]:
    """The store and the name of one file.

    >>> split_place("s3://bucket/run/captions.jsonl")
    (Store(folder='s3://bucket/run'), 'captions.jsonl')
    """
    folder, _, name = place.rpartition("/")
    return Store.at(folder or "."), name
