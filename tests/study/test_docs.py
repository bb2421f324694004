"""Every command of docs/study.md runs, in the order of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "study.md"
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("the page's commands are for bash")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, words in (("sightwords", "-m sightwords"), ("python", "")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("SIGHTWORDS_STUDY", None)
    folder = tmp_path / "empty"
    folder.mkdir()
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 6
    for text in blocks:
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert made >= {"study.db", "links.csv", "hits/layout-7.html", "results/disagreement.html"}
