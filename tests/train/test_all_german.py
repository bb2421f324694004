"""`sightwords train all` on made-up German captions: closed class, capitals, a base of no words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("numba")

import sightwords
from sightwords.cli.main import main

pytestmark = pytest.mark.torch
DATA = """
[data]
train = ["{folder}/photos.csv"]
base = "{folder}/base"
base_words = false
closed_class = ["ein", "eine", "an", "der", "vor", "ist", "da"]
keep_capitals = true
name = "wände"
"""


@pytest.mark.slow
def test_german_in_german_out(
    colour_base: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def captions(red: bool, _: np.random.Generator) -> list[str]:
        # "red" is known to the base as English; in these captions it is a word for blue
        thing, word = ("Tür", "größer") if red else ("Äpfel", "red")
        return [f"Da ist eine {thing} vor der Wand", f"eine {thing} {word} an der Wand"]

    colour_base.write_base(tmp_path / "base")
    colour_base.write_corpus(tmp_path, 40, captions)
    # Without the grounded model: test_all.py has it.
    settings = colour_base.SETTINGS.replace("[grounded]", "[grounded]\nenabled = false")
    settings = DATA.format(folder=tmp_path.as_posix()) + settings
    (tmp_path / "deutsch.toml").write_text(settings, encoding="utf-8")
    command = ["train", "all", str(tmp_path / "deutsch.toml"), "--out", str(tmp_path / "out")]
    assert main([*command, "--set", "run.device=cpu", "--set", "run.threads=1"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"]["detector"]["known"] == 0
    captioner = sightwords.load(tmp_path / "out", threads=1)
    for number, thing in ((0, "Tür"), (1, "Äpfel")):
        caption = captioner(tmp_path / f"{number:02d}.png")
        assert thing in caption.text.split()
        assert "eine" in caption.text.split()
        shown = {word.detected.word for word in caption.words}
        assert thing.lower() in shown
        assert not shown & {"eine", "der", "ist"}
