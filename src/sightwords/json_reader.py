"""JSON files of a model: each value is taken by name, and must be of the type asked for.

reader = Reader.open(folder / "detector.json", newest=1)
reader.count("words")                  # an int of at least 1, or a BundleError of one line
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from sightwords.errors import BundleError
from sightwords.sealed import Sealed, read_bytes, unreadable
from sightwords.strict_json import loads

T = TypeVar("T")

LARGEST_BYTES = 8 << 20
"""Of a JSON file in a bundle; the calibration of 1000 words takes half a megabyte. Read, a file may
take 30 times its size."""
LARGEST_NUMBER = 1e9
"""A larger number in a bundle is a mistake, and would make sums overflow."""
LARGEST_COUNT = 1 << 24


@dataclass(frozen=True, slots=True)
class Reader:
    """A JSON object of a bundle; each value is taken by name and must be of the type asked for."""

    where: str
    values: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path | Sealed, *, newest: int) -> Reader:
        """Read a file that holds one JSON object with a `format` number of at most `newest`."""
        try:
            values = loads(read_bytes(path, limit=LARGEST_BYTES))
        except OSError as error:
            raise unreadable(path, error) from error
        except ValueError as error:  # bad UTF-8 and bad JSON alike
            raise BundleError(
                f"{path}: is not JSON ({error}); the file is damaged: copy it again"
            ) from error
        if not isinstance(values, dict):
            raise BundleError(f"{path}: holds a {type(values).__name__}; expected an object")
        reader = cls(str(path), values)
        number = reader.take("format", int)
        if not 1 <= number <= newest:
            raise BundleError(
                f"{path}: is of format {number}, this version of sightwords reads up to {newest}; "
                "upgrade with: pip install --upgrade sightwords"
            )
        return reader

    def take(self, key: str, kind: type[T]) -> T:
        """The value under `key`, which must be of this type (a whole number may be a float)."""
        value = self.values.get(key)
        if type(value) is int and kind is float and abs(value) <= LARGEST_NUMBER:
            value = float(value)
        if type(value) is not kind:
            found = f"is {_shown(value)}" if key in self.values else "is missing"
            raise BundleError(f"{self.where}: {_shown(key)[1:-1]} {found}; expected {_NAMES[kind]}")
        if type(value) in (int, float) and not _is_sane(value):
            raise BundleError(
                f"{self.where}: {_shown(key)[1:-1]} is {_shown(value)}; expected a number from "
                f"{-LARGEST_NUMBER:g} to {LARGEST_NUMBER:g}"
            )
        return value

    def between(self, key: str, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        value = self.take(key, float)
        if not low <= value <= high:
            raise BundleError(f"{self.where}: {key} is {value}; expected {low:g} to {high:g}")
        return value

    def count(self, key: str, most: int = LARGEST_COUNT) -> int:
        """A whole number of at least 1 and at most `most`."""
        value = self.take(key, int)
        if value < 1:
            raise BundleError(f"{self.where}: {key} is {value}; expected at least 1")
        if value > most:
            raise BundleError(f"{self.where}: {key} is {value}; expected at most {most}")
        return value

    def choice(self, key: str, kind: Any) -> Any:
        """One of the strings of a `Literal`."""
        value = self.take(key, str)
        if value not in get_args(kind):
            raise BundleError(
                f"{self.where}: {key} is {_shown(value)}; expected one of "
                f"{', '.join(get_args(kind))}"
            )
        return value

    def table(self, key: str) -> Reader:
        """The object under `key`."""
        return Reader(f"{self.where}: {key}", self.take(key, dict))

    def three(self, key: str) -> tuple[float, float, float]:
        """Three finite numbers, for example one per channel."""
        values = self.take(key, list)
        if len(values) != 3 or not all(type(v) in (int, float) and _is_sane(v) for v in values):
            raise BundleError(f"{self.where}: {key} is {_shown(values)}; expected three numbers")
        first, second, third = map(float, values)
        return first, second, third


_NAMES: dict[type, str] = {
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    str: "text",
    dict: "an object",
    list: "a list",
}


def _is_sane(value: Any) -> bool:
    return abs(value) <= LARGEST_NUMBER and math.isfinite(value)


def _shown(value: object) -> str:
    """A value for a message of one line; a whole number of 10,000 digits has no `repr`."""
    if type(value) is int and abs(value) > 1 << 64:
        return "a whole number of more than 64 bits"
    return f"{value!r:.60}"
