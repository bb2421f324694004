"""Results files in: one caption per image from a captioning system.

Three forms, told apart by how the text begins; each may be gzipped:

- COCO results JSON: `[{"image_id": 9, "caption": "a dog"}, ...]`;
- JSONL: one object per line with the caption under `caption` and the image under `id`, `image_id`,
  `key` or `image`; other fields are ignored;
- CSV: a first line that names the columns, as JSONL names its fields.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sightwords.corpus.ids import canonical_id
from sightwords.errors import ScoreError
from sightwords.strict_json import loads, reason_of

LARGEST_BYTES = 1 << 30
"""Of a results file, unpacked: 5 million captions take about half of it."""
ID_FIELDS = ("id", "image_id", "key", "image")
"""Where the id of a record may stand, in order of preference."""


def read_results(path: str | Path) -> dict[str, str]:
    """Captions by canonical image id, in the order of the file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results.json"
    >>> _ = path.write_text('[{"image_id": 9, "caption": "a dog"}]')
    >>> read_results(path)
    {'9': 'a dog'}
    """
    return collect_results(read_records(path), where=str(path))


def collect_results(
    records: Iterable[tuple[str, Mapping[str, Any]]], *, where: str
) -> dict[str, str]:
    """Captions by canonical id out of (place, record) pairs; a repeated image is refused.

    The COCO tools refuse two captions for one image, because which of them was scored would
    depend on the order of the file. Two equal ones are refused as well: they mean that the
    program that wrote the file visited an image twice.
    """
    captions: dict[str, str] = {}
    first_place: dict[str, str] = {}
    for place, record in records:
        key = canonical_id(record_id(record, where=f"{where}, {place}"))
        caption = record.get("caption")
        if not isinstance(caption, str):
            raise ScoreError(
                f"{where}, {place}: 'caption' is {_kind(caption)}, expected a string; "
                "write one caption per image (an empty string for none, which scores 0)"
            )
        if key in captions:
            raise ScoreError(
                f"{where}, {place}: image {key!r} already has a caption ({first_place[key]}); "
                "results hold one caption per image, so remove the other"
            )
        captions[key], first_place[key] = caption, place
    if not captions:
        raise ScoreError(f"{where}: no captions in it; expected at least one result")
    return captions


def record_id(record: Mapping[str, Any], *, where: str) -> int | str:
    """The id of one record, from the first of `ID_FIELDS` it has.

    >>> record_id({"image_id": 9, "caption": "a dog"}, where="line 1")
    9
    """
    for field in ID_FIELDS:
        value = record.get(field)
        if isinstance(value, (int, str)) and not isinstance(value, bool) and value != "":
            return value
        if value is not None:
            raise ScoreError(
                f"{where}: {field!r} is {_kind(value)}, expected an integer or a string"
            )
    raise ScoreError(
        f"{where}: no image id; expected one of {', '.join(ID_FIELDS)}, found "
        f"{', '.join(sorted(map(str, record))) or 'nothing'}"
    )


def read_records(path: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, object) for each element of a JSON array, line of a JSONL file or row of a CSV."""
    text = read_text(path)
    start = text.lstrip()[:1]
    if start == "[":
        yield from _array_records(text, where=str(path))
    elif start == "{":
        yield from _line_records(text, where=str(path))
    elif "caption" in text.partition("\n")[0].replace('"', "").strip().split(","):
        yield from _csv_records(text, where=str(path))
    elif not start:
        raise ScoreError(f"{path}: is empty; expected at least one result")
    else:
        raise ScoreError(
            f"{path}: starts with {start!r}, expected '[' (a COCO results array), '{{' (JSONL), or "
            "the names of CSV columns, 'caption' among them"
        )


def _csv_records(text: str, *, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for record in reader:
            yield f"line {reader.line_num}", record
    except csv.Error as error:
        raise ScoreError(f"{where}, line {reader.line_num + 1}: is not CSV ({error})") from error


def read_text(path: str | Path) -> str:
    """A UTF-8 text file, gzipped or not, with errors that name the file."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as unzipped:
                data = unzipped.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise ScoreError(f"{path}: is larger than {LARGEST_BYTES:,} bytes; split the file")
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ScoreError(f"{path}: cannot be read ({reason}); check the path") from error
    except UnicodeDecodeError as error:
        raise ScoreError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from error
    except ScoreError:
        raise
    except ValueError as error:  # a null character in the path
        raise ScoreError(f"{str(path)!r}: cannot be read ({error}); check the path") from error


def _array_records(text: str, *, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        array = loads(text, finite=False)
    except ValueError as error:
        raise ScoreError(f"{where}: not valid JSON: {error}; was it cut short?") from error
    for number, item in enumerate(array):
        if not isinstance(item, dict):
            raise ScoreError(f"{where}, element {number}: {_kind(item)}, expected an object")
        yield f"element {number}", item


def _line_records(text: str, *, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = loads(line, finite=False)
        except ValueError as error:
            raise ScoreError(
                f"{where}, line {number}: not a JSON object ({reason_of(error)}); expected one "
                'object per line, such as {"id": "9", "caption": "a dog"}'
            ) from error
        if not isinstance(item, dict):
            raise ScoreError(f"{where}, line {number}: {_kind(item)}, expected an object")
        if "annotations" in item:
            raise ScoreError(
                f"{where}: these are COCO annotations (references), expected results: a JSON array "
                "of {image_id, caption}; give this file as --references"
            )
        yield f"line {number}", item


def _kind(value: object) -> str:
    """What was found, for messages: `missing`, `a list`, `a number`."""
    names = {
        type(None): "missing or null",
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "an empty string" if value == "" else "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)
