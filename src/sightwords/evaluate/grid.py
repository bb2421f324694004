"""A grid of cells, drawn three ways: aligned text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """A titled table of text cells; the first column is words, the others are figures."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    """Lines that belong under the table: signatures, what is missing and why."""

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.header), (self.header, row)

    def text(self) -> str:
        """Aligned for a terminal; figures flush right.

        >>> print(Grid(("metric", "value"), (("bleu_4", "0.300"), ("cider", "1.108"))).text())
        metric  value
        ------  -----
        bleu_4  0.300
        cider   1.108
        """
        widths = [max(map(_width, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = [_line(self.header, widths), "  ".join("-" * width for width in widths)]
        lines += [_line(row, widths) for row in self.rows]
        above = [self.title] if self.title else []
        return "\n".join([*above, *lines, *self.notes])

    def markdown(self) -> str:
        """A GitHub table; a bar inside a cell is escaped.

        >>> print(Grid(("metric", "value"), (("bleu_4", "0.300"),)).markdown())
        | metric | value |
        |:--|--:|
        | bleu_4 | 0.300 |
        """
        lines = [_bars(self.header), "|:--|" + "--:|" * (len(self.header) - 1)]
        lines += [_bars(row) for row in self.rows]
        above = [f"### {self.title}", ""] if self.title else []
        below = ["", *(f"- {' '.join(note.split())}" for note in self.notes)] if self.notes else []
        return "\n".join([*above, *lines, *below])

    def csv(self) -> str:
        r"""Comma-separated, header first, without title and notes.

        >>> Grid(("metric", "value"), (("bleu_4", "0.300"),)).csv()
        'metric,value\nbleu_4,0.300\n'
        """
        return csv_text([self.header, *self.rows])


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    r"""Rows as CSV with `\n` line ends; a float keeps every digit.

    >>> csv_text([("word", "ap"), ("dog, hot", 0.1)])
    'word,ap\n"dog, hot",0.1\n'
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell + " " * (width - _width(cell)) if column == 0 else " " * (width - _width(cell)) + cell
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns on a terminal: wide East Asian characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escape, cells)) + " |"


def _escape(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
