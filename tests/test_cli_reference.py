"""The CLI reference page is what the help texts say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sightwords.cli.reference import render


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays help out by version")
def test_page_is_up_to_date() -> None:
    page = Path(__file__).parents[1] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == render(), "run: make docs-write"


def test_every_help_text_has_an_example() -> None:
    commands = render().split("\n## ")[1:]
    missing = [text.partition("\n")[0] for text in commands if "example: sightwords " not in text]
    assert not missing
