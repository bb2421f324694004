"""`sightwords train all` on made-up German captions: closed class, capitals, a base of no words."""

from __future__ import annotations

import importlib.util
import json
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

SPEC = importlib.util.spec_from_file_location(
    "colour_base_german", Path(__file__).with_name("colour_base.py")
)
assert SPEC is not None
assert SPEC.loader is not None
colour_base: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(colour_base)

pytestmark = pytest.mark.torch
SETTINGS = """
[data]
train = ["{folder}/fotos.csv"]
base = "{folder}/base"
base_words = false
closed_class = ["ein", "eine", "an", "der", "vor", "ist", "da"]
keep_capitals = true
held_out_share = 0.4
name = "wände"
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
epochs = 1
hidden_units = 8
semantic_units = 8
[generation]
m_best = 20
beam_width = 20
coverage = 2
[mert]
restarts = 1
"""


@pytest.mark.slow
def test_german_in_german_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    colour_base.write_base(tmp_path / "base")
    rng = np.random.default_rng(0)
    lines = ["image,caption"]
    for number in range(40):
        # "red" is known to the base as English; in these captions it is a word for blue
        thing = ("Tür", "Äpfel")[number % 2]
        pixels = rng.integers(40, 90, (32, 32, 3)).astype(np.uint8)
        pixels[8:16, 16:24] = (230, 10, 10) if thing == "Tür" else (10, 10, 230)
        Image.fromarray(pixels).save(tmp_path / f"{number:02d}.png")
        word = "red" if thing == "Äpfel" else "größer"
        lines += [f"{number:02d}.png,Da ist eine {thing} vor der Wand"]
        lines += [f"{number:02d}.png,eine {thing} {word} an der Wand"]
    (tmp_path / "fotos.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = SETTINGS.format(folder=tmp_path.as_posix())
    (tmp_path / "deutsch.toml").write_text(settings, encoding="utf-8")
    command = ["train", "all", str(tmp_path / "deutsch.toml"), "--out", str(tmp_path / "out")]
    assert main([*command, "--device", "cpu", "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"]["detector"]["known"] == 0
    captioner = sightwords.load(tmp_path / "out", threads=1)
    for number, thing in ((0, "Tür"), (1, "Äpfel")):
        caption = captioner(tmp_path / f"{number:02d}.png")
        assert thing in caption.text.split()
        assert "eine" in caption.text.split()
        shown = {word.detected.word for word in caption.words}
        assert thing.lower() in shown
        assert not shown & {"eine", "der", "ist"}
