"""Sums by which a resumed training tells whole files from damaged ones.

There are two forms. A document (`done.json`, an index) holds the sums of the files beside it and of
its own content. A file that is written many times (a checkpoint) ends with its own sum: a kill
between two files would leave a sum that does not belong to the file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sightwords.files import atomic_path, write_text

log = logging.getLogger(__name__)

Sums = Mapping[str, Mapping[str, object]]
"""Path of a file below a folder, with / -> its size in bytes and its SHA-256."""

SUM_FIELD = "sum"
FOOTER = b"\nsha256 "
"""The end of a file that has its own sum starts so; 64 hexadecimal digits and a line end follow."""
FOOTER_BYTES = len(FOOTER) + 64 + 1
PIECE_BYTES = 1 << 20


def sums_of(folder: Path, names: Iterable[str] | None = None) -> Sums:
    """Sizes and sums of these files; by default of all files below the folder."""
    if names is None:
        names = (f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file())
    return {name: _sum_of(folder / name) for name in sorted(names)}


def damage(folder: Path, sums: Sums) -> str | None:
    """The first file that differs from its sum, and how; None if all files are whole."""
    for name, expected in sums.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != expected["bytes"]:
                return f"{path} has {size} bytes, expected {expected['bytes']}"
            if _sum_of(path) != expected:
                return f"the content of {path} is not what was written"
        except OSError as error:
            return f"{path} cannot be read ({error.strerror})"
    return None


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with a sum of its own content, whole or not at all."""
    plain = json.loads(json.dumps(document, ensure_ascii=False))
    sealed = {**plain, SUM_FIELD: _document_sum(plain)}
    write_text(path, json.dumps(sealed, indent=1, ensure_ascii=False) + "\n")


def read_sealed(path: Path) -> dict[str, Any] | None:
    """What `write_sealed` wrote; None, with a warning, where the file is damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        expected = stored.pop(SUM_FIELD)
        if expected == _document_sum(stored):
            return dict(stored)
        problem = "its content is not what was written"
    except KeyError:
        problem = "it has no sum: another version wrote it, or it was edited"
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        problem = f"it is not a JSON document ({error})"
    log.warning("%s: %s; it is rebuilt", path, problem)
    return None


@contextmanager
def summed_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `files.atomic_path`, for a file that ends with its own sum.

    Readers of zip files (NPZ files, torch's checkpoints) ignore such an end.
    """
    with atomic_path(path) as temporary:
        yield temporary
        with temporary.open("r+b") as file:
            digest = _digest(file)
            file.seek(0, os.SEEK_END)
            file.write(_footer(digest))


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Whether a file that `summed_path` wrote is there and whole; damage is logged.

    Removes the partial file that a killed process may have left.
    """
    target = Path(path)
    remove_partials(target.parent, f"{target.stem}-*", target.suffix)
    if not target.exists():
        return False
    problem = _footer_damage(target)
    if problem is not None:
        log.warning("%s: %s; it is not used, its content is computed again", target, problem)
    return problem is None


def remove_partials(folder: Path, name: str = "*-*", suffix: str = "*") -> None:
    """Remove partial files of `files.atomic_path` that killed processes left."""
    for path in list(folder.rglob(f".{name}.partial{suffix}")):
        if path.is_file():
            path.unlink(missing_ok=True)


def _footer_damage(path: Path) -> str | None:
    try:
        size = path.stat().st_size - FOOTER_BYTES
        with path.open("rb") as file:
            digest = _digest(file, max(size, 0))
            footer = file.read()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not footer.startswith(FOOTER) or len(footer) != FOOTER_BYTES:
        return "has no sum at its end: it was cut short or changed, or another version wrote it"
    if footer != _footer(digest):
        return "its content is not what was written"
    return None


def _footer(digest: str) -> bytes:
    return FOOTER + digest.encode("ascii") + b"\n"


def _sum_of(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        digest = _digest(file)
        return {"bytes": file.tell(), "sha256": digest}


def _digest(file: BinaryIO, size: int | None = None) -> str:
    """The SHA-256 of the next `size` bytes of an open file, or of all that is left."""
    digest = hashlib.sha256()
    left = size
    while left is None or left > 0:
        piece = file.read(PIECE_BYTES if left is None else min(PIECE_BYTES, left))
        if not piece:
            break
        digest.update(piece)
        left = None if left is None else left - len(piece)
    return digest.hexdigest()


def _document_sum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
