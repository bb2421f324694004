"""The JSON files of a detector directory, read strictly: errors say which file, key and value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from sightwords.errors import BundleError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reader:
    """A JSON object; each value is taken by name and must be of the type asked for."""

    where: str
    values: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path, *, newest: int) -> Reader:
        """Read a file that holds one JSON object with a `format` number of at most `newest`."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
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
        if number > newest:
            raise BundleError(
                f"{path}: is of format {number}, this sightwords reads up to {newest}; "
                "upgrade with: pip install --upgrade sightwords"
            )
        return reader

    def take(self, key: str, kind: type[T]) -> T:
        """The value under `key`, which must be of this type (a whole number may be a float)."""
        value = self.values.get(key)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            found = f"is {value!r:.60}" if key in self.values else "is missing"
            raise BundleError(f"{self.where}: {key} {found}; expected {_NAMES[kind]}")
        return value

    def count(self, key: str) -> int:
        """A whole number of at least 1."""
        value = self.take(key, int)
        if value < 1:
            raise BundleError(f"{self.where}: {key} is {value}; expected at least 1")
        return value

    def choice(self, key: str, kind: Any) -> Any:
        """One of the strings of a `Literal`."""
        value = self.take(key, str)
        if value not in get_args(kind):
            raise BundleError(
                f"{self.where}: {key} is {value!r}; expected one of {', '.join(get_args(kind))}"
            )
        return value

    def table(self, key: str) -> Reader:
        """The object under `key`."""
        return Reader(f"{self.where}: {key}", self.take(key, dict))

    def three(self, key: str) -> tuple[float, float, float]:
        """Three numbers, one a channel."""
        values = self.take(key, list)
        if len(values) != 3 or not all(type(v) in (int, float) for v in values):
            raise BundleError(f"{self.where}: {key} is {values!r:.60}; expected three numbers")
        first, second, third = map(float, values)
        return first, second, third


_NAMES: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "an object",
    list: "a list",
}


def unreadable(path: Path, error: OSError) -> BundleError:
    """What to say about a file of a detector directory that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return BundleError(
            f"{path}: no such file; a detector directory holds detector.json, network.onnx, "
            "vocabulary.json and calibration.json"
        )
    return BundleError(f"{path}: cannot be read ({error.strerror}); check its permissions")
