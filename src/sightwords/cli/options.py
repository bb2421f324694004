"""Options that several verbs share: defined once, so that they are the same everywhere.

Settings that few people change have no option of their own: `--set KEY=VALUE` changes them.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sightwords.config.changes import keys_of, read_changes
from sightwords.config.check import check
from sightwords.errors import ConfigError
from sightwords.images.limits import (
    LEAST_MEGABYTES,
    MAX_MEGABYTES,
    MAX_SECONDS,
    ImageLimits,
    limits_of,
)
from sightwords.settings import from_mapping

T = TypeVar("T")


class HelpFormatter(argparse.HelpFormatter):
    """Folds descriptions, keeps each line that starts with `example:`, and lists settings."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **options)
        self._settings: list[tuple[type[Any], str, Sequence[str]]] = []

    def add_argument(self, action: argparse.Action) -> None:
        """Add an option; the settings of `--set` follow in a section of their own."""
        super().add_argument(action)
        self._settings += getattr(action, "documented", [])

    def add_text(self, text: str | None) -> None:
        """Add a description, or the examples: settings come before these."""
        if text is not None and text.startswith("example:") and self._settings:
            self.start_section("settings (--set KEY=VALUE)")
            for kind, prefix, names in self._settings:
                for name, shown, meaning in described(kind, prefix):
                    if name in names:
                        super().add_argument(_Setting(name, f"{meaning} (default: {shown})"))
            self.end_section()
            self._settings = []
        super().add_text(text)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts: list[str] = []
        prose: list[str] = []
        for line in [*text.splitlines(), "example:"]:
            if not line.startswith("example:"):
                prose.append(line)
                continue
            if prose:
                parts.append(super()._fill_text(" ".join(prose), width, indent))
                prose = []
            parts.append(indent + line)
        return "\n".join(parts[:-1])


class _Setting(argparse.Action):
    """A row of the list of settings; never parsed."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__([], name, metavar=name, help=text.replace("%", "%%"))

    def __call__(self, *_: object) -> None:
        """Do nothing."""


def described(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, default and docstring of each setting of a dataclass.

    >>> list(described(PhotoSettings))[0]
    ('threads', '0', 'CPU threads; 0: all')
    """
    meanings: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if dataclasses.is_dataclass(one):
            meanings |= _docstrings(one)
    default = kind()
    for field in dataclasses.fields(kind):
        meaning = meanings.get(field.name, field.name.replace("_", " "))
        if meaning[1:2].islower() or meaning.startswith("A "):
            meaning = meaning[0].lower() + meaning[1:]
        shown = _shown(getattr(default, field.name))
        yield prefix + field.name, shown, meaning.rstrip(".").replace("`", "")


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """The text below each field; nothing where the source code is not installed."""
    try:
        [node] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(node, ast.ClassDef)
    found = {}
    for field, below in itertools.pairwise(node.body):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(field).partition(":")[0]] = " ".join(str(below.value.value).split())
    return found


@dataclasses.dataclass(frozen=True)
class PhotoSettings:
    """What one photo may cost, and on how many threads."""

    threads: int = 0
    """CPU threads; 0: all."""
    max_seconds: float = MAX_SECONDS
    """Time limit for one photo."""
    max_memory: float = MAX_MEGABYTES
    """Memory limit for decoding one photo, in MB."""

    def __post_init__(self) -> None:
        check(self, "threads", self.threads >= 0, "at least 0")
        check_limits(self, self.max_seconds, self.max_memory)

    def limits(self) -> ImageLimits:
        """As the decoder takes them."""
        return limits_of(self.max_seconds, self.max_memory)


def check_limits(settings: object, max_seconds: float, max_memory: float) -> None:
    """Refuse limits that no photo can keep."""
    check(settings, "max_seconds", max_seconds > 0, "above 0")
    least = f"at least {LEAST_MEGABYTES}, in MB"
    check(settings, "max_memory", max_memory >= LEAST_MEGABYTES, least)


def add_set(
    parser: argparse.ArgumentParser,
    kind: type[Any],
    *,
    prefix: str = "",
    names: Sequence[str] | None = None,
    more: Sequence[str] = (),
) -> None:
    """Register `--set` for the fields of a dataclass.

    Of these, `--help` lists `names` (all unless given); `more` settings can be changed, too.
    """
    listed = [name for name, _ in keys_of(kind, prefix)] if names is None else names
    action = parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting; repeatable"
        + (" (--print-config prints all settings)" if more else ""),
    )
    action.documented = [(kind, prefix, listed)]  # type: ignore[attr-defined]
    parser.set_defaults(settings=(*listed, *more))


def read_set(kind: type[T], args: argparse.Namespace) -> T:
    """What `--set` asks for; the rest has its default."""
    try:
        return from_mapping(kind, read_changes(args.set, dict(keys_of(kind))), where="--set")
    except ConfigError as error:
        args.parser.error(str(error))
        raise


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Register `--bundle`."""
    parser.add_argument(
        "--bundle",
        metavar="BUNDLE",
        help="a model of your own: a directory, a zip or hf://OWNER/NAME (default: built in)",
    )


def add_json(parser: argparse.ArgumentParser, what: str = "one JSON object per line") -> None:
    """Register `--json`."""
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def add_require(parser: argparse.ArgumentParser) -> None:
    """Register `--require` and `--forbid`."""
    for option, text in (("--require", "every caption must use this word"),
                         ("--forbid", "no caption may use this word")):  # fmt: skip
        parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="WORD",
            help=f"{text}; repeatable, or several as a,b",
        )


def add_min_precision(parser: argparse.ArgumentParser, default: float | None, text: str) -> None:
    """Register `--min-precision`."""
    parser.add_argument("--min-precision", type=share, default=default, metavar="P", help=text)


def add_allow_urls(parser: argparse.ArgumentParser) -> None:
    """Register `--allow-urls`."""
    parser.add_argument(
        "--allow-urls",
        action="store_true",
        help="fetch photos that a list names by an http or https URL, up to 64 MB each (default: "
        "such a photo is an error)",
    )


def add_workers(parser: argparse.ArgumentParser, text: str) -> None:
    """Register `--workers`."""
    parser.add_argument("--workers", type=at_least(1), metavar="N", help=text)


def add_out(parser: argparse.ArgumentParser, text: str, metavar: str = "DIR") -> None:
    """Register `--out` of a verb that also prints."""
    parser.add_argument("--out", metavar=metavar, help=text)


def add_address(parser: argparse.ArgumentParser) -> None:
    """Register `--host` and `--port`."""
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    parser.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="port (default: 8000)"
    )


def _port(text: str) -> int:
    number: int = at_least(1)(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port, 1 to 65535")
    return number


def at_least(least: int) -> Any:
    """A type of whole numbers for argparse."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {least} or more")
        return int(text)

    return number


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if value != "" else "none"
