"""Two processes under torchrun train as one does on the same batches, and change places with it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.errors import ConfigError  # noqa: E402
from sightwords.settings import to_toml  # noqa: E402
from sightwords.train import processes  # noqa: E402
from sightwords.train.words.training import CHECKPOINT_NAME  # noqa: E402

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
SCRIPT = HERE / "two_processes.py"
LOSS = 2e-6
"""Largest difference of a loss, relative: sums are added up in another order."""
WEIGHT = 1e-5
"""Largest difference of a weight after training, absolute."""
LIVELY = WordsConfig(
    backbone="tiny", epochs=3, batch_size=20, optimizer="adamw", schedule="cosine",
    learning_rate=0.02, head_rate=2.0, weight_decay=0.0, smallest_crop=0.5, flip=True, jitter=0.1,
    dropout=0.3, weight_average=0.9, gradient_clip=1.0, lanes=4,
)  # fmt: skip


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _torchrun(folder: Path, *jobs: str, options: tuple[str, ...] = ()) -> str:
    """Two processes; what they said on stderr."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *options]
    command = [sys.executable, *launcher, str(SCRIPT), str(folder), *jobs]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


JOBS = ("detector", "accumulated", "begun", "resumed", "streamed",
        "dmsm", "dmsm-sampled", "dmsm-nce", "dmsm-lists")  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every job on one process (this one) and on two: NAME-WORLD.json, NAME-WORLD.pt."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "words.toml").write_text(to_toml(LIVELY), encoding="utf-8")
    squares = _module("conftest").Squares(40)
    squares.shards(folder / "shards", [7, 6, 7, 6, 7, 7])
    alone = _module("two_processes")
    threads = torch.get_num_threads()
    alone.main(str(folder), *(job for job in JOBS if job != "resumed"))
    shutil.copytree(folder / "begun-1", folder / "resumed-2")
    _torchrun(folder, *JOBS)
    shutil.copytree(folder / "begun-2", folder / "resumed-1")
    alone.main(str(folder), "resumed")
    torch.set_num_threads(threads)
    return folder


def _losses(runs: Path, name: str) -> list[float]:
    found: list[float] = json.loads((runs / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _largest_difference(runs: Path, one: str, other: str) -> float:
    first, second = (torch.load(runs / f"{n}.pt", weights_only=True) for n in (one, other))
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.parametrize("job", [job for job in JOBS if job not in ("begun", "resumed")])
def test_two_processes_learn_what_one_learns(runs: Path, job: str) -> None:
    """With crops, mirrors, light, dropout, noise, sampled negatives and an average."""
    one, two = _losses(runs, f"{job}-1"), _losses(runs, f"{job}-2")
    assert len(one) == len(two) >= 6
    assert one[-1] < one[0]
    apart = _largest_difference(runs, f"{job}-1", f"{job}-2")
    print(f"{job}: loss {np.abs(np.divide(two, one) - 1).max():.1e}, weights {apart:.1e}")
    np.testing.assert_allclose(two, one, rtol=LOSS)
    assert apart < WEIGHT


@pytest.mark.parametrize("world", [1, 2])
def test_a_share_in_parts_is_a_share_at_once(runs: Path, world: int) -> None:
    np.testing.assert_allclose(
        _losses(runs, f"accumulated-{world}"), _losses(runs, "detector-1"), rtol=LOSS
    )
    assert _largest_difference(runs, f"accumulated-{world}", "detector-1") < WEIGHT


@pytest.mark.parametrize("world", [1, 2])
def test_a_checkpoint_of_another_number_of_processes_goes_on(runs: Path, world: int) -> None:
    """Three steps in the other world, the rest in this one."""
    whole, rest = _losses(runs, "detector-1"), _losses(runs, f"resumed-{world}")
    np.testing.assert_allclose(rest, whole[3:], rtol=LOSS)
    assert _largest_difference(runs, f"resumed-{world}", "detector-1") < WEIGHT


def test_a_killed_process_is_started_again(runs: Path) -> None:
    """Killed after step 5; the last checkpoint is of step 4, so steps 5 and 6 are taken again."""
    (runs / "killed-2").mkdir()
    _torchrun(runs, "killed", options=("--max-restarts", "1"))
    assert (runs / "killed-2" / "killed").exists()
    assert len(_losses(runs, "killed-2")) == 2
    assert _largest_difference(runs, "killed-2", "detector-2") == 0


def test_processes_that_found_different_checkpoints_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "mean_over_processes", lambda value: value / 2)
    with pytest.raises(ConfigError, match="process 0 is at step 8"):
        processes.check_same_step(8, device=torch.device("cpu"))


def test_a_batch_is_shared_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "rank_and_world", lambda: (0, 4))
    assert processes.share_of_batch(128, 1000) == 128
    assert processes.share_of_batch(128, 50) == 48
    assert processes.share_of_batch(128, 1000, accumulate=8) == 128
    for batch_size, images, accumulate in ((130, 1000, 1), (128, 3, 1), (128, 1000, 64)):
        with pytest.raises(ConfigError, match=rf"batch_size is {batch_size} "):
            processes.share_of_batch(batch_size, images, accumulate=accumulate)


@pytest.mark.usefixtures("tiny_net")
def test_four_times_32_is_128(squares: Any) -> None:
    """The loss and the weights of gradient accumulation, on one process."""
    from sightwords.train.words.run import new_network
    from sightwords.train.words.training import WordsFit

    made, found = squares(256), {}
    for accumulate in (1, 4):
        config = replace(LIVELY, batch_size=128, accumulate=accumulate)
        network = new_network(config, 4, weights=None, size_px=48)
        loop = WordsFit(network, made.table(), made.targets(), config, device="cpu")
        found[accumulate] = [float(loop.advance()) for _ in range(4)], network.head.weight
    np.testing.assert_allclose(found[4][0], found[1][0], rtol=LOSS)
    torch.testing.assert_close(found[4][1], found[1][1], atol=WEIGHT, rtol=0)


@pytest.mark.usefixtures("tiny_net")
def test_bfloat16_is_a_setting(squares: Any) -> None:
    """Its losses are near those of float32, and not the same."""
    from sightwords.train.words.run import new_network
    from sightwords.train.words.training import WordsFit

    made, losses = squares(40), []
    for precision in ("auto", "float32", "bfloat16"):
        config = replace(LIVELY, precision=precision)
        network = new_network(config, 4, weights=None, size_px=48)
        loop = WordsFit(network, made.table(), made.targets(), config, device="cpu")
        losses.append([float(loop.advance()) for _ in range(4)])
        assert network.head.weight.dtype == torch.float32
    assert losses[0] == losses[1] != losses[2]
    np.testing.assert_allclose(losses[2], losses[1], rtol=0.02)


def test_checkpoints_do_not_mind_accumulate(runs: Path, tmp_path: Path) -> None:
    """A run begun with whole shares goes on in parts."""
    shutil.copytree(runs / "begun-1", tmp_path / "out")
    assert (tmp_path / "out" / CHECKPOINT_NAME).exists()
    _, losses = _module("two_processes").detector(runs, tmp_path / "out", accumulate=2)
    np.testing.assert_allclose(losses, _losses(runs, "detector-1")[3:], rtol=LOSS)
