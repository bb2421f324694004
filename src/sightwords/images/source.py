"""Where an image's bytes come from: a path, a URL, a member of a shard, or memory.

Input: anything `decode` takes that is not pixels yet. Output: a binary stream that the caller
closes. All that can go wrong before a decoder sees a byte is turned into one `ImageError` here.
"""

from __future__ import annotations

import io
import os
import select
import stat
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from sightwords.errors import ImageError, require
from sightwords.images.limits import DEFAULT_LIMITS, MEGABYTE, ImageLimits
from sightwords.types import ImageRef

_DIRECTORY = "is a directory; give one image file, or whole folders to: sightwords batch"

DOWNLOAD_BYTES = 64 * MEGABYTE
"""Of what is fetched from a URL."""

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


def open_source(source: Located, limits: ImageLimits = DEFAULT_LIMITS) -> BinaryIO:
    """Open the bytes behind `source` for reading; the caller closes the stream."""
    if isinstance(source, bytes | bytearray | memoryview):
        return io.BytesIO(source)
    if isinstance(source, ImageRef):
        if source.data is not None:
            return io.BytesIO(source.data)
        _refuse_listed_url(source)
        if source.member is not None:
            return _open_member(source, limits)
        source = source.location
    return _open_location(source, limits)


def path_of(source: object) -> str | None:
    """The absolute path of a source that is one regular file; None for all others.

    What is wrong with a path (no such file, a directory) is raised here.
    """
    if isinstance(source, ImageRef) and source.data is None and source.member is None:
        source = source.location
    if not isinstance(source, str | os.PathLike) or "://" in os.fspath(source):
        return None
    with _descriptor(source, name_of(source)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
    # A link to the standard input means another file in another process.
    path = os.fspath(Path(source).absolute())
    return None if path.startswith(("/dev/", "/proc/")) else path


def _open_location(location: str | os.PathLike[str], limits: ImageLimits) -> BinaryIO:
    name = name_of(location)
    if "://" in os.fspath(location):
        return io.BytesIO(_download(os.fspath(location), name, limits))
    file = _descriptor(location, name)
    found = os.fstat(file.fileno())
    if stat.S_ISREG(found.st_mode):
        if found.st_size > limits.file_bytes:
            file.close()
            raise ImageError(
                f"{name}: the file has {found.st_size / MEGABYTE:,.0f} MB, over the limit of "
                f"{limits.file_bytes / MEGABYTE:,.0f}; shrink the photo"
            )
        return file
    with file:
        if stat.S_ISFIFO(found.st_mode):
            return io.BytesIO(_read_pipe(file.fileno(), limits, name))
    raise ImageError(f"{name}: is a device or a socket, not a file; give an image file")


def _read_pipe(descriptor: int, limits: ImageLimits, name: str) -> bytes:
    """All that comes through a pipe, within the limits of size and time."""
    pieces: list[bytes] = []
    size, until = 0, monotonic() + limits.seconds
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, until - monotonic()))
        if not ready:
            raise ImageError(
                f"{name}: is a pipe that did not end within {limits.seconds:g} seconds; write the "
                "photo to a file first"
            )
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > limits.held_bytes:
            raise ImageError(
                f"{name}: sends more than {limits.held_bytes / MEGABYTE:,.0f} MB; write the photo "
                "to a file first"
            )


def _descriptor(location: str | os.PathLike[str], name: str) -> BinaryIO:
    """Open a path to read; a pipe without a writer is not waited for."""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(Path(location), flags)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ImageError(f"{name}: {_DIRECTORY}")
        return os.fdopen(descriptor, "rb")
    except FileNotFoundError as error:
        raise ImageError(f"{name}: no such file; check the path (it is relative to "
                         f"{Path.cwd()})") from error  # fmt: skip
    except PermissionError as error:
        # What Windows answers for a directory; os.path, since Path.is_dir may be denied as well.
        if os.path.isdir(location):  # noqa: PTH112
            raise ImageError(f"{name}: {_DIRECTORY}") from error
        raise ImageError(
            f"{name}: permission denied; make it readable for this user (chmod u+r)"
        ) from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{name}: cannot be opened ({one_line(error)}); check the path") from error


def _refuse_listed_url(image: ImageRef) -> None:
    if image.fetch:
        return
    name = name_of(image)
    if name.lower().startswith(("http://", "https://")):
        raise ImageError(
            f"{name}: is a URL in a list, and these are not fetched; if you trust the list, allow "
            "it with --allow-urls (before training: sightwords data convert --allow-urls)"
        )
    raise ImageError(
        f"{name}: of the URLs in a list only http and https can be fetched, with --allow-urls; "
        "copy the photo to a folder"
    )


def _download(url: str, name: str, limits: ImageLimits) -> bytes:
    """The bytes behind a URL, within the limits of size and time."""
    fsspec = require("fsspec", extra="remote", purpose="reading an image from a URL")
    most = min(DOWNLOAD_BYTES, limits.held_bytes)

    def fetch() -> bytes:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read(most + 1))

    try:
        content = _within(limits.seconds, fetch)
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
    if len(content) > most:
        raise ImageError(
            f"{name}: has more than {most / MEGABYTE:,.0f} MB; download it to a file first"
        )
    return content


def _within(seconds: float, act: Callable[[], bytes]) -> bytes:
    """Give up after some time: a server may send a byte now and then for ever."""
    done: Future[bytes] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(seconds)
    except FutureTimeoutError as error:  # of its own class before Python 3.11
        raise TimeoutError(f"it took more than {seconds:g} seconds") from error


def _open_member(ref: ImageRef, limits: ImageLimits) -> BinaryIO:
    """Read one member of a tar; it scans the shard, so readers hand over `data` instead."""
    name = name_of(ref)
    # A shard may be of any size; its member is held in memory.
    with _open_location(ref.location, replace(limits, file_bytes=1 << 62)) as file:
        try:
            with tarfile.open(fileobj=file) as shard:
                member = shard.extractfile(ref.member or "")
                if member is None:
                    raise ImageError(f"{name}: is not a file in the shard; name an image in it")
                content = member.read(limits.held_bytes + 1)
                if len(content) > limits.held_bytes:
                    raise ImageError(
                        f"{name}: has more than {limits.held_bytes / MEGABYTE:,.0f} MB; shrink it"
                    )
                return io.BytesIO(content)
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
