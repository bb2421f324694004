"""Opens what a corpus is made of: local files, gzip, and any fsspec URL, always as a stream.

Nothing is unpacked or copied to disk. Text is decoded with `surrogateescape`: bytes that are not
of the encoding survive as lone surrogates up to the one caption they spoil, which is then
reported by name (see `records.checked`), instead of ending the file.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from sightwords.corpus.problems import Kind, Problems
from sightwords.errors import CorpusError, SightwordsError, require
from sightwords.images.source import open_source as open_image
from sightwords.types import ImageRef

# What reading a stream may raise when the file is cut, damaged or unreachable.
READ_ERRORS = (OSError, EOFError, zlib.error)

_GZIP_MAGIC = b"\x1f\x8b"
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"^(\d+)\.\.(\d+)$")


def whence(location: str) -> str:
    """What to do about a path that does not exist.

    >>> whence("/data/photos.csv"), whence("photos.csv").startswith("check the path (it is ")
    ('check the path', True)
    """
    relative = not is_url(location) and not Path(location).is_absolute()
    return "check the path" + (f" (it is relative to {Path.cwd()})" if relative else "")


def is_url(location: str) -> bool:
    r"""Whether a location is for fsspec rather than the local file system.

    >>> is_url("s3://bucket/a.tar"), is_url("shards/a.tar"), is_url("C:\\shards\\a.tar")
    (True, False, False)
    """
    return _URL.match(location) is not None


def listed_image(location: str, *, allow_urls: bool = False) -> ImageRef:
    """An image that a list names. Whoever wrote the list must not choose what is fetched.

    Where the user allows it, http and https URLs are fetched, but no others: `file://` and
    similar URLs would reach what the writer of the list cannot.

    >>> [listed_image(name, allow_urls=True).fetch for name in ("a.jpg", "http://a", "s3://a")]
    [True, True, False]
    """
    plain = location.lower().startswith(("http://", "https://")) and "::" not in location
    return ImageRef(location, fetch=not is_url(location) or (allow_urls and plain))


def expand_braces(pattern: str) -> list[str]:
    """Expand `{00..12}` and `{a,b}` as a shell does; zeros in front are kept.

    >>> expand_braces("coco-{08..10}.tar")
    ['coco-08.tar', 'coco-09.tar', 'coco-10.tar']
    >>> expand_braces("{train,val}-{0..1}.tar")
    ['train-0.tar', 'train-1.tar', 'val-0.tar', 'val-1.tar']
    """
    pieces = _BRACES.split(pattern)  # text, inside, text, inside, ..., text
    choices = [[piece] if i % 2 == 0 else _alternatives(piece) for i, piece in enumerate(pieces)]
    return ["".join(parts) for parts in itertools.product(*choices)]


def _alternatives(inside: str) -> list[str]:
    bounds = _RANGE.match(inside)
    if bounds is None:
        return inside.split(",") if "," in inside else ["{" + inside + "}"]
    first, last = int(bounds[1]), int(bounds[2])
    width = len(bounds[1]) if bounds[1].startswith("0") else 0
    step = 1 if last >= first else -1
    return [f"{number:0{width}d}" for number in range(first, last + step, step)]


def expand(pattern: str) -> list[str]:
    """The files a pattern names: braces first, then `*`, `?` and `[...]`; sorted within a glob.

    A name without `*`, `?` or `[` stands for itself, there or not; a glob that matches nothing
    is an error, because nobody wants an empty corpus.
    """
    found: list[str] = []
    for name in [pattern] if _exists(pattern) else expand_braces(pattern):
        found += _glob(name) if re.search(r"[*?\[]", name) and not _exists(name) else [name]
    return list(dict.fromkeys(found))


def _exists(name: str) -> bool:
    return not is_url(name) and Path(name).exists()


def _glob(pattern: str) -> list[str]:
    if is_url(pattern):
        fsspec = _fsspec(pattern)
        try:
            files, _ = fsspec.core.url_to_fs(pattern)
            names = [files.unstrip_protocol(name) for name in files.glob(pattern)]
        except Exception as error:
            raise CorpusError(f"{pattern}: cannot be listed ({_reason_of(error)})") from error
    else:
        names = glob.glob(pattern)  # noqa: PTH207 - a pattern may be absolute; Path.glob refuses
    if not names:
        raise CorpusError(f"{pattern}: no file matches; check the folder and the pattern")
    return sorted(names)


def _fsspec(location: str) -> Any:
    return require("fsspec", extra="remote", purpose=f"reading {location}")


@contextmanager
def open_binary(location: str) -> Iterator[io.BufferedReader]:
    """Open a path or URL for reading; gzip is seen by its first bytes and undone."""
    with _open_raw(location) as raw:
        buffered = io.BufferedReader(cast("Any", raw), buffer_size=1 << 20)
        if buffered.peek(2)[:2] != _GZIP_MAGIC:
            yield buffered
            return
        with gzip.GzipFile(fileobj=buffered) as unzipped:
            # read1 hands over what gzip has; read drops it when the file is cut further on.
            yield io.BufferedReader(_Pieces(unzipped.read1), buffer_size=1 << 20)


class _Pieces(io.RawIOBase):
    """A stream out of a function that reads; remote file systems' own errors become OSError."""

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], None] | None = None):
        self._read = read
        self._close = close

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with one piece."""
        try:
            piece = self._read(len(buffer))
        except READ_ERRORS:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {_reason_of(error)}") from error
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close what is behind, once."""
        if self._close is not None and not self.closed:
            self._close()
        super().close()


def _open_raw(location: str) -> IO[bytes]:
    """Open unbuffered, with every failure an OSError or one of ours."""
    if "\0" in location:
        raise OSError(f"{location!r}: the path holds a null character")
    if not is_url(location):
        return cast("IO[bytes]", Path(location).open("rb", buffering=0))
    fsspec = _fsspec(location)
    try:
        remote = fsspec.open(location, "rb").open()
        return cast("IO[bytes]", _Pieces(remote.read, remote.close))
    except (SightwordsError, OSError):
        raise
    except Exception as error:  # each remote file system has errors of its own
        raise OSError(f"{type(error).__name__}: {_reason_of(error)}") from error


def read_bytes(image: ImageRef) -> bytes:
    """The bytes of an image, wherever they are; OSError or ImageError when they cannot be read."""
    if image.data is not None:
        return image.data
    if image.member is not None:
        raise OSError(f"{image}: a member of a shard is read only while its shard streams past")
    if is_url(image.location):
        with open_image(image) as stream:
            return stream.read()
    with _open_raw(image.location) as raw:
        return raw.read()


def read_lines(
    location: str, problems: Problems, *, encoding: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line, without its line end.

    A file that cannot be opened or ends early is reported; the lines before are given.
    """
    number = 0
    try:
        with open_binary(location) as stream:
            for number, line in enumerate(decoded(location, stream, encoding), 1):
                yield number, line.rstrip("\r\n")
    except READ_ERRORS as error:
        report_read_error(location, error, problems, after=f"after line {number}")


def read_text(location: str, *, encoding: str = "utf-8", limit: int | None = None) -> str:
    """A text file, or about its first `limit` bytes; of a damaged gzip, what is before the damage.

    A file that cannot be opened is a CorpusError.
    """
    data = bytearray()  # read1: what was there before an error is kept
    try:
        with open_binary(location) as stream:
            while (limit is None or len(data) < limit) and (piece := stream.read1(1 << 16)):
                data += piece
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass  # what the cut spoils is found, and named, by whoever parses the text
    except FileNotFoundError as error:
        raise CorpusError(f"{location}: no such file; {whence(location)}") from error
    except OSError as error:
        raise CorpusError(f"{location}: cannot be read ({_reason_of(error)}); check it") from error
    return decoded(location, io.BufferedReader(io.BytesIO(data)), encoding).read()


def decoded(
    location: str, stream: io.BufferedReader, encoding: str, *, newline: str = "\n"
) -> io.TextIOWrapper:
    """Text of a stream; bytes that are not of the encoding become lone surrogates."""
    codec = _codec(location, stream, encoding)
    return io.TextIOWrapper(stream, codec, "surrogateescape", newline=newline)


def report_read_error(
    location: str, error: BaseException, problems: Problems, *, after: str
) -> None:
    """Name a failed read by what it was: absent, cut short, or damaged."""
    if isinstance(error, EOFError):
        problems.add(Kind.TRUNCATED_FILE, location, f"the file ends {after}, in mid-stream")
    elif isinstance(error, (zlib.error, gzip.BadGzipFile)):
        problems.add(Kind.DAMAGED_FILE, location, f"{_reason_of(error)} {after}")
    else:
        problems.add(Kind.UNREADABLE_FILE, location, f"{_reason_of(error)} {after}")


def _codec(location: str, stream: io.BufferedReader, encoding: str) -> str:
    """The codec to use: UTF-8 without its byte-order mark; UTF-16 unasked is refused."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError as error:
        raise CorpusError(
            f"encoding {encoding!r} is not known to Python; try 'utf-8' or 'latin-1'"
        ) from error
    start = stream.peek(4)[:2]
    if name == "utf-8" and start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise CorpusError(
            f"{location}: starts with a UTF-16 byte-order mark, expected UTF-8; "
            "save it as UTF-8 ('data inspect' and 'data convert' also take --set encoding=utf-16)"
        )
    return "utf-8-sig" if name == "utf-8" else name


def _reason_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
