"""Every command of docs/evaluation.md runs, in the order of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    for module in ("scipy", "matplotlib", "pycocoevalcap"):
        pytest.importorskip(module)
    if shutil.which("bash") is None:
        pytest.skip("the page's commands are for bash")
    tool = tmp_path / "bin" / "sightwords"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sightwords "$@"\n')
    tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    folder = tmp_path / "empty"
    folder.mkdir()
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    for language, text in blocks:
        command = ["bash", "-e", "-c", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert made >= {
        "scores/scores.json",
        "pair/comparison.html",
        "words/precision_recall.png",
        "rows/coco/sightwords.json",
        "tables.md",
        "results.zip",
    }
    assert "| sightwords |" in (folder / "tables.md").read_text(encoding="utf-8")
