"""The hashed paraphrase table, kept for later runs.

Reading METEOR's paraphrase file takes seconds, mapping the 49 MB of its hashed form into memory
takes milliseconds. The file lies in the user's cache directory (SIGHTWORDS_CACHE, by default the
platform's), named after the hash it uses and the file it was made from. If it is lost or damaged,
or there is no place for it, the only cost is time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import zlib
from pathlib import Path

import numpy as np

from sightwords.files import atomic_path
from sightwords.metrics.meteor.hash import U64, scheme
from sightwords.metrics.meteor.paraphrases import ParaphraseTable, read_table

_logger = logging.getLogger(__name__)
_LAYOUT = 1  # a new number makes files of the old layout invisible


def load_table(path: Path) -> ParaphraseTable:
    """The table of a METEOR paraphrase file, from the cache if it is there."""
    try:
        folder = cache_folder()
    except RuntimeError as error:
        _logger.debug("paraphrases not cached: %s", error)
        return read_table(path)
    cached = folder / f"meteor-paraphrases-{_LAYOUT}-{scheme()}-{_fingerprint(path)}.npy"
    with contextlib.suppress(OSError, ValueError, EOFError):
        return _unpack(np.load(cached, mmap_mode="r"))
    table = read_table(path)
    try:
        with atomic_path(cached) as temporary:
            np.save(temporary, _pack(table))
    except OSError as error:
        _logger.debug("paraphrases not cached in %s: %s", folder, error)
    return table


def cache_folder() -> Path:
    """Where caches live; SIGHTWORDS_CACHE overrides the platform's place.

    Raises RuntimeError where the user has no home directory.
    """
    if chosen := os.environ.get("SIGHTWORDS_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sightwords"


def _fingerprint(path: Path) -> str:
    """Size, and the CRC of the contents that gzip keeps in its last eight bytes."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        return f"{size:x}-{file.read(8).hex()}"


def _pack(table: ParaphraseTable) -> U64:
    head = np.array([len(table.phrases), len(table.paraphrases), 0], dtype=np.uint64)
    packed = np.concatenate((head, table.phrases, table.starts, table.counts, table.paraphrases))
    packed[2] = _checksum(packed)
    return packed


def _unpack(packed: U64) -> ParaphraseTable:
    if packed.dtype != np.uint64 or packed.ndim != 1 or len(packed) < 3:
        raise ValueError("not a packed paraphrase table")
    rows, entries, checksum = (int(n) for n in packed[:3])
    if len(packed) != 3 + 3 * rows + entries or _checksum(packed) != checksum:
        raise ValueError("a damaged paraphrase table")
    phrases, starts, counts, paraphrases = np.split(
        packed[3:].view(np.ndarray), [rows, 2 * rows, 3 * rows]
    )
    return ParaphraseTable(phrases, starts, counts, paraphrases)


def _checksum(packed: U64) -> int:
    return zlib.crc32(packed[3:].view(np.uint8).data)
