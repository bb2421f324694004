"""Which bytes the captions of a finished batch describe: a small hidden file beside them.

Most formats have no room for it, and one way for all is simpler. A later run with `--overwrite
missing` or `--resume` compares: a photo that was replaced since is captioned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sightwords.batch.journal import line_of, record_of
from sightwords.errors import InputError
from sightwords.files import atomic_path

_HEADER = {"sightwords_sums": 1}

Sums = dict[str, str | None]
"""By id: the sum of the photo's bytes; None where it could not be read."""


def write_sums(path: Path, sums: Iterable[tuple[str, str | None]]) -> None:
    """Write the file, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(line_of(_HEADER))
        stream.writelines(line_of({"id": name, "sha256": found}) for name, found in sums)


def read_sums(path: Path) -> Sums | None:
    """What `write_sums` has written; None where there is no such file."""
    try:
        with path.open("rb") as lines:
            return dict(_entries(lines, path))
    except FileNotFoundError:
        return None


def _entries(lines: Iterable[bytes], path: Path) -> Iterator[tuple[str, str | None]]:
    for number, line in enumerate(lines):
        entry = record_of(line)
        if number == 0 and entry == _HEADER:
            continue
        if number == 0 or entry is None or not isinstance(entry.get("id"), str):
            raise InputError(
                f"{path}:{number + 1}: is damaged, so which photos the captions belong to is not "
                "known; caption them again with --overwrite always"
            )
        yield entry["id"], entry.get("sha256")
