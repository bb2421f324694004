"""The one rule of settings: a preset, changed by a TOML file, changed by `--set`.

    preset = "default"      # or "paper"; `--preset` goes before it

    [words]
    epochs = 4

What neither the file nor `--set` names keeps the preset's value, in every verb.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightwords.config.changes import keys_of, over, read_changes
from sightwords.config.run import RunConfig
from sightwords.config.system import PRESETS, Config
from sightwords.errors import ConfigError
from sightwords.settings import from_mapping, read_toml


@dataclass(frozen=True)
class Settings:
    """What is in force."""

    preset: str
    config: Config
    run: RunConfig
    more: Mapping[str, Any]
    """Instances of the further tables that the caller asked for, by name; arrays of tables
    ([[pupils]]) as they are."""
    named: Mapping[str, str]
    """Each setting that was given (`words.epochs`), and where: the file or `--set`."""


def load_config(path: str | os.PathLike[str], *, preset: str | None = None) -> Config:
    """The settings of all stages from a TOML file; what only `train all` reads is left out.

    What the file does not name keeps the value of its preset.
    """
    return read_settings(path, preset=preset, ignored=("data", "teachers", "pupils")).config


def read_settings(
    path: str | os.PathLike[str] | None = None,
    *,
    preset: str | None = None,
    changes: Sequence[str] = (),
    tables: Mapping[str, type[Any]] | None = None,
    arrays: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> Settings:
    """Read a TOML file and `KEY=VALUE` changes over a preset.

    `tables` are dataclasses of further tables; [run] is always one. `arrays` are
    tables of which there may be several. Tables that are `ignored` are left out unread.
    """
    document = {} if path is None else read_toml(path)
    document = {name: value for name, value in document.items() if name not in ignored}
    kinds: dict[str, type[Any]] = {**(tables or {}), "run": RunConfig}
    known: dict[str, Any] = {"preset": str} | dict(keys_of(Config))
    for table, kind in kinds.items():
        known |= dict(keys_of(kind, f"{table}."))
    changed = read_changes(changes, known)
    named = _named(document, str(path)) | _named(changed, "--set")
    chosen = _preset(document, changed, preset, where=str(path))
    several = {name: _tables(document, name, where=str(path)) for name in arrays}
    values = _split(document, kinds, where=str(path))
    config = from_mapping(
        Config, over(dataclasses.asdict(PRESETS[chosen]), document), where=str(path)
    )
    made = {table: from_mapping(kinds[table], values[table], where=f"{path}: {table}")
            for table in kinds}  # fmt: skip
    values = _split(changed, kinds, where="--set")
    config = from_mapping(Config, over(dataclasses.asdict(config), changed), where="--set")
    for table, kind in kinds.items():
        merged = over(dataclasses.asdict(made[table]), values[table])
        made[table] = from_mapping(kind, merged, where=f"--set: {table}")
    return Settings(chosen, config, made.pop("run"), made | several, named)


def _preset(
    document: dict[str, Any], changed: dict[str, Any], asked: str | None, *, where: str
) -> str:
    """The preset, taken out of both mappings."""
    in_file, in_set = document.pop("preset", None), changed.pop("preset", None)
    for value, place in ((in_set, "--set"), (asked, "--preset"), (in_file, where)):
        if value is None:
            continue
        if not isinstance(value, str) or value not in PRESETS:
            expected = " or ".join(sorted(PRESETS))
            raise ConfigError(f"{place}: preset is {value!r:.60}; expected {expected}")
        return value
    return "default"


def _split(
    document: dict[str, Any], kinds: Mapping[str, type[Any]], *, where: str
) -> dict[str, Mapping[str, Any]]:
    """The tables that are not of `Config`, taken out of the mapping."""
    found: dict[str, Mapping[str, Any]] = {}
    for table in kinds:
        values = document.pop(table, {})
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: {table} is {values!r:.60}; expected a table [{table}]")
        found[table] = values
    return found


def _tables(document: dict[str, Any], name: str, *, where: str) -> list[Mapping[str, Any]]:
    """The tables [[name]], taken out of the mapping; none where it has none."""
    found = document.pop(name, [])
    if not isinstance(found, list) or not all(isinstance(table, Mapping) for table in found):
        raise ConfigError(f"{where}: {name} is {found!r:.60}; expected tables [[{name}]]")
    return found


def _named(document: Mapping[str, Any], where: str) -> dict[str, str]:
    """The dotted names of every value in a mapping of two levels."""
    found: dict[str, str] = {}
    for table, values in document.items():
        if isinstance(values, Mapping):
            found |= {f"{table}.{key}": where for key in values}
        else:
            found[table] = where
    return found
