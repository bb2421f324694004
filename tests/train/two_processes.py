"""Run by torchrun from `test_processes.py`: several trainings in a process of several.

Also run by the test's own process, for a world of one: `JOBS` are the same functions.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sightwords.config import DmsmConfig, WordsConfig
from sightwords.settings import from_mapping, read_toml
from sightwords.train.data.shard_loader.index import shard_index
from sightwords.train.data.shard_loader.lanes import Lanes
from sightwords.train.data.shard_loader.loader import ShardLoader
from sightwords.train.dmsm.data import DmsmData, dmsm_data, with_lists
from sightwords.train.dmsm.training import train_dmsm
from sightwords.train.fit import StepReport
from sightwords.train.processes import process_group, rank_and_world
from sightwords.train.words.run import new_network
from sightwords.train.words.training import CHECKPOINT_NAME, WordsFit, train_words

HERE = Path(__file__).parent
SIDE = 48
STOP_AT = 3
"""Steps before the world changes."""


def neighbour(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def register_tiny_net() -> None:
    """The backbone that the documentation shows."""
    docs = (HERE.parents[1] / "docs" / "training.md").read_text("utf-8")
    exec(re.findall(r"```python\n(.*?class TinyNet.*?)```", docs, re.S)[-1], {})


def words_config(folder: Path, **changes: Any) -> WordsConfig:
    return replace(from_mapping(WordsConfig, read_toml(folder / "words.toml")), **changes)


def detector(folder: Path, out: Path, **options: Any) -> tuple[Any, list[float]]:
    """Train the squares from a table, or what is left of it."""
    config = words_config(folder, **options)
    made = neighbour("conftest").Squares(40)
    losses: list[float] = []

    def note(report: StepReport) -> None:
        losses.append(report.loss)

    network = train_words(
        new_network(config, 4, weights=None, size_px=SIDE),
        made.table(),
        made.targets(),
        config,
        folder=out if out.exists() else None,
        progress=note if rank_and_world()[0] == 0 else None,  # one listens, all must go on
        report_every=1,
    )
    return network, losses


def accumulated(folder: Path, out: Path) -> tuple[Any, list[float]]:
    """The same, each share in halves and quarters."""
    return detector(folder, out, accumulate=4 // rank_and_world()[1])


def begun(folder: Path, out: Path) -> tuple[Any, list[float]]:
    """The first steps and a checkpoint, as a stopped run leaves it."""
    config = words_config(folder)
    made = neighbour("conftest").Squares(40)
    network = new_network(config, 4, weights=None, size_px=SIDE)
    loop = WordsFit(network, made.table(), made.targets(), config, device="cpu")
    losses = [float(loop.advance()) for _ in range(STOP_AT)]
    if rank_and_world()[0] == 0:
        out.mkdir()
    loop.save(out / CHECKPOINT_NAME)
    return network, losses


def streamed(folder: Path, out: Path) -> tuple[Any, list[float]]:
    """The squares once more, from shards."""
    del out
    config = words_config(folder)
    index = shard_index([str(folder / "shards" / "*.tar")], folder)
    vocabulary = neighbour("conftest").Squares.vocabulary
    lanes = Lanes(index, vocabulary, config, side_px=SIDE, resize="square")
    losses: list[float] = []

    def note(report: StepReport) -> None:
        losses.append(report.loss)

    network = train_words(
        new_network(config, 4, weights=None, size_px=SIDE),
        ShardLoader(lanes, workers=0),
        None,
        config,
        progress=note if rank_and_world()[0] == 0 else None,
        report_every=1,
    )
    return network, losses


def similarity(**changes: Any) -> Callable[[Path, Path], tuple[Any, list[float]]]:
    """A DMSM with these settings, from scratch."""

    def run(folder: Path, out: Path) -> tuple[Any, list[float]]:
        del folder, out
        config = DmsmConfig(
            hidden_units=12, semantic_units=6, batch_size=30, epochs=2, learning_rate=0.01,
            dropout=0.2, word_dropout=0.2, token_dropout=0.2, feature_noise=0.2, **changes,
        )  # fmt: skip
        losses: list[float] = []

        def note(report: StepReport) -> None:
            losses.append(report.loss)

        network = train_dmsm(coloured(config), config, progress=note, report_every=1)
        return network, losses

    return run


def coloured(config: DmsmConfig) -> DmsmData:
    """Sixty images, mirrored ones too, with lists where the settings want some."""
    import numpy as np

    tests = neighbour("dmsm/test_training")
    features, captions = tests._coloured()
    features = replace(features, mirrored=features.features[:, ::-1].copy())
    data = dmsm_data(features, captions, config)
    if not config.list_sentences:
        return data
    lists = tests._lists(list(features.ids), [["a red wall", "the dog", "a hat is blue"]] * 60)
    worth = np.random.default_rng(0).random(lists.hypotheses).astype(np.float32)
    return with_lists(data, lists, worth)


JOBS: dict[str, Callable[[Path, Path], tuple[Any, list[float]]]] = {
    "detector": detector,
    "accumulated": accumulated,
    "begun": begun,
    "resumed": detector,
    "streamed": streamed,
    "dmsm": similarity(objective="both_ways", negatives=0, learned_gamma=True, word_units=5),
    "dmsm-sampled": similarity(negatives=5, weight_average=0.9),
    "dmsm-nce": similarity(objective="nce", negatives=5, own_words=3),
    "dmsm-lists": similarity(negatives=0, list_sentences=2, list_objective="worth"),
}


def killed(folder: Path, out: Path, *, at: int) -> tuple[Any, list[float]]:
    """The last process is killed after some steps, once; a checkpoint is written every two."""
    config = words_config(folder)
    made = neighbour("conftest").Squares(40)
    network = new_network(config, 4, weights=None, size_px=SIDE)
    loop = WordsFit(network, made.table(), made.targets(), config, device="cpu")
    path = out / CHECKPOINT_NAME
    if path.exists():
        loop.restore(path)
    losses = []
    while loop.step < loop.steps:
        losses.append(float(loop.advance()))
        if loop.step % 2 == 0:
            loop.save(path)
        rank, world = rank_and_world()
        if rank == world - 1 and loop.step == at and not (out / "killed").exists():
            (out / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return loop.finished(), losses


def main(folder: str, *names: str) -> None:
    """Run some jobs; the first process writes what came of each."""
    torch.set_num_threads(1)
    register_tiny_net()
    here = Path(folder)
    with process_group("cpu"):
        rank, world = rank_and_world()
        for name in names:
            out = here / f"{name}-{world}"
            if name == "killed":
                network, losses = killed(here, out, at=5)
            else:
                network, losses = JOBS[name](here, out)
            if rank == 0:
                torch.save(network.state_dict(), here / f"{name}-{world}.pt")
                (here / f"{name}-{world}.json").write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
