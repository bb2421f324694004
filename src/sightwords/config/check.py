"""How a setting is refused."""

from __future__ import annotations

from sightwords.errors import ConfigError


def check(config: object, name: str, holds: bool, expected: str) -> None:
    """Name the setting, its value and what was expected, unless it holds."""
    if not holds:
        raise ConfigError(f"{name} is {getattr(config, name)!r}; expected {expected}")
