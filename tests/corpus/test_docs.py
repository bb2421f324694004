"""The commands of docs/corpora.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "corpora.md"


def test_every_block_of_the_page_runs_in_order(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE.read_text("utf-8"), re.S | re.M)
    assert len(blocks) > 10
    scripts = Path(sys.executable).parent  # `sightwords` and `python` of this environment
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for language, block in blocks:
        command = ["bash", "-euc", block] if language == "bash" else [sys.executable, "-c", block]
        result = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{block}\n{result.stderr}"
        if language == "bash" and "--json" not in block and "inspect" in block:
            assert "problems            0" in result.stdout, result.stdout
