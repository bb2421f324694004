"""Reads the body of a request into memory; nothing is written to disk.

    multipart/form-data                  files `image`, fields `sentence`
    image/..., application/octet-stream  one photo

Every limit is checked while the bytes arrive.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from sightwords.web.errors import BUSY, ApiError, RequestRefusedError, invalid
from sightwords.web.limits import MEGABYTE, Limits
from sightwords.web.schema import HAS_WORDS, MAX_SENTENCE_LENGTH

MAX_SENTENCE_BYTES = 4096
MAX_NAME_LENGTH = 100
# It logs a warning for each broken form: strangers could fill the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)

CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1")


@dataclass(frozen=True, slots=True)
class Photo:
    """A file that a client sent."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """What a request contains besides its address."""

    photos: tuple[Photo, ...]
    sentences: tuple[str, ...] = ()


@dataclass
class HeldBytes:
    """The bytes in memory of all current requests; used by one event loop, so it has no lock."""

    limit: int
    now: int = field(default=0, init=False)

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """One request's share, released at the end."""
        share = Hold(self)
        try:
            yield share
        finally:
            self.now -= share.size


@dataclass
class Hold:
    """One request's share."""

    held: HeldBytes
    size: int = 0

    def add(self, count: int) -> None:
        """Count more bytes; raises `RequestRefusedError` if all requests together hold too many."""
        if self.held.now + count > self.held.limit:
            raise RequestRefusedError(BUSY)
        self.held.now += count
        self.size += count


async def read_body(request: Request, limits: Limits, hold: Hold) -> Body:
    """Read and check a body within the time limit."""
    try:
        return await asyncio.wait_for(_read(request, limits, hold), limits.seconds)
    except asyncio.TimeoutError:
        message = f"the body did not arrive within {limits.seconds:g} seconds"
        raise RequestRefusedError(ApiError(408, "too_slow", message)) from None


async def _read(request: Request, limits: Limits, hold: Hold) -> Body:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    stream = _limited(request, limits, hold)
    if kind == "multipart/form-data":
        return await _multipart(request, stream, limits)
    if kind.startswith("image/") or kind == "application/octet-stream":
        data = b"".join([chunk async for chunk in stream])
        return Body((Photo("photo", data),))
    message = (
        f"Content-Type is {kind or 'missing'!r:.80}; send multipart/form-data with files 'image' "
        "(curl -F image=@cat.jpg), or one photo with Content-Type: image/jpeg"
    )
    raise RequestRefusedError(ApiError(415, "unsupported_body", message))


async def _limited(request: Request, limits: Limits, hold: Hold) -> AsyncGenerator[bytes, None]:
    most = limits.body_bytes
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > most:
        raise _too_large(most)
    async for chunk in request.stream():
        if hold.size + len(chunk) > most:
            raise _too_large(most)
        hold.add(len(chunk))
        yield chunk


def _too_large(most: int) -> RequestRefusedError:
    message = f"the body is over {most / MEGABYTE:g} MB; send fewer or smaller files"
    return RequestRefusedError(ApiError(413, "too_large", message))


class _InMemory(MultiPartParser):
    spool_max_size = 1 << 62  # never on disk: the stream itself is limited


async def _multipart(request: Request, stream: AsyncGenerator[bytes, None], limits: Limits) -> Body:
    _check_charset(request)
    parser = _InMemory(
        request.headers,
        stream,
        max_files=limits.images,
        max_fields=limits.sentences,
        max_part_size=MAX_SENTENCE_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        code = "too_many" if error.message.startswith("Too many") else "bad_body"
        raise _bad_form(error.message, code) from error
    except ValueError as error:  # a boundary or header that the parser does not expect
        raise _bad_form("cannot be read") from error
    try:
        return await _body(form)
    finally:
        await form.close()


def _bad_form(reason: str, code: str = "bad_body") -> RequestRefusedError:
    return RequestRefusedError(ApiError(400, code, f"multipart/form-data: {reason}"))


def _check_charset(request: Request) -> None:
    """Accept common charsets only: some of Python's fail, or decode to invalid text."""
    try:
        _, options = parse_options_header(request.headers["content-type"])
        charset = options.get(b"charset", b"utf-8").decode("ascii")
    except ValueError:
        charset = "?"
    if charset.lower() not in CHARSETS:
        raise _bad_form(f"the charset is {charset[:40]!r}; send utf-8")


async def _body(form: FormData) -> Body:
    photos, sentences = [], []
    for name, value in form.multi_items():
        if name == "image" and isinstance(value, UploadFile):
            photos.append(Photo(_label(value.filename), await value.read()))
        elif name == "sentence" and isinstance(value, str):
            sentences.append(_sentence(value))
        else:
            kind = "file" if isinstance(value, UploadFile) else "field"
            raise invalid(
                f"the form has an unknown {kind} {name[:40]!r}; expected files 'image' and fields "
                "'sentence' (options go into the address: ?require=dog)"
            )
    if not photos:
        message = "the form has no file 'image'; add at least one"
        raise RequestRefusedError(ApiError(422, "no_image", message))
    return Body(tuple(photos), tuple(sentences))


def _sentence(text: str) -> str:
    if len(text) > MAX_SENTENCE_LENGTH:
        raise invalid(f"the sentence {text[:60]!r}... is over {MAX_SENTENCE_LENGTH} characters")
    if not re.search(HAS_WORDS, text):
        raise invalid(f"the sentence {text[:60]!r} has no words; leave it out")
    return text


def _label(name: str | None) -> str:
    r"""A client's file name as a label, printable and short; it is never opened.

    >>> _label("../../etc/passwd"), _label("C:\\photos\\cat\n.jpg"), _label("")
    ('passwd', 'cat?.jpg', 'photo')
    """
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    shown = "".join(letter if letter.isprintable() else "?" for letter in last)
    return shown[:MAX_NAME_LENGTH] or "photo"
