"""Dataclasses from TOML and back: every key and value checked, errors by name.

Knows nothing of any particular setting; `config` holds those.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import re
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from sightwords.errors import ConfigError
from sightwords.files import write_text
from sightwords.sealed import Sealed, read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

RESOLVED_NAME = "config.resolved.toml"
LARGEST_BYTES = 1 << 20
_LONG_NUMBER = re.compile(r"0[xob][0-9a-fA-F_]{200}")
"""Python reads such a number, and then cannot print it."""
_LONG_KEY = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){32}""")
"""More tables in tables than any setting has: the time Python takes grows with the square."""


def read_toml(path: str | os.PathLike[str] | Sealed) -> dict[str, Any]:
    """A TOML file as nested mappings, nothing checked yet."""
    try:
        text = read_bytes(path, limit=LARGEST_BYTES).decode("utf-8").replace("\r\n", "\n")
        if _LONG_KEY.search(text):
            raise RecursionError
        if _LONG_NUMBER.search(text):
            raise ValueError("a number of over 200 digits")
        document: dict[str, Any] = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give the path of a TOML file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: is not UTF-8 at byte {error.start}; save it as UTF-8"
        ) from error
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply; expected tables of values") from None
    except ValueError as error:  # TOML's own, and whole numbers of thousands of digits
        raise ConfigError(f"{path}: is not TOML: {error}; fix that line") from error
    return document


def from_mapping(kind: type[T], values: Mapping[str, Any], *, where: str = "configuration") -> T:
    """Build a config dataclass from nested mappings; every key and value is checked.

    >>> @dataclasses.dataclass
    ... class Threshold:
    ...     threshold: float = 0.5
    >>> from_mapping(Threshold, {"threshold": 1})
    Threshold(threshold=1.0)
    >>> from_mapping(Threshold, {"treshold": 0.7}, where="my.toml")
    Traceback (most recent call last):
        ...
    sightwords.errors.ConfigError: my.toml: unknown key 'treshold'; did you mean 'threshold'?
    """
    hints = typing.get_type_hints(kind)
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r:.60}; {_suggest(key, known)}")
    arguments = {
        key: _convert(hints[key], value, where=f"{where}: {key}") for key, value in values.items()
    }
    try:
        return kind(**arguments)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def to_toml(config: object) -> str:
    """Write a config dataclass as TOML that `from_mapping` reads back to an equal one.

    >>> @dataclasses.dataclass
    ... class Words:
    ...     backbone: str = "vgg16"
    ...     grid: int = 12
    >>> print(to_toml(Words()), end="")
    backbone = "vgg16"
    grid = 12
    """
    lines: list[str] = []
    tables: list[str] = []
    for item in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            tables.append(f"[{item.name}]\n{to_toml(value)}")
        else:
            # For strings, booleans, integers and finite floats JSON's spelling is TOML's.
            lines.append(f"{item.name} = {json.dumps(value, ensure_ascii=False)}\n")
    return "\n".join(filter(None, ["".join(lines), *tables]))


def save_resolved(config: object, directory: str | os.PathLike[str]) -> Path:
    """Save every setting that was in force beside the artefact it made."""
    path = Path(directory) / RESOLVED_NAME
    write_text(path, to_toml(config))
    return path


def _suggest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"


def _shown(value: object) -> str:
    """A value for a message of one line; a whole number may have more digits than `repr` writes."""
    return "a huge number" if type(value) is int and abs(value) > 1 << 64 else f"{value!r:.60}"


def _convert(hint: Any, value: Any, *, where: str) -> Any:
    """Accept a value of the hinted type; an integer is accepted as a float."""
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: is {_shown(value)}; expected a table [...]")
        return from_mapping(typing.cast("type[Any]", hint), value, where=where)
    if hint == tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            raise ConfigError(
                f'{where}: is {_shown(value)}; expected a list of texts, ["...", ...]'
            )
        return tuple(value)
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value in choices and isinstance(value, str):
            return value
        raise ConfigError(f"{where}: is {_shown(value)}; expected one of {', '.join(choices)}")
    if hint is float and type(value) is int and abs(value) < 1 << 64:
        return float(value)
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        name = {"int": "a whole number", "float": "a finite number", "bool": "true or false"}
        expected = name.get(hint.__name__, "text in quotes")
        raise ConfigError(f"{where}: is {_shown(value)}; expected {expected}")
    return value
