"""Mechanical Turk: writes HTML forms with CSV files and HTMLQuestion files, reads the results.

One HIT is one seat with one assignment, so that every judge has a different order. The files hold
captions and random keys; nothing shows which system wrote a caption or which pairs are check cases.
The photos have random names and must be served at `image_base_url`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from sightwords.errors import StudyError
from sightwords.evaluate.grid import csv_text
from sightwords.evaluate.results import read_text
from sightwords.files import write_text
from sightwords.strict_json import loads
from sightwords.study.model import CHOICES, Showing
from sightwords.study.platforms.seats import Imported, Record

QUESTION_SCHEMA = (
    "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
)
ANSWERS_SCHEMA = (
    "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/"
    "QuestionFormAnswers.xsd}"
)


def write_turk(
    folder: Path, seats: Sequence[Sequence[Showing]], photo_urls: Sequence[Sequence[str]]
) -> list[Path]:
    """Write layout-N.html and input-N.csv for seats of N pairs, and hits/*.xml for the API."""
    written = []
    for size in sorted({len(seat) for seat in seats}):
        chosen = [n for n, seat in enumerate(seats) if len(seat) == size]
        layout = folder / f"layout-{size}.html"
        write_text(layout, form_html(size))
        table = folder / f"input-{size}.csv"
        rows = [_row(seats[n], photo_urls[n]) for n in chosen]
        write_text(table, csv_text([list(rows[0]), *(list(row.values()) for row in rows)]))
        written += [layout, table]
    for number, (seat, urls) in enumerate(zip(seats, photo_urls, strict=True), start=1):
        path = folder / "hits" / f"{number:04}.xml"
        write_text(path, question_xml(_filled(form_html(len(seat)), _row(seat, urls))))
    return written


def form_html(size: int) -> str:
    """The form of one HIT; Mechanical Turk replaces `${name}` by the CSV column of that name."""
    items = "\n".join(_item_html(n) for n in range(1, size + 1))
    return _FORM.format(items=items)


def question_xml(html: str) -> str:
    """An HTMLQuestion for `CreateHIT`."""
    body = html.replace("]]>", "]]]]><![CDATA[>")
    return (
        f'<HTMLQuestion xmlns="{QUESTION_SCHEMA}">\n<HTMLContent><![CDATA[{body}]]></HTMLContent>\n'
        "<FrameHeight>0</FrameHeight>\n</HTMLQuestion>\n"
    )


def read_turk(path: str | Path, done: Imported) -> Iterator[Record]:
    """Answers from the results CSV of a batch, or from JSONL of assignments from the API.

    Rejected assignments and unanswered questions are counted in `done.skipped`.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        yield from _api_records(text, str(path), done)
        return
    rows = csv.DictReader(io.StringIO(text, newline=""))
    names = set(rows.fieldnames or ())
    if not {"WorkerId", "Input.key_1"} <= names:
        raise StudyError(
            f"{path}: no columns WorkerId and Input.key_1; expected the results CSV of a batch "
            "from an export of this study"
        )
    for number, row in enumerate(rows, start=2):
        where = f"{path}, line {number}"
        if (row.get("AssignmentStatus") or "") == "Rejected":
            done.skipped["rejected assignment"] += 1
            continue
        answers = _answers_of_row(row, where)
        keys = {n: row.get(f"Input.key_{n}") or "" for n in range(1, len(names))}
        yield from _records(
            {f"choice_{n}": key for n, key in keys.items() if key},
            answers, row["WorkerId"] or "", where, done,
        )  # fmt: skip


def _records(
    keys: dict[str, str], answers: dict[str, str], worker: str, where: str, done: Imported
) -> Iterator[Record]:
    if not worker:
        raise StudyError(f"{where}: no WorkerId, which tells judges apart")
    for name, key in keys.items():
        choice = answers.get(name, "")
        if choice:
            yield Record(where, key, f"mturk:{worker}", choice)
        else:
            done.skipped["unanswered question"] += 1


def _answers_of_row(row: dict[str, str], where: str) -> dict[str, str]:
    """`choice_N` -> choice, from columns, or from the JSON of forms with crowd elements."""
    packed = row.get("Answer.taskAnswers")
    if not packed:
        return {n.removeprefix("Answer."): v for n, v in row.items() if n.startswith("Answer.")}
    try:
        [content] = loads(packed)
        return {
            name: value if isinstance(value, str) else next(k for k, on in value.items() if on)
            for name, value in content.items()
        }
    except (ValueError, TypeError, AttributeError, StopIteration) as error:
        raise StudyError(f"{where}: cannot read Answer.taskAnswers ({error!r})") from error


def _api_records(text: str, path: str, done: Imported) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            assignment = loads(line)
            root = ElementTree.fromstring(assignment["Answer"])
            worker = str(assignment["WorkerId"])
        except (ValueError, KeyError, TypeError, ElementTree.ParseError) as error:
            raise StudyError(
                f"{where}: not an assignment ({error!r}); expected an object with WorkerId and "
                "Answer on each line, as from list_assignments_for_hit"
            ) from error
        if assignment.get("AssignmentStatus") == "Rejected":
            done.skipped["rejected assignment"] += 1
            continue
        found = {
            (answer.findtext(f"{ANSWERS_SCHEMA}QuestionIdentifier") or ""): (
                answer.findtext(f"{ANSWERS_SCHEMA}FreeText") or ""
            )
            for answer in root.iter(f"{ANSWERS_SCHEMA}Answer")
        }
        keys = {
            f"choice_{name.removeprefix('key_')}": value
            for name, value in found.items()
            if name.startswith("key_")
        }
        yield from _records(keys, found, worker, where, done)


def _row(seat: Sequence[Showing], urls: Sequence[str]) -> dict[str, str]:
    """One row of the CSV, escaped because Mechanical Turk pastes values into HTML as they are."""
    row: dict[str, str] = {}
    for n, (showing, url) in enumerate(zip(seat, urls, strict=True), start=1):
        row[f"key_{n}"] = showing.key
        row[f"image_{n}"] = escape(url, quote=True)
        row[f"first_{n}"] = escape(showing.first)
        row[f"second_{n}"] = escape(showing.second)
    return row


def _filled(html: str, row: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: row[found[1]], html)


def _item_html(n: int) -> str:
    texts = (f"${{first_{n}}}", "Equally good or equally bad", f"${{second_{n}}}")
    answers = "\n".join(
        f'<label><input type="radio" name="choice_{n}" value="{choice}" required> {text}</label>'
        for choice, text in zip(CHOICES, texts, strict=True)
    )
    return (
        f"<fieldset>\n<legend>{n}. Which caption describes the photo better?</legend>\n"
        f'<img src="${{image_{n}}}" alt="Photo">\n'
        f'<input type="hidden" name="key_{n}" value="${{key_{n}}}">\n{answers}\n</fieldset>'
    )


_FORM = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Compare captions of photos</title>
<script src="https://s3.amazonaws.com/mturk-public/externalHIT_v1.js"></script>
<style>
body {{ font: 1rem/1.5 sans-serif; max-width: 46rem; margin: 1rem auto; padding: 0 1rem; }}
fieldset {{ margin: 0 0 1.5rem; border: 1px solid #999; border-radius: .5rem; }}
img {{ display: block; max-width: 100%; max-height: 24rem; margin: .5rem auto; }}
label {{ display: block; padding: .5rem; }}
</style></head><body>
<p>For each photo, select the caption that describes it better, or select that both are equally good
or bad. Some answers are known and will be checked.</p>
<form name="mturk_form" method="post" id="mturk_form" action="https://www.mturk.com/mturk/externalSubmit">
<input type="hidden" value="" name="assignmentId" id="assignmentId">
{items}
<p><input type="submit" id="submitButton" value="Submit"></p>
</form>
<script>if (window.turkSetAssignmentID) {{ turkSetAssignmentID(); }}</script>
</body></html>
"""
