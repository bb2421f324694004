"""`sightwords train all` on made-up photographs: a kill, the rest, and a captioner that works."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("numba")

import sightwords
from sightwords.cli.main import main
from sightwords.config import PRESETS
from sightwords.errors import ConfigError, CorpusError
from sightwords.train.all import STAGES, train_all
from sightwords.train.all_config import load_recipe

SPEC = importlib.util.spec_from_file_location(
    "colour_base", Path(__file__).with_name("colour_base.py")
)
assert SPEC is not None
assert SPEC.loader is not None
colour_base: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(colour_base)

pytestmark = pytest.mark.torch
SETTINGS = """
[data]
train = ["{folder}/squares.csv"]
base = "{folder}/base"
held_out_share = 0.4
name = "squares"
licence = "CC0-1.0"
[vocabulary]
size = 20
[words]
epochs = 30
batch_size = 16
learning_rate = 0.002
[language]
table_bits = 14
epochs = 20
[dmsm]
epochs = 2
hidden_units = 8
semantic_units = 8
[generation]
m_best = 20
beam_width = 20
[mert]
restarts = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Forty-eight photographs with captions, a base to build on, and settings."""
    colour_base.write_base(tmp_path / "base")
    rng = np.random.default_rng(0)
    lines = ["image,caption"]
    for number in range(48):
        colour = ("red", "blue")[number % 2]
        pixels = rng.integers(40, 90, (32, 32, 3)).astype(np.uint8)
        pixels[8:16, 16:24] = (230, 10, 10) if colour == "red" else (10, 10, 230)
        Image.fromarray(pixels).save(tmp_path / f"{number:02d}.png")
        place = ("wall", "floor")[int(rng.integers(2))]  # which nobody can see
        for caption in (f"a {colour} square on a {place}", f"there is a {colour} square"):
            lines.append(f"{number:02d}.png,{caption}")
    (tmp_path / "squares.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = SETTINGS.format(folder=tmp_path.as_posix())
    (tmp_path / "mine.toml").write_text(settings, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_killed_resumed_and_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "all", str(folder / "mine.toml"), "--out", str(folder / "out")]
    command += ["--device", "cpu", "--threads", "1"]
    if os.name != "nt":
        with subprocess.Popen(
            [sys.executable, "-m", "sightwords", *command], stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stderr is not None
            for line in running.stderr:
                if "features: done" in line:
                    running.send_signal(signal.SIGKILL)
                    break
        assert running.returncode == -signal.SIGKILL
        assert not (folder / "out").exists()
    assert main(command) == 0
    captured = capsys.readouterr()
    if os.name != "nt":
        assert "[2/11] detector: kept from before" in captured.err
    assert "[11/11] bundle: done" in captured.err
    figures = json.loads(captured.out)["stages"]
    assert figures["vocabulary"] == {
        "images": 48, "captions": 96, "calibration": 12, "rerank": 7,
    }  # fmt: skip
    assert figures["detector"] == {"words": 9, "known": 2}  # a, red
    assert figures["mert"]["tuning"]["cider"] > 2
    captioner = sightwords.load(folder / "out", threads=1)
    assert "red" in captioner(folder / "00.png").text
    found = captioner(folder / "01.png")
    assert "blue" in found.text
    assert math.isnan(found.confidence)  # seven perfect captions: nothing tells good from bad

    assert main(command) == 0  # nothing is left to do
    assert capsys.readouterr().err.count("kept from before") == len(STAGES)
    (folder / "mine.toml").write_text(
        (folder / "mine.toml").read_text("utf-8").replace("restarts = 2", "restarts = 3"), "utf-8"
    )
    assert main(command) == 0
    told = [line.split()[2:4] for line in capsys.readouterr().err.splitlines()]
    assert [name for name, state in told if state == "done"] == ["mert:", "confidence:", "bundle:"]


def test_a_file_changes_a_preset(folder: Path) -> None:
    recipe = load_recipe(folder / "mine.toml")
    assert (recipe.preset, recipe.config.words.epochs) == ("default", 30)
    assert recipe.config.words.layer_decay == PRESETS["default"].words.layer_decay
    paper = load_recipe(folder / "mine.toml", preset="paper")
    assert paper.config.words.layer_decay == PRESETS["paper"].words.layer_decay
    assert paper.data == recipe.data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\n", "train is empty"),
        ('[data]\ntrain = "x.csv"\n', "expected a list of texts"),
        ('[data]\ntrain = ["x.csv"]\nbas = ""\n', "did you mean 'base'"),
        ('[data]\ntrain = ["x.csv"]\nheld_out_share = 0.9\n', "held_out_share is 0.9"),
        ('preset = "papr"\n', "preset is 'papr'"),
        ('[data]\ntrain = ["x.csv"]\n[words]\nepoch = 3\n', "did you mean 'epochs'"),
    ],
)
def test_settings_are_checked(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_recipe(tmp_path / "mine.toml")


def test_too_few_photographs_are_refused(folder: Path) -> None:
    lines = (folder / "squares.csv").read_text("utf-8").splitlines()[:21]
    (folder / "squares.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(CorpusError, match="10 captioned images; a captioner needs at least 20"):
        train_all(load_recipe(folder / "mine.toml"), folder / "out")


def test_a_folder_that_is_no_bundle_is_left_alone(folder: Path) -> None:
    with pytest.raises(sightwords.SightwordsError, match="is there and is no bundle"):
        train_all(load_recipe(folder / "mine.toml"), folder)
    assert (folder / "squares.csv").exists()
