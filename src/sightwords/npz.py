"""NumPy archives that somebody else wrote: checked before anything is unpacked.

A megabyte of zip can hold gigabytes of zeros, and the header of an array can ask for more memory
than there is. So names, kinds and sizes of all arrays are read first, and only then the numbers.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from typing import Any

import numpy.typing as npt
from numpy.lib import format as npy

from sightwords.files import DAMAGED_ZIP

LARGEST_BYTES = 1 << 30
"""Of all arrays of an archive together."""
FREE_BYTES = 96 << 20
"""So much may be unpacked from however little: a table for a small corpus is mostly zeros."""
LARGEST_RATIO = 200
MOST_MEMBERS = 64
ENTRY = b"PK\x01\x02"
"""Begins each entry of a zip's list of members."""

BROKEN_ARCHIVE = (*DAMAGED_ZIP, NotImplementedError, RuntimeError, RecursionError, MemoryError,
                  OSError, struct.error, KeyError)  # fmt: skip
"""What a damaged zip, or NumPy's reader of headers, may raise."""


def load_npz(
    data: bytes, *, kinds: str = "biuf", largest_bytes: int = LARGEST_BYTES
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive, by name; whatever is wrong with it is a ValueError.

    `kinds` are those that NumPy's types may have: numbers, unless it says otherwise.

    >>> import numpy as np
    >>> file = io.BytesIO()
    >>> np.savez(file, ids=np.arange(3))
    >>> load_npz(file.getvalue())["ids"].tolist()
    [0, 1, 2]
    >>> load_npz(file.getvalue(), largest_bytes=8)
    Traceback (most recent call last):
        ...
    ValueError: its arrays take 24 bytes; expected at most 8
    """
    try:
        refuse_entries(data.count(ENTRY), most=MOST_MEMBERS)
        with zipfile.ZipFile(io.BytesIO(data)) as stored:
            members = stored.infolist()
            refuse_bomb(members, len(data), most=MOST_MEMBERS)
            sizes = [_array_bytes(stored, member, kinds) for member in members]
            if sum(sizes) > largest_bytes:
                raise ValueError(
                    f"its arrays take {sum(sizes)} bytes; expected at most {largest_bytes}"
                )
            found = {}
            for member in members:
                with stored.open(member) as stream:
                    array = npy.read_array(stream, allow_pickle=False)
                found[member.filename.removesuffix(".npy")] = array
            return found
    except BROKEN_ARCHIVE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason[:200]) from error


def refuse_entries(count: int, *, most: int) -> None:
    """Raise a ValueError for far too many members, before Python makes an object of each.

    The mark may also occur inside the members, though rarely; hence a margin.
    """
    if count > most + 1000:
        raise ValueError(f"it holds over {most} files; expected at most {most}")


def refuse_bomb(members: list[zipfile.ZipInfo], packed_bytes: int, *, most: int) -> None:
    """Raise a ValueError for a zip that is made to overflow, or that has a name twice.

    Names that differ only in case count as the same: on some systems they are.
    """
    if len(members) > most:
        raise ValueError(f"it holds {len(members)} files; expected at most {most}")
    names = [member.filename.casefold() for member in members]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it holds {twice!r:.60} twice")
    total = sum(member.file_size for member in members)
    sizes = [(member.file_size, member.compress_size) for member in members]
    for unpacked, packed in (*sizes, (total, packed_bytes)):
        if unpacked > FREE_BYTES and unpacked > LARGEST_RATIO * packed:
            raise ValueError(
                f"{packed} bytes unpack to {unpacked}; expected at most {LARGEST_RATIO} times as "
                "many"
            )


def _array_bytes(stored: zipfile.ZipFile, member: zipfile.ZipInfo, kinds: str) -> int:
    """Size of one array by its header, which must agree with the zip."""
    name = member.filename
    with stored.open(member) as stream:
        try:
            major, _ = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
            shape, _, dtype = read(stream)
        except Exception as error:  # it is parsed as Python: SyntaxError, TokenError and others
            raise ValueError(f"{name!r:.60} has a header that cannot be read") from error
        header = stream.tell()
    if dtype.kind not in kinds:
        raise ValueError(f"{name!r:.60} is of type {str(dtype)!r:.40}; expected numbers")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size + header != member.file_size:
        raise ValueError(
            f"{name!r:.60} has a header that does not fit its {member.file_size} bytes"
        )
    return size
