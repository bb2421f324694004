"""Saved rows -> the paper's tables (section 6), ours beside the published figures.

A cell without a saved value reads `open`; a published figure stands only in a column or row
that says `paper`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sightwords.errors import ScoreError
from sightwords.evaluate.grid import Grid
from sightwords.evaluate.published import (
    COCO,
    PARTS_OF_SPEECH,
    PASCAL,
    SYSTEMS,
    WORD_COUNTS,
    WORDS,
    Values,
)
from sightwords.evaluate.rows import HUMAN_STUDY, HumanRow, Row, read_human_row, read_rows

OPEN = "open"
NOT_GIVEN = "–"
"""The paper prints no figure there."""

LABELS = {
    "pplx": "PPLX",
    "bleu_1": "BLEU-1",
    "bleu_4": "BLEU-4",
    "meteor": "METEOR",
    "rouge_l": "ROUGE-L",
    "cider": "CIDEr",
    "same_as_human": "≈human",
    "better_than_human": ">human",
    "same_or_better": "≥human",
}


def paper_tables(folder: str | Path, *, studies: Sequence[str | Path] = ()) -> tuple[Grid, ...]:
    """Word detection, caption systems, COCO and PASCAL, from the rows under `folder`.

    `studies` are results files of human studies: they alone fill the columns that people fill.

    >>> import tempfile
    >>> tables = paper_tables(tempfile.mkdtemp())
    >>> tables[1].rows[0]  # nothing is saved: all open, the published figures beside
    ('Unconditioned', 'open', '24.1', 'open', '1.2', 'open', '6.8', 'open', '–', 'open', '–', \
'open', '–')
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ScoreError(
            f"{folder}: no such folder; save rows there first, with --set save_row=TABLE:SYSTEM"
        )
    return (
        words_table(read_rows(folder, "words")),
        systems_table(read_rows(folder, "systems"), studies=[read_human_row(s) for s in studies]),
        coco_table(read_rows(folder, "coco")),
        pascal_table(read_rows(folder, "pascal5"), read_rows(folder, "pascal50")),
    )


def words_table(rows: Mapping[str, Row]) -> Grid:
    """Table 3: AP and PHR by part of speech, a row of ours above the paper's."""
    classes = PARTS_OF_SPEECH
    keys = [f"{measure}_{pos.lower()}" for measure in ("ap", "phr") for pos in classes]
    header = ("", *(f"{m} {pos}" for m in ("AP", "PHR") for pos in classes))
    counts = [f"count_{pos.lower()}" for pos in classes]
    blank = ("",) * len(classes)
    body = [
        ("Count", *_first_counts(rows.values(), counts), *blank),
        ("Count (paper)", *map(str, WORD_COUNTS), *blank),
    ]
    last = "Human Agreement"
    order = [name for name in _systems(WORDS, rows) if name != last] + [last]
    for system in order:
        paper = WORDS.get(system, {})
        # A column the paper leaves empty for Chance and Human Agreement has no meaning there.
        meant = [key for key in keys if not paper or paper[key] is not None]
        ours = _cells(rows.get(system), keys)
        body.append((system, *(c if k in meant else "" for k, c in zip(keys, ours, strict=True))))
        if paper:
            body.append((f"{system} (paper)", *(_published(paper.get(k), blank="") for k in keys)))
    return Grid(
        header,
        tuple(body),
        title="Word detection: average precision and precision at human recall, %",
        notes=_notes(rows.values(), references=None),
    )


def systems_table(rows: Mapping[str, Row], *, studies: Sequence[HumanRow] = ()) -> Grid:
    """Table 4: eight systems and Human against 4 random references."""
    judged = {study.system: study.cells for study in studies}
    if len(judged) < len(studies):
        names = ", ".join(study.system for study in studies)
        raise ScoreError(f"two studies judge the same system ({names}); give one of them")
    keys = ("pplx", "bleu_4", "meteor", *HUMAN_STUDY)
    return _side_by_side(
        rows,
        SYSTEMS,
        keys,
        title="Caption generation: BLEU-4, METEOR against 4 random references, %; perplexity",
        notes=(
            "≈human, >human and ≥human are filled from a human study alone",
            *_notes(rows.values(), references="4"),
            *(f"{study.system}: {study.signature}" for study in studies),
        ),
        judged=judged,
    )


def coco_table(rows: Mapping[str, Row]) -> Grid:
    """Table 5: COCO against 5 references."""
    keys = ("cider", "bleu_4", "bleu_1", "rouge_l", "meteor")
    return _side_by_side(
        rows,
        COCO,
        keys,
        title="COCO against 5 references, %",
        notes=(
            "paper: 40,775 images of test2014 on the evaluation server, whose references are "
            "not public; ours: the images that each signature counts",
            *_notes(rows.values(), references="5"),
        ),
    )


def pascal_table(five: Mapping[str, Row], fifty: Mapping[str, Row]) -> Grid:
    """Section 6.3: PASCAL against 5 and 50 references, beside the published Midge row."""
    keys = ("bleu_4", "meteor")
    header = ["system"]
    for references in ("[5]", "[50]"):
        header += [f"{LABELS[key]} {references}" for key in keys]
    header += [f"{LABELS[key]} (paper)" for key in keys]
    body = [
        (
            system,
            *_cells(five.get(system), keys),
            *_cells(fifty.get(system), keys),
            *(_published(PASCAL.get(system, {}).get(key)) for key in keys),
        )
        for system in _systems(PASCAL, {**five, **fifty})
    ]
    return Grid(
        tuple(header),
        tuple(body),
        title="PASCAL sentences against 5 and 50 references, %",
        notes=(
            "paper: the 847 images that Midge and Baby Talk were tested on, 5 references; "
            "Baby Talk is left out, as in the paper, because its captions are several sentences",
            *_notes(five.values(), references="5"),
            *_notes(fifty.values(), references="50"),
        ),
    )


def _side_by_side(
    rows: Mapping[str, Row],
    paper: Mapping[str, Values],
    keys: Sequence[str],
    *,
    title: str,
    notes: Sequence[str],
    judged: Mapping[str, Mapping[str, str]] | None = None,
) -> Grid:
    """Each measure of ours with the paper's figure in the next column."""
    people = judged or {}
    header = ["system"]
    for key in keys:
        header += [LABELS[key], "paper"]
    body = []
    for system in _systems(paper, (*rows, *people)):
        cells = zip(keys, _cells(rows.get(system), keys), strict=True)
        ours = [people.get(system, {}).get(key, cell) for key, cell in cells]
        theirs = [_published(paper.get(system, {}).get(key)) for key in keys]
        pairs = zip(ours, theirs, strict=True)
        body.append((system, *(cell for pair in pairs for cell in pair)))
    return Grid(tuple(header), tuple(body), title=title, notes=tuple(notes))


def _systems(paper: Iterable[str], rows: Iterable[str]) -> list[str]:
    """The paper's systems in its order, then any others that were saved."""
    return list(dict.fromkeys((*paper, *rows)))


def _cells(row: Row | None, keys: Sequence[str]) -> list[str]:
    values = row.values if row else {}
    return [
        OPEN if key in HUMAN_STUDY or key not in values else _ours(key, values[key]) for key in keys
    ]


def _ours(key: str, value: float) -> str:
    return f"{value:.1f}" if key == "pplx" else f"{100 * value:.1f}"


def _published(value: float | None, *, blank: str = NOT_GIVEN) -> str:
    return blank if value is None else f"{value:.1f}"


def _first_counts(rows: Iterable[Row], counts: Sequence[str]) -> list[str]:
    for row in rows:
        if all(key in row.values for key in counts):
            return [f"{row.values[key]:.0f}" for key in counts]
    return [OPEN] * len(counts)


def _notes(rows: Iterable[Row], *, references: str | None) -> tuple[str, ...]:
    """A warning for each row measured with another number of references, then one signature each.

    A signature's images and references apply to the whole row, so one per row is enough.
    """
    notes = []
    for row in rows:
        if not row.signatures:
            continue
        line = next(iter(row.signatures.values()))
        found = re.search(r"\|refs:([0-9-]+)", line)
        if references and found and found[1] != references:
            notes.append(f"{row.system}: measured with {found[1]} references, not {references}")
        notes.append(f"{row.system}: {line}")
    return tuple(notes)
