"""The commands of docs/serve.md, run against a server."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from sightwords.cli.main import build_parser
from sightwords.samples import sample_paths
from sightwords.web.app import ERRORS
from sightwords.web.engine import Engine
from sightwords.web.serve import guarded_app

Running = Callable[[Any], AbstractContextManager[str]]
InThread = Callable[[Any], Any]

TEXT = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
FENCED = [
    line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.S) for line in block.splitlines()
]


def test_every_curl_command(
    make_ranking_engine: Callable[[], Engine], in_thread: InThread, running: Running, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    commands = [line for line in FENCED if line.startswith("curl ")]
    assert len(commands) == 4
    for name in ("cat.jpg", "dog.jpg"):
        shutil.copy(sample_paths()[1], tmp_path / name)
    with guarded_app(in_thread(make_ranking_engine)) as app, running(app) as address:
        for command in commands:
            words = shlex.split(command.replace("http://127.0.0.1:8000", address))
            done = subprocess.run(
                [words[0], "-sS", "--fail", *words[1:]],
                cwd=tmp_path, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stderr)
            assert done.stdout.startswith('{"images":[')


def test_every_option_exists() -> None:
    parser = build_parser()
    known = set(re.findall(r"--[a-z-]+", parser.format_help()))
    for verb in parser._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
        known |= set(re.findall(r"--[a-z-]+", verb.format_help()))
    named = set(re.findall(r"`(--[a-z-]+)", TEXT.partition("## Measured")[0]))
    assert named
    assert named <= known


def test_every_status_is_in_the_table() -> None:
    said = {int(n) for row in re.findall(r"^\| ([\d, ]+) \|", TEXT, re.M) for n in row.split(",")}
    assert said == set(ERRORS) - {404}  # a bundle without dmsm/
