"""The server is killed while judges answer; a short run of benchmarks/study_kill.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "study_kill.py"


@pytest.mark.slow
@pytest.mark.database
def test_no_acknowledged_vote_is_lost_or_doubled(where: str) -> None:
    command = [sys.executable, str(SCRIPT), where, "--judgements", "60", "--life", "1.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    # 10 pairs of 5 votes, and 4 check cases for each of the 5 judges
    assert "70 judgements acknowledged" in done.stdout
    assert "lost 0, duplicated 0, never acknowledged 0" in done.stdout
    assert "pairs with all of them 10 of 10" in done.stdout
