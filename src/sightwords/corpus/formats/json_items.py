"""Walks the arrays of a large JSON document item by item.

COCO's and Karpathy's files are one JSON object of up to 150 MB. `json.load` would make all of it
into Python objects at once, several times its size, and lose every record of a file that is cut
off at its end; here each item is parsed when it is asked for, and a cut loses only what follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from typing import Any

from sightwords.corpus.problems import Kind, Problems

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def walk(text: str, location: str, problems: Problems) -> Iterator[tuple[str, str, Any]]:
    """Key, place and value of each item of each array of a JSON object, in file order.

    A value that is not an array comes as one item. Damage is reported and ends the walk.

    >>> text = '{"dataset": "coco", "images": [{"id": 1}, {"id": 2}]}'
    >>> for key, where, value in walk(text, "a.json", Problems()):
    ...     print(f"{key:8}{where:18}{value}")
    dataset a.json dataset    coco
    images  a.json images[0]  {'id': 1}
    images  a.json images[1]  {'id': 2}
    """
    try:
        yield from _object(text, location)
    except RecursionError:
        problems.add(Kind.DAMAGED_FILE, location, "not JSON: nested too deeply")
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        problems.add(
            Kind.TRUNCATED_FILE if cut else Kind.DAMAGED_FILE,
            f"{location}:{error.lineno}",
            f"not JSON from column {error.colno}: {error.msg}",
        )


def _object(text: str, location: str) -> Iterator[tuple[str, str, Any]]:
    at = _expect(text, _skip(text, 0), "{")
    while not text.startswith("}", at):
        key, at = _DECODER.raw_decode(text, at)
        at = _expect(text, _skip(text, at), ":")
        if text.startswith("[", at):
            at = yield from _array(text, at, location, key)
        else:
            value, at = _DECODER.raw_decode(text, at)
            yield key, f"{location} {key}", value
        at = _after_item(text, at, "}")


def _array(
    text: str, at: int, location: str, key: str
) -> Generator[tuple[str, str, Any], None, int]:
    """Yield the items; return the place behind the array."""
    at = _expect(text, at, "[")
    number = 0
    while not text.startswith("]", at):
        value, at = _DECODER.raw_decode(text, at)
        yield key, f"{location} {key}[{number}]", value
        number += 1
        at = _after_item(text, at, "]")
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None  # the pattern matches nothing, too
    return match.end()


def _expect(text: str, at: int, char: str) -> int:
    if not text.startswith(char, at):
        raise json.JSONDecodeError(f"expected {char!r}", text, at)
    return _skip(text, at + 1)


def _after_item(text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    return at if text.startswith(end, at) else _expect(text, at, ",")
