"""Two processes under torchrun train as one does on the same batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.errors import ConfigError  # noqa: E402
from sightwords.settings import to_toml  # noqa: E402
from sightwords.train import processes  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).parent / "two_processes.py"


def _losses(world: int, config: WordsConfig, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    (folder / "words.toml").write_text(to_toml(config), encoding="utf-8")
    arguments = [str(SCRIPT), str(folder / "words.toml"), str(folder)]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    command = [sys.executable, *(launcher if world > 1 else []), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads((folder / "losses.json").read_text(encoding="utf-8"))
    return found


def test_two_processes_learn_what_one_learns(toy_config: WordsConfig, tmp_path: Path) -> None:
    """Equal within 1e-4 of the loss: sums are added up in another order."""
    config = replace(toy_config, epochs=3, weight_average=0.9)
    one, two = (_losses(world, config, tmp_path / str(world)) for world in (1, 2))
    assert (one["world"], two["world"]) == (1, 2)
    assert len(one["losses"]) == 6
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-4)
    assert one["losses"][-1] < one["losses"][0]


def test_a_batch_is_shared_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "rank_and_world", lambda: (0, 4))
    assert processes.share_of_batch(128, 1000) == 128
    assert processes.share_of_batch(128, 50) == 48
    for batch_size, images in ((130, 1000), (128, 3)):
        with pytest.raises(ConfigError, match="multiple of the number of processes"):
            processes.share_of_batch(batch_size, images)
