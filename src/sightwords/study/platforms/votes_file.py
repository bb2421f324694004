"""Votes collected elsewhere: CSV or JSONL with image, judge and answer (better, same, worse)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from sightwords.corpus.ids import canonical_id
from sightwords.errors import StudyError
from sightwords.evaluate.results import read_text
from sightwords.strict_json import loads, reason_of
from sightwords.study.model import ANSWERS
from sightwords.study.platforms.seats import ImageVote

FIELDS = ("image", "judge", "answer")


def read_votes(path: str | Path) -> Iterator[ImageVote]:
    """One vote per row; the answer is from the view of the system under test."""
    text = read_text(path)
    rows = _json_rows(text, path) if text.lstrip().startswith("{") else _csv_rows(text, path)
    for where, row in rows:
        missing = [name for name in FIELDS if row.get(name) in (None, "")]
        if missing:
            raise StudyError(f"{where}: no {missing[0]!r}; expected {', '.join(FIELDS)}")
        if row["answer"] not in ANSWERS:
            raise StudyError(
                f"{where}: the answer is {row['answer']!r}; expected {', '.join(ANSWERS)}"
            )
        judge = str(row["judge"])
        name = judge if ":" in judge else f"votes:{judge}"
        yield ImageVote(where, canonical_id(str(row["image"])), name, str(row["answer"]))


def _json_rows(text: str, path: str | Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                row = loads(line)
            except ValueError as error:
                raise StudyError(f"{where}: not a JSON object ({reason_of(error)})") from error
            if not isinstance(row, dict):
                raise StudyError(f"{where}: expected an object with {', '.join(FIELDS)}")
            yield where, row


def _csv_rows(text: str, path: str | Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), start=2):
            yield f"{path}, line {number}", row
    except csv.Error as error:
        raise StudyError(f"{path}: invalid CSV ({error})") from error
