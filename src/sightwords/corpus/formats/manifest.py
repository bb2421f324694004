"""A user's own list: JSON lines, CSV or TSV of image and caption; or plain sentences.

    image,caption                         {"image": "dog.jpg", "captions": ["A dog.", "Dogs!"]}
    dog.jpg,A dog on a lawn.              {"id": "000000000009", "captions": ["A meal."]}

Column names are found by what people call them (`IMAGE_COLUMNS`, ...) or given. Rows of one image
are merged wherever they stand. Rows without an image are text for the language model, unless an
image folder is given: then the image is looked up by id. A `.txt` holds one sentence per line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sightwords.corpus.folder import ImageFolder, parent, stem
from sightwords.corpus.formats.table import delimiter_of, table_cells
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.records import Located, Row, captions_of, merged, text_of, with_images
from sightwords.corpus.sources import (
    READ_ERRORS,
    decoded,
    open_binary,
    read_lines,
    report_read_error,
)
from sightwords.strict_json import loads
from sightwords.types import Example

IMAGE_COLUMNS = (
    "image", "image_path", "file_name", "filename", "filepath", "image_name", "path", "img", "file",
)  # fmt: skip
CAPTION_COLUMNS = (
    "captions", "caption", "text", "sentence", "sentences", "comment", "description", "raw",
)  # fmt: skip
ID_COLUMNS = ("id", "image_id", "key", "imgid", "cocoid")


@dataclass(frozen=True, slots=True)
class Columns:
    """Names given by the user; None where they are to be found."""

    image: str | None = None
    captions: tuple[str, ...] | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """Which columns of one file, or keys of one JSON row, hold what; `` or () when none does."""

    image: str
    captions: tuple[str, ...]
    id: str


def find_fields(names: Sequence[str], columns: Columns = Columns()) -> Fields:  # noqa: B008
    """Match a header's names, capitals and spaces aside, to what they hold.

    >>> find_fields(["image_name", " comment_number", " comment"])
    Fields(image='image_name', captions=(' comment',), id='')
    """
    plain = {name.strip().lower(): name for name in reversed(names)}
    wanted = CAPTION_COLUMNS if columns.captions is None else columns.captions
    captions = [plain[key.lower()] for key in wanted if key.lower() in plain]
    if columns.captions is None:
        captions = captions[:1] or [n for k, n in sorted(plain.items()) if _is_numbered(k)]
    return Fields(
        image=_first(plain, IMAGE_COLUMNS if columns.image is None else (columns.image,)),
        captions=tuple(captions),
        id=_first(plain, ID_COLUMNS if columns.id is None else (columns.id,)),
    )


def _first(plain: Mapping[str, str], wanted: Iterable[str]) -> str:
    return next((plain[key.lower()] for key in wanted if key.lower() in plain), "")


def _is_numbered(name: str) -> bool:
    """`caption_0`, `caption1`: several captions in one row."""
    return name.startswith("caption") and name[7:].lstrip("_ ").isdecimal()


def read_manifest(
    location: str,
    problems: Problems,
    *,
    images: str | None = None,
    columns: Columns = Columns(),  # noqa: B008
    encoding: str = "utf-8",
) -> Iterator[Located]:
    """Examples of a JSONL, CSV or TSV manifest; image paths are relative to it or to `images`."""
    name = location.removesuffix(".gz").lower()
    read = _json_rows if name.endswith((".jsonl", ".ndjson", ".json")) else _table_rows
    rows = merged(partial(read, location, columns, encoding), problems)
    folder = ImageFolder(images or parent(location))
    for row in rows:
        is_text = not row.image and images is None
        yield from with_images([row], None if is_text else folder, problems)


def read_sentences(
    location: str, problems: Problems, *, encoding: str = "utf-8"
) -> Iterator[Located]:
    """Language model text, one sentence per line; ids are `NAME:LINE`. Blank lines are skipped."""
    name = stem(location)
    for number, line in read_lines(location, problems, encoding=encoding):
        if line.strip():
            example = Example(f"{name}:{number}", None, (line,), "", name)
            yield f"{location}:{number}", example


def _json_rows(location: str, columns: Columns, encoding: str, problems: Problems) -> Iterator[Row]:
    for number, line in read_lines(location, problems, encoding=encoding):
        where = f"{location}:{number}"
        if not line.strip():
            continue
        try:
            values = loads(line, finite=False)
        except ValueError as error:
            problems.add(Kind.MALFORMED_RECORD, where, f"not JSON: {error}")
            continue
        if isinstance(values, dict):
            yield from _row(where, values, find_fields(list(values), columns), location, problems)
        else:
            found = f"expected an object, got {type(values).__name__}"
            problems.add(Kind.MALFORMED_RECORD, where, found)


def _table_rows(
    location: str, columns: Columns, encoding: str, problems: Problems
) -> Iterator[Row]:
    number = 0
    try:
        with open_binary(location) as stream:
            text = decoded(location, stream, encoding, newline="")
            header_line = text.readline()
            delimiter = delimiter_of(header_line)
            header = _header(header_line, delimiter)
            fields = find_fields(header, columns)
            if not fields.captions or not (fields.image or fields.id):
                found = f"columns {', '.join(map(repr, header)) or 'none'}"
                problems.add(Kind.MISSING_COLUMNS, f"{location}:1", found)
                return
            for number, cells in table_cells(text, delimiter, len(header)):
                where = f"{location}:{number}"
                if isinstance(cells, str):
                    problems.add(Kind.MALFORMED_RECORD, where, cells)
                    continue
                values = dict(zip(header, cells, strict=True))
                yield from _row(where, values, fields, location, problems)
    except READ_ERRORS as error:
        report_read_error(location, error, problems, after=f"after line {number}")


def _header(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # Python 3.10 refuses NUL; taken for one odd name, it is named as found
        return [line.strip()]


def _row(
    where: str, values: Mapping[str, Any], fields: Fields, location: str, problems: Problems
) -> Iterator[Row]:
    captions: tuple[str, ...] = ()
    for name in fields.captions:
        found = captions_of(values[name])
        if found is None and values[name] is not None:
            problems.add(Kind.MALFORMED_RECORD, where, f"{name!r} is not text or a list of text")
            return
        captions += found or ()
    image = text_of(values.get(fields.image))
    image_id = text_of(values.get(fields.id)) or without_ending(image)
    if not image_id or (fields.image and not image):
        problems.add(Kind.CAPTION_WITHOUT_IMAGE, where, "the row names no image")
        return
    split, dataset = text_of(values.get("split")), text_of(values.get("dataset"))
    yield Row(where, image_id, image, captions, split, dataset or stem(location))


def without_ending(path: str) -> str:
    """An id from a path: its ending off, its folders kept, because names repeat between folders.

    >>> without_ending("holiday/IMG_1.jpg"), without_ending("v1.0/IMG_1")
    ('holiday/IMG_1', 'v1.0/IMG_1')
    """
    folder, slash, name = path.replace("\\", "/").rpartition("/")
    return folder + slash + (name.rpartition(".")[0] or name)
