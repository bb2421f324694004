"""Whether a photo's file may be replaced by a copy, and what the copy takes over from it.

owner, group, mode, access and modification time, extended attributes (and so ACLs)
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from sightwords.batch.xmp.packet import EmbedError

_WITHOUT_ATTRIBUTES = frozenset((errno.ENOTSUP, errno.ENOSYS, errno.EINVAL))
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def check_replaceable(path: Path, seen: os.stat_result) -> None:
    """Refuse a file whose copy under the same name would differ for somebody."""
    if not stat.S_ISREG(seen.st_mode):
        raise EmbedError("it is not a regular file")
    if seen.st_nlink > 1:
        raise EmbedError(f"it has {seen.st_nlink} hard links, which a new file would separate")
    # Root may write to all files; one that nobody may write to was protected on purpose.
    if not seen.st_mode & _WRITABLE or not os.access(path, os.W_OK):
        raise EmbedError("it is read-only")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise EmbedError("its folder is read-only")


def keep_attributes(path: Path, seen: os.stat_result, copy: Path) -> None:
    """Give a copy all that belongs to the file, not to its content."""
    now = copy.stat()
    if (now.st_uid, now.st_gid) != (seen.st_uid, seen.st_gid):
        try:
            os.chown(copy, seen.st_uid, seen.st_gid)
        except OSError as error:
            raise EmbedError("it belongs to another user or group") from error
    attributes = _attributes(path)
    for name, value in attributes.items():
        try:
            os.setxattr(copy, name, value)
        except OSError as error:
            if _attributes(copy).get(name) != value:
                raise EmbedError(f"its attribute {name} cannot be kept") from error
    for name in _attributes(copy).keys() - attributes.keys():
        raise EmbedError(f"a new file in its folder gets an attribute that it lacks ({name})")
    copy.chmod(stat.S_IMODE(seen.st_mode))
    os.utime(copy, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def check_unchanged(path: Path, seen: os.stat_result) -> None:
    """Nobody has written to the file, or put another one in its place, since it was read."""
    now = path.stat()
    if _identity(now) != _identity(seen):
        raise ChangedError("it changed while it was read; run the command again")


class ChangedError(EmbedError):
    """The photo has changed since it was captioned."""


def _identity(state: os.stat_result) -> tuple[int, ...]:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _attributes(path: Path) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):  # they exist in this form on Linux alone
        return {}
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError as error:
        if error.errno in _WITHOUT_ATTRIBUTES:
            return {}
        raise EmbedError("its extended attributes cannot be read") from error
