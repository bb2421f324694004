"""CSV that survives a stray quote.

To the csv module a quote at the start of a cell opens a cell that may run over many lines, so one
forgotten closing quote swallows every row up to the next. Here such a cell must close within
`MAX_LINES` and leave the right number of columns; otherwise its first line alone is bad.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

MAX_LINES = 20


def table_cells(
    lines: Iterable[str], delimiter: str, width: int, *, first_number: int = 2
) -> Iterator[tuple[int, list[str] | str]]:
    r"""Line number and cells of each row, or what is wrong with it; blank lines are passed over.

    >>> lines = ['a.jpg,"two\n', 'lines"\n', 'b.jpg,"stray\n', "c.jpg,fine\n"]
    >>> for number, cells in table_cells(lines, ",", 2): print(number, cells)
    2 ['a.jpg', 'two\nlines']
    4 a quote that is never closed
    5 ['c.jpg', 'fine']
    """
    source = iter(lines)
    ahead: deque[str] = deque()
    number = first_number
    while ahead or _refill(ahead, source):
        count, cells = _next_row(ahead, source, delimiter, width)
        if cells:
            yield number, cells
        for _ in range(count):
            ahead.popleft()
        number += count


def _next_row(
    ahead: deque[str], source: Iterator[str], delimiter: str, width: int
) -> tuple[int, list[str] | str]:
    """How many lines the next row takes, and its cells or what is wrong with it."""
    for count in range(1, MAX_LINES + 1):
        if count > len(ahead) and not _refill(ahead, source):
            break
        cells = _parse("".join(islice(ahead, count)), delimiter)
        if isinstance(cells, list) and (len(cells) == width or not cells):
            return count, cells
        if count == 1 and isinstance(cells, list):
            return 1, f"{len(cells)} columns where the header has {width}"
        if cells != _UNCLOSED:
            return 1, cells if count == 1 and isinstance(cells, str) else _UNCLOSED
    return 1, _UNCLOSED


def _refill(ahead: deque[str], source: Iterator[str]) -> bool:
    """Take one more line; whether there was one."""
    before = len(ahead)
    ahead.extend(islice(source, 1))
    return len(ahead) > before


_UNCLOSED = "a quote that is never closed"


def _parse(text: str, delimiter: str) -> list[str] | str:
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        return _UNCLOSED if "unexpected end of data" in str(error) else f"not CSV: {error}"


def delimiter_of(header: str) -> str:
    r"""The character that parts a header: tab, comma, bar or semicolon, whichever is commonest.

    >>> delimiter_of("image\tcaption"), delimiter_of("image_name| comment"), delimiter_of("a")
    ('\t', '|', ',')
    """
    return max(",\t|;", key=header.count)
