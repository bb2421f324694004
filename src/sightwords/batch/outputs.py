"""From the journal's records to one results file: JSONL, COCO results, CSV or Parquet.

The file appears under its name only when it is whole. Formats with one file per photo are in
`photo_files`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, get_args

from sightwords.batch.parquet import read_parquet, write_parquet
from sightwords.batch.records import Record, is_record
from sightwords.corpus.folder import is_image_name
from sightwords.errors import InputError
from sightwords.files import atomic_path, write_text

Format = Literal["jsonl", "coco", "csv", "parquet", "txt", "xmp", "embedded"]
FORMATS: tuple[str, ...] = get_args(Format)
FILE_PER_PHOTO: frozenset[str] = frozenset(("txt", "xmp", "embedded"))
"""Formats that write one file per photo into a folder."""

_CSV_FIELDS = ("id", "caption", "confidence", "words")


def format_of(out: str) -> Format:
    """The format that a file name asks for; a name without ending is a folder of texts.

    >>> [format_of(name) for name in ("captions.jsonl", "results.json", "c.csv", "captions")]
    ['jsonl', 'coco', 'csv', 'txt']
    """
    endings: dict[str, Format] = {
        ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "coco", ".csv": "csv",
        ".parquet": "parquet", "": "txt",
    }  # fmt: skip
    ending = Path(out).suffix.lower()
    if ending not in endings:
        raise InputError(
            f"{out}: no format has the ending {ending!r}; use .jsonl, .json (for COCO), "
            f".csv or .parquet, or give --format {'|'.join(FORMATS)}"
        )
    return endings[ending]


def write_results(path: Path, kind: Format, records: Iterable[Record]) -> None:
    """Write captions as one file, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        _WRITERS[kind](stream, map(without_sum, records))


def read_results(path: Path, kind: Format) -> Iterator[Record]:
    """What an earlier run wrote, as records: these images need no caption."""
    for number, record in enumerate(_read(path, kind), 1):
        if not is_record(record):
            raise _not_ours(path, kind, f"record {number} has no id and caption of text")
        yield record


def _not_ours(path: Path, kind: Format, why: object) -> InputError:
    return InputError(
        f"{path}: is not a {kind} file written by a batch ({why}); give another --out, or "
        "replace it with --overwrite always"
    )


def _read(path: Path, kind: Format) -> Iterator[Record]:
    try:
        if kind == "parquet":
            yield from read_parquet(path)
            return
        if kind == "coco":
            results = json.loads(path.read_bytes())
            yield from ({"id": str(r["image_id"]), "caption": r["caption"]} for r in results)
        elif kind == "csv":
            with path.open(encoding="utf-8", newline="") as text:
                yield from map(_from_csv, csv.DictReader(text))
        else:
            with path.open("rb") as lines:  # bytes: text has several line ends
                yield from (json.loads(line) for line in lines if line.strip())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise _not_ours(path, kind, f"{error!r:.200}") from error


def without_sum(record: Record) -> Record:
    """A record as users see it: the sum of the photo's bytes is only for later runs."""
    return {name: value for name, value in record.items() if name != "sha256"}


def write_errors(path: Path, records: Iterable[Record]) -> None:
    """List the photos that could not be captioned, one JSON object per line; no errors, no file."""
    lines = [json.dumps(without_sum(record), ensure_ascii=True) + "\n" for record in records]
    if lines:
        write_text(path, "".join(lines))
    else:
        path.unlink(missing_ok=True)


def result_id(image_id: str) -> int | str:
    """COCO's number if the id is one; otherwise the id.

    >>> result_id("000000000009"), result_id("COCO_val2014_000000000009.jpg"), result_id("a.jpg")
    (9, 9, 'a.jpg')
    """
    stem = PurePosixPath(image_id).stem if is_image_name(image_id) else image_id
    digits = stem.rpartition("_")[2] if stem.startswith("COCO_") else stem
    return int(digits) if digits.isdecimal() and digits.isascii() else image_id


def _jsonl(stream: BinaryIO, records: Iterable[Record]) -> None:
    for record in records:
        stream.write(_utf8(json.dumps(record, ensure_ascii=False)) + b"\n")


def _coco(stream: BinaryIO, records: Iterable[Record]) -> None:
    """The form of the COCO tools: nothing but ids and captions."""
    between = b"["
    for record in records:
        result = {"image_id": result_id(record["id"]), "caption": record["caption"]}
        stream.write(between + _utf8(json.dumps(result, ensure_ascii=False)))
        between = b",\n"
    stream.write(b"]\n" if between != b"[" else b"[]\n")


def _csv(stream: BinaryIO, records: Iterable[Record]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(text, lineterminator="\n")
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(_CSV_FIELDS)
    for record in records:
        used = " ".join(word["word"] for word in record.get("words", ()) if word["used"])
        cells = [_as_text(record["id"]), _as_text(record["caption"])]
        # A carriage return ends a line for readers, and Python before 3.13 does not quote it.
        chosen = quoting if "\r" in record["id"] else writer
        chosen.writerow([*cells, record["confidence"], _as_text(used)])
    text.flush()
    text.detach()


_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""What a spreadsheet would run; apostrophes before it are counted, so that all comes back."""


def _as_text(cell: str) -> str:
    """A cell that a spreadsheet shows and does not run: an apostrophe marks it as text.

    >>> _as_text("=1+1.jpg"), _from_text(_as_text("=1+1.jpg")), _as_text("a dog")
    ("'=1+1.jpg", '=1+1.jpg', 'a dog')
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _from_text(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _from_csv(row: dict[str, Any]) -> Record:
    words = [{"word": word, "used": True} for word in _from_text(row["words"]).split()]
    return {
        "id": _from_text(row["id"]),
        "caption": _from_text(row["caption"]),
        "confidence": float(row["confidence"]) if row["confidence"] else None,
        "words": words,
    }


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


_WRITERS: dict[str, Callable[[BinaryIO, Iterable[Record]], None]] = {
    "jsonl": _jsonl,
    "coco": _coco,
    "csv": _csv,
    "parquet": write_parquet,
}
