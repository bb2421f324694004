"""docs/paper_map.md and CONTRIBUTING.md name files and symbols; each of them exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sightwords"
PAGES = ("docs/paper_map.md", "CONTRIBUTING.md")
PLACES = (ROOT, PACKAGE, PACKAGE / "train", ROOT / "docs", ROOT / "benchmarks" / "paper")
"""Folders that names in the pages are relative to."""
FILE = re.compile(r"\.?[\w-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml|txt|lock))")
SYMBOL = re.compile(r"([a-z_]+(?:\.[a-z_]+)*)((?:\.[A-Z]\w*)(?:\.\w+)*|\.[a-z_]+)")


def _named(page: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)
    found = [pattern.fullmatch(name) for name in re.findall(r"`([^`\n]+)`", text)]
    return [match for match in found if match is not None]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    names = [match[0] for match in _named(page, FILE)]
    assert names
    before = ROOT
    missing = []
    for name in names:  # "`backbones/vit.py`, `efficientnet.py`": the second is beside the first
        found = [place / name for place in (*PLACES, before) if (place / name).exists()]
        if found:
            before = found[0].parent
        else:
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    missing = [
        x for x in links if x and "://" not in x and not (ROOT / page).parent.joinpath(x).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_symbol_that_a_page_names_exists(page: str) -> None:
    missing = []
    for match in _named(page, SYMBOL):
        module, names = match[1], match[2][1:].split(".")
        first = PACKAGE / module.split(".")[0]
        if not (first.is_dir() or first.with_suffix(".py").is_file()) or names[-1] in {"py", "md"}:
            continue
        thing = importlib.import_module(f"sightwords.{module}")
        for name in names:
            if name in getattr(thing, "__dataclass_fields__", {}):
                break
            if not hasattr(thing, name):
                missing.append(match[0])
                break
            thing = getattr(thing, name)
    assert missing == []
