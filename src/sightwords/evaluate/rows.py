"""One small JSON file per table row: `DIR/<table>/<system>.json`.

A row is written by the command that measured it (`--set save_row=TABLE:SYSTEM`) and read by
`sightwords evaluate tables`; nothing else puts a number into a table. Values are fractions
(0.257 for 25.7 %), perplexity as it is. The columns that people fill are read from the results.json
that `sightwords study results --out` writes; a study whose votes are not people's, or that compared
with anything but human captions, is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_text
from sightwords.files import write_text
from sightwords.strict_json import loads

T = TypeVar("T")

TABLES = {
    "words": "word detection by part of speech",
    "systems": "caption systems against 4 random references",
    "coco": "COCO against 5 references",
    "pascal5": "PASCAL against 5 references",
    "pascal50": "PASCAL against 50 references",
}
"""The tables a row can belong to."""

HUMAN_STUDY = ("same_as_human", "better_than_human", "same_or_better")
"""Columns that only a human study can fill; no row file may."""

_KEYS = dict(zip(("same", "better", "same_or_better"), HUMAN_STUDY, strict=True))


@dataclass(frozen=True, slots=True)
class Row:
    """The measured values of one system in one table."""

    table: str
    system: str
    values: Mapping[str, float]
    """By key: `bleu_4`, `pplx`, `ap_nn`, ...; what was not measured is absent."""
    signatures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.table not in TABLES:
            raise ScoreError(f"there is no table {self.table!r}; choose among {', '.join(TABLES)}")
        if not self.system.strip():
            raise ScoreError("a table row needs the name of its system, such as coco:sightwords")
        for key, value in self.values.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ScoreError(f"{self.table}:{self.system}: {key} is {value!r}, not a number")
            if not math.isfinite(value):
                raise ScoreError(f"{self.table}:{self.system}: {key} is {value}; leave it out")


def parse_row_name(text: str) -> tuple[str, str]:
    """(table, system) out of `TABLE:SYSTEM`.

    >>> parse_row_name("systems:Shuffled Human")
    ('systems', 'Shuffled Human')
    """
    table, colon, system = text.partition(":")
    if not colon:
        raise ScoreError(f"{text!r} is not TABLE:SYSTEM; write such as coco:sightwords")
    Row(table, system, {})  # refuses what could not be saved, before an hour of scoring
    return table, system.strip()


def row_path(folder: Path, table: str, system: str) -> Path:
    """Where a row is kept; characters that file systems dislike are percent-encoded.

    >>> row_path(Path("runs"), "systems", "VGG+Score+ft").as_posix()
    'runs/systems/VGG+Score+ft.json'
    """
    return folder / table / f"{quote(system, safe=' +()-_')}.json"


def save_row(folder: Path, row: Row) -> Path:
    """Write a row in place of an earlier one.

    Perplexity and scores come from different commands: saving one keeps the other. Within each
    the earlier values go, so that no row mixes two runs.
    """
    path = row_path(folder, row.table, row.system)
    earlier = read_row(path) if path.exists() else None
    replaced = {key == "pplx" for key in row.values}
    content = {
        "table": row.table,
        "system": row.system,
        "values": {**_others(earlier.values if earlier else {}, replaced), **row.values},
        "signatures": {
            **_others(earlier.signatures if earlier else {}, replaced),
            **row.signatures,
        },
    }
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return path


def _others(earlier: Mapping[str, T], replaced: set[bool]) -> dict[str, T]:
    return {key: value for key, value in earlier.items() if (key == "pplx") not in replaced}


def read_row(path: Path) -> Row:
    """One row file, checked."""
    try:
        content = loads(read_text(path), finite=False)
        return Row(
            table=content["table"],
            system=content["system"],
            values=dict(content["values"]),
            signatures=dict(content.get("signatures", {})),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ScoreError):
            raise ScoreError(f"{path}: {error}") from error
        raise ScoreError(
            f"{path}: not a table row ({error!r}); expected the JSON that --set save_row writes"
        ) from error


def read_rows(folder: Path, table: str) -> dict[str, Row]:
    """The saved rows of one table by system, in the order of file names."""
    rows: dict[str, Row] = {}
    for path in sorted((folder / table).glob("*.json")):
        row = read_row(path)
        if row.table != table:
            raise ScoreError(f"{path}: a row of table {row.table!r} in the folder of {table!r}")
        if row.system in rows:
            raise ScoreError(f"{path}: a second row for {row.system!r}; keep one")
        rows[row.system] = row
    return rows


@dataclass(frozen=True, slots=True)
class HumanRow:
    """One system as people judged it."""

    system: str
    cells: Mapping[str, str]
    """By column: `26.2 (±2.1)`."""
    signature: str


def read_human_row(path: str | Path) -> HumanRow:
    """A study's columns, checked to be people's."""
    try:
        content = loads(read_text(path))
        origin, against = content["origin"], content["against"]
        system, signature = str(content["system"]), str(content["signature"])
        shares = content["shares"]
        cells = {
            column: f"{100 * shares[key]['value']:.1f} (±{100 * shares[key]['margin']:.1f})"
            for key, column in (_KEYS.items() if shares is not None else ())
        }
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ScoreError):
            raise
        raise ScoreError(
            f"{path}: not a study's results ({error!r}); expected the results.json that "
            "`sightwords study results --out` writes"
        ) from error
    if origin != "human" or "|origin:human|" not in signature:
        raise ScoreError(
            f"{path}: its votes are {origin}; human columns need votes of people; leave it out"
        )
    if against != "human":
        raise ScoreError(
            f"{path}: compares with {against!r}; expected a comparison with human captions"
        )
    return HumanRow(system, cells, signature)
