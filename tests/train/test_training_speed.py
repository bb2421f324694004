"""The benchmark of training speed runs through on a few small images."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("webdataset")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "training_speed.py"


def test_it_measures_the_loader(squares: Any, tmp_path: Path) -> None:
    images = str(squares(24).manifest(tmp_path))
    options = ["--images", "24", "--sizes", "168", "--batch-size", "8", "--lanes", "2"]
    rest = ["--consumed", "100", "--seconds", "0.05", "--out", str(tmp_path / "speed.json")]
    command = [sys.executable, str(SCRIPT), images, "--device", "cpu", *options, *rest]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))["168"]
    assert {"jpg, a core", "avif, a core", "decoded table, a thread"} < set(found["loader"])
    assert {"jpg", "avif"} == set(found["decoded once"])
    assert min(found["loader"].values()) > 0
    assert "sightwords.images.decode, AVIF" in found["decoders"]
