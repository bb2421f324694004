"""The CLI reference page is what the help texts say."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from sightwords.cli.main import build_parser
from sightwords.cli.reference import render, walk


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays help out by version")
def test_page_is_up_to_date() -> None:
    page = Path(__file__).parents[1] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == render(), "run: make docs-write"


def test_every_help_text_has_an_example() -> None:
    commands = render().split("\n## ")[1:]
    missing = [text.partition("\n")[0] for text in commands if "example: sightwords " not in text]
    assert not missing


def _options() -> dict[str, list[argparse.Action]]:
    """Every option of every verb, by its name."""
    found: dict[str, list[argparse.Action]] = {}
    for parser in walk(build_parser()):
        for action in parser._actions:
            if action.option_strings and not isinstance(action, argparse._HelpAction):
                found.setdefault(action.option_strings[-1], []).append(action)
    return found


def test_there_are_at_most_150_options() -> None:
    """Settings that few people change are for `--set` and settings files."""
    assert sum(map(len, _options().values())) <= 150


@pytest.mark.parametrize(
    "option",
    ["--allow-urls", "--bundle", "--config", "--forbid", "--host", "--port", "--preset",
     "--print-config", "--references", "--require"],
)  # fmt: skip
def test_a_shared_option_is_the_same_in_every_verb(option: str) -> None:
    actions = _options()[option]
    assert len(actions) > 1
    assert len({(a.help, str(a.metavar), str(a.default), str(a.nargs)) for a in actions}) == 1
