"""Atomic writing: a file is either complete or not there.

A file appears under its name only when all of it is on disk; a crash at any moment leaves the
old file, or none, and never a torn one.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, ValueError)
"""Errors that a damaged zip or NPZ file may raise when it is read, besides OSError."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk, quota or file."""

LONGEST_STEM = 100
"""Bytes of a file's own name in that of its temporary one."""

_PARTIAL = re.compile(r"\.(.*)-[a-z0-9_]{8}\.partial(\..*|)", re.DOTALL)
"""The names of temporary files: the target's stem and ending, and what `mkstemp` puts between."""


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success rename it there, on failure remove it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "words.txt"
    ...     with atomic_path(target) as temporary:
    ...         _ = temporary.write_text("dog", encoding="utf-8")
    ...     target.read_text(encoding="utf-8")
    'dog'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Same folder, so that the rename stays on one file system and is atomic; the suffix is kept
    # last because some writers choose their format by it.
    try:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{_short(target.stem)}-", suffix=f".partial{target.suffix}"
        )
    except OSError as error:
        error.filename = str(target)  # not the temporary name, which the user does not know
        raise
    os.close(handle)
    temporary = Path(name)
    try:
        with named_when_full(target):
            temporary.chmod(_mode_for(target))
            yield temporary
            _sync(temporary)
            temporary.replace(target)
            _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_partials(targets: Iterable[Path]) -> None:
    """Remove the temporary files that a killed process left beside the files it was writing.

    Only names that `atomic_path` would have given for these targets are touched. Call it only
    where no other process writes these targets.
    """
    wanted: dict[Path, set[tuple[str, str]]] = {}
    for target in targets:
        wanted.setdefault(target.parent, set()).add((_short(target.stem), target.suffix))
    for folder, names in wanted.items():
        try:
            found = [entry for entry in os.listdir(folder) if ".partial" in entry]  # noqa: PTH208
        except OSError:
            continue
        for entry in found:
            match = _PARTIAL.fullmatch(entry)
            if match is not None and (match[1], match[2]) in names:
                (folder / entry).unlink(missing_ok=True)


@contextmanager
def named_when_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file that a full disk could not take; the system's error does not."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = os.fspath(path)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text with Unix line ends, completely or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes, completely or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def claim(file: IO[bytes]) -> bool:
    """Whether this process may write to an open file: no other one has claimed it.

    The claim ends with the file, or with the process, however that ends. Where the system or the
    file system knows no locks, every claim is granted.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _short(stem: str) -> str:
    """As much of a name as leaves room for more: file systems end names at 255 bytes."""
    return os.fsencode(stem)[:LONGEST_STEM].decode("utf-8", "ignore")


def _mode_for(target: Path) -> int:
    """The permissions a plain `open(path, "w")` would give or keep (mkstemp gives 0600)."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync(path: Path) -> None:
    """Force a file, or a folder's entries, to disk; file systems that cannot are left alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open a folder
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in FULL:  # a network file system may report this only now
            raise
    finally:
        os.close(descriptor)
