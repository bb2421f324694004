"""Run by torchrun from `test_processes.py`: train the squares, write the loss of each step."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from sightwords.config import WordsConfig
from sightwords.settings import load_toml
from sightwords.train.detector import new_network, save_weights
from sightwords.train.processes import process_group, rank_and_world
from sightwords.train.words import StepReport, train_words


def _conftest() -> Any:
    spec = importlib.util.spec_from_file_location("squares", Path(__file__).parent / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(config_path: str, out: str) -> None:
    """Train; the first process writes what all of them agree on."""
    torch.set_num_threads(1)
    conftest = _conftest()
    exec(re.findall(r"```python\n(.*?)```", conftest.DOCS.read_text("utf-8"), re.S)[-1], {})
    config = load_toml(WordsConfig, config_path)
    made = conftest.Squares(40)
    losses: list[float] = []

    def note(report: StepReport) -> None:
        losses.append(report.loss)

    with process_group("cpu"):
        network = new_network(config, 4, weights=None, size_px=48)
        first = rank_and_world()[0] == 0
        network = train_words(
            network,
            made.table(),
            made.targets(),
            config,
            progress=note if first else None,  # only one listens, all must go on
            report_every=1,
        )
        if first:
            save_weights(network, Path(out) / "weights.safetensors")
            text = json.dumps({"world": rank_and_world()[1], "losses": losses})
            (Path(out) / "losses.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
