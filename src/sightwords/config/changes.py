"""`KEY=VALUE` texts, as `--set` takes them, into nested mappings that `from_mapping` reads."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sightwords.errors import ConfigError


def keys_of(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of a dataclass and its type; those of tables have dotted names.

    >>> @dataclasses.dataclass
    ... class Limits:
    ...     seconds: float = 20.0
    >>> [name for name, _ in keys_of(Limits)]
    ['seconds']
    """
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from keys_of(typing.cast("type[Any]", hint), f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, hint


def read_changes(texts: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings with a value of the right type for each `KEY=VALUE`.

    >>> read_changes(["words.epochs=2"], {"words.epochs": int})
    {'words': {'epochs': 2}}
    >>> read_changes(["words.epoch=2"], {"words.epochs": int})
    Traceback (most recent call last):
        ...
    sightwords.errors.ConfigError: --set words.epoch=2: unknown setting; did you mean words.epochs?
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or name not in known:
            raise ConfigError(f"--set {text}: {_expected(name, equals, list(known))}")
        *tables, key = name.split(".")
        inner = found
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[key] = _typed(known[name], value.strip())
    return found


def _expected(name: str, equals: str, known: list[str]) -> str:
    if not equals:
        return f"expected KEY=VALUE, such as --set {known[0]}=..."
    close = difflib.get_close_matches(name, known, n=1)
    ending = [one for one in known if one.rpartition(".")[2] == name]
    if found := ending or close:
        return f"unknown setting; did you mean {' or '.join(found)}?"
    listed = known if len(known) <= 20 else list(dict.fromkeys(k.split(".")[0] for k in known))
    return f"unknown setting; known: {', '.join(listed)}"


def _typed(hint: Any, text: str) -> Any:
    """The value, or the text itself where it is of another type: `from_mapping` refuses that."""
    if hint is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if hint == tuple[str, ...]:
        return [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            return text
    return text


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, table by table.

    >>> over({"words": {"epochs": 8, "grid": 12}}, {"words": {"epochs": 2}})
    {'words': {'epochs': 2, 'grid': 12}}
    """
    found = dict(below)
    for key, value in above.items():
        inner = below.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        found[key] = over(inner, value) if both else value  # type: ignore[arg-type]
    return found
