"""Where an image's bytes come from: a path, a URL, a member of a shard, or memory.

Input: anything `decode` takes that is not pixels yet. Output: a binary stream that the caller
closes. All that can go wrong before a decoder sees a byte is turned into one `ImageError` here.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import BinaryIO

from sightwords.errors import ImageError, require
from sightwords.types import ImageRef

_DIRECTORY = "is a directory; give one image file, or whole folders to: sightwords batch"

Located = str | os.PathLike[str] | bytes | ImageRef


def name_of(source: object) -> str:
    r"""What messages call this source; always one line.

    >>> name_of("cat.jpg"), name_of(b"\xff\xd8"), name_of(ImageRef("a.tar", member="1.jpg"))
    ('cat.jpg', '<2 bytes>', 'a.tar::1.jpg')
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return f"<{len(source)} bytes>"
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        text = os.fsdecode(text) if isinstance(text, bytes) else text
    elif isinstance(source, ImageRef):
        text = str(source)
    else:
        text = f"<{type(source).__name__}>"
    return text if text.isprintable() and text else repr(text)


def open_source(source: Located) -> BinaryIO:
    """Open the bytes behind `source` for reading; the caller closes the stream."""
    if isinstance(source, bytes | bytearray | memoryview):
        return io.BytesIO(source)
    if isinstance(source, ImageRef):
        if source.data is not None:
            return io.BytesIO(source.data)
        if source.member is not None:
            return _open_member(source)
        source = source.location
    return _open_location(source)


def _open_location(location: str | os.PathLike[str]) -> BinaryIO:
    name = name_of(location)
    if "://" in os.fspath(location):
        return _open_url(os.fspath(location), name)
    try:
        return Path(location).open("rb")
    except FileNotFoundError as error:
        raise ImageError(f"{name}: no such file; check the path (it is relative to "
                         f"{Path.cwd()})") from error  # fmt: skip
    except IsADirectoryError as error:
        raise ImageError(f"{name}: {_DIRECTORY}") from error
    except PermissionError as error:
        # What Windows answers for a directory; os.path, since Path.is_dir may be denied as well.
        if os.path.isdir(location):  # noqa: PTH112
            raise ImageError(f"{name}: {_DIRECTORY}") from error
        raise ImageError(
            f"{name}: permission denied; make it readable for this user (chmod u+r)"
        ) from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{name}: cannot be opened ({one_line(error)}); check the path") from error


def _open_url(url: str, name: str) -> BinaryIO:
    fsspec = require("fsspec", extra="remote", purpose="reading an image from a URL")
    try:
        with fsspec.open(url, "rb") as file:
            return io.BytesIO(file.read())
    except ImportError as error:  # s3:// and its kin take packages that nothing here asks for
        raise ImageError(
            f"{name}: a package to fetch it with is not installed ({one_line(error)}); that of "
            "http and https comes with: pip install 'sightwords[remote]'"
        ) from error
    except Exception as error:  # each of fsspec's many back ends has exceptions of its own
        raise ImageError(
            f"{name}: cannot be fetched ({type(error).__name__}: {one_line(error)}); "
            "check the address, the network and your access"
        ) from error


def _open_member(ref: ImageRef) -> BinaryIO:
    """Read one member of a tar; it scans the shard, so readers hand over `data` instead."""
    name = name_of(ref)
    with _open_location(ref.location) as file:
        try:
            with tarfile.open(fileobj=file) as shard:
                member = shard.extractfile(ref.member or "")
                if member is None:
                    raise ImageError(f"{name}: is not a file in the shard; name an image in it")
                return io.BytesIO(member.read())
        except KeyError as error:
            raise ImageError(
                f"{name}: the shard has no such member; list it with tar -t"
            ) from error
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ImageError(
                f"{name}: the shard cannot be read ({one_line(error)}); fetch it again"
            ) from error


def one_line(error: BaseException) -> str:
    """The error's own words, on one line; its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
