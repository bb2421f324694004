"""Every `sightwords` command in these pages is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sightwords.cli.main import build_parser

DOCS = Path(__file__).parents[2] / "docs"


def _commands() -> list[str]:
    found = []
    for page in ("bundle.md", "captioning.md"):
        if not (DOCS / page).exists():
            continue
        for block in re.findall(r"```bash\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S):
            found += [line.rpartition("| ")[2] for line in block.splitlines() if line]
    return found


@pytest.mark.parametrize("command", _commands())
def test_documented_commands_parse(command: str) -> None:
    name, *arguments = shlex.split(command)
    assert name == "sightwords"
    assert callable(build_parser().parse_args(arguments).run)
