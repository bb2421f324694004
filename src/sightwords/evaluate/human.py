"""The columns that people fill: a human study's results file -> cells of Table 4.

Read from the results.json that `sightwords study results --out` writes. A study whose votes are
not people's, or that compared with anything but human captions, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_text
from sightwords.strict_json import loads

HUMAN_STUDY = ("same_as_human", "better_than_human", "same_or_better")
"""Columns that only a human study can fill; no row file may."""

_KEYS = dict(zip(("same", "better", "same_or_better"), HUMAN_STUDY, strict=True))


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
            f"{path}: its votes are {origin}, and only people's fill human columns; leave it out"
        )
    if against != "human":
        raise ScoreError(f"{path}: compares with {against!r}; the columns ask for human captions")
    return HumanRow(system, cells, signature)
