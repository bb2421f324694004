"""A request's body -> photographs in memory; nothing is written to disk.

    multipart/form-data                  any number of files `image`, texts `sentence`
    image/..., application/octet-stream  one photograph, as it is

Every limit is checked while the bytes arrive, not after.
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

from sightwords.web.limits import MEGABYTE, Limits
from sightwords.web.problems import BUSY, Problem, Refused
from sightwords.web.schema import LONGEST_SENTENCE, SAYS_SOMETHING

LONGEST_SENTENCE_BYTES = 4096
LONGEST_NAME = 100
# It warns of each form that it cannot read: strangers could fill the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)

CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1")


@dataclass(frozen=True, slots=True)
class Photograph:
    """As a client sent it."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """What a request holds besides its address."""

    photographs: tuple[Photograph, ...]
    sentences: tuple[str, ...] = ()


@dataclass
class Held:
    """The bytes of all requests that are being read or wait; for one event loop, so no lock."""

    limit: int
    now: int = field(default=0, init=False)

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """A share of it, given back at the end, whatever happens."""
        share = Hold(self)
        try:
            yield share
        finally:
            self.now -= share.size


@dataclass
class Hold:
    """One request's share."""

    held: Held
    size: int = 0

    def add(self, count: int) -> None:
        """So many bytes more; raises `Refused` when all requests together hold too much."""
        if self.held.now + count > self.held.limit:
            raise Refused(BUSY)
        self.held.now += count
        self.size += count


async def read_body(request: Request, limits: Limits, hold: Hold) -> Body:
    """Read and check a body within the time limit."""
    try:
        return await asyncio.wait_for(_read(request, limits, hold), limits.seconds)
    except asyncio.TimeoutError:
        raise Refused(
            Problem(408, "too_slow", f"the body was not there within {limits.seconds:g} seconds")
        ) from None


async def _read(request: Request, limits: Limits, hold: Hold) -> Body:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    stream = _limited(request, limits, hold)
    if kind == "multipart/form-data":
        return await _multipart(request, stream, limits)
    if kind.startswith("image/") or kind == "application/octet-stream":
        data = b"".join([chunk async for chunk in stream])
        return Body((Photograph("photograph", data),))
    raise Refused(
        Problem(
            415,
            "unsupported_body",
            f"the body is {kind or 'of no kind'!r:.80}; send multipart/form-data with files "
            "'image' (curl -F image=@cat.jpg), or a photograph with Content-Type: image/jpeg",
        )
    )


async def _limited(request: Request, limits: Limits, hold: Hold) -> AsyncGenerator[bytes, None]:
    most = limits.body_bytes
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > most:
        raise Refused(_too_large(most))
    async for chunk in request.stream():
        if hold.size + len(chunk) > most:
            raise Refused(_too_large(most))
        hold.add(len(chunk))
        yield chunk


def _too_large(most: int) -> Problem:
    return Problem(
        413, "too_large", f"the body is over {most / MEGABYTE:g} MB; send fewer or smaller files"
    )


class _InMemory(MultiPartParser):
    spool_max_size = 1 << 62  # never on disk: the stream itself is limited


async def _multipart(request: Request, stream: AsyncGenerator[bytes, None], limits: Limits) -> Body:
    _check_charset(request)
    parser = _InMemory(
        request.headers,
        stream,
        max_files=limits.images,
        max_fields=limits.sentences,
        max_part_size=LONGEST_SENTENCE_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        code = "too_many" if error.message.startswith("Too many") else "bad_body"
        raise Refused(Problem(400, code, f"multipart/form-data: {error.message}")) from error
    except ValueError as error:  # a boundary or a header that the parser does not foresee
        raise Refused(Problem(400, "bad_body", "multipart/form-data: cannot be read")) from error
    async with _closing(form):
        return await _body(form)


def _check_charset(request: Request) -> None:
    """Refuse all but the usual ones: among Python's are some that fail, or make no valid text."""
    try:
        _, options = parse_options_header(request.headers["content-type"])
        charset = options.get(b"charset", b"utf-8").decode("ascii")
    except ValueError:
        charset = "?"
    if charset.lower() not in CHARSETS:
        message = f"multipart/form-data: the charset is {charset[:40]!r}; send utf-8"
        raise Refused(Problem(400, "bad_body", message))


class _closing:  # noqa: N801 - reads as a statement
    def __init__(self, form: FormData) -> None:
        self._form = form

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *error: object) -> None:
        await self._form.close()


async def _body(form: FormData) -> Body:
    photographs, sentences = [], []
    for name, value in form.multi_items():
        if name == "image" and isinstance(value, UploadFile):
            photographs.append(Photograph(_label(value.filename), await value.read()))
        elif name == "sentence" and isinstance(value, str):
            sentences.append(_sentence(value))
        else:
            kind = "a file" if isinstance(value, UploadFile) else "a text"
            raise Refused(
                Problem(
                    422,
                    "invalid",
                    f"the form has {kind} {name[:40]!r}; expected files 'image' and texts "
                    "'sentence' (all other wishes go into the address: ?require=dog)",
                )
            )
    if not photographs:
        raise Refused(Problem(422, "no_image", "the form has no file 'image'; add at least one"))
    return Body(tuple(photographs), tuple(sentences))


def _sentence(text: str) -> str:
    if len(text) > LONGEST_SENTENCE or not re.search(SAYS_SOMETHING, text):
        message = (
            f"the sentence {text[:60]!r} is too long, or has no words; shorten it or leave it out"
        )
        raise Refused(Problem(422, "invalid", message))
    return text


def _label(name: str | None) -> str:
    r"""A client's file name as a label: its last part, printable, not long; it opens nothing.

    >>> _label("../../etc/passwd"), _label("C:\\photos\\cat\n.jpg"), _label("")
    ('passwd', 'cat?.jpg', 'photograph')
    """
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    shown = "".join(letter if letter.isprintable() else "?" for letter in last)
    return shown[:LONGEST_NAME] or "photograph"
