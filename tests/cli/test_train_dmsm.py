"""`sightwords train dmsm`: from a CSV file to a model that `rank` uses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnx")

from sightwords.cli.main import main
from sightwords.images import Normalization
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec

NETWORK = Path(__file__).parents[1] / "words" / "data" / "colours.onnx"
WORDS = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
SETTINGS = """
[dmsm]
hidden_units = 16
semantic_units = 8
batch_size = 20
negatives = 0
epochs = 40
learning_rate = 0.01
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A detector that gives mean colours, and walls that say theirs."""
    detector = tmp_path / "words"
    detector.mkdir()
    shutil.copy(NETWORK, detector / "network.onnx")
    save_vocabulary(Vocabulary(WORDS, tuple(range(80, 0, -10)), 360), detector / "vocabulary.json")
    DetectorSpec(
        backbone="colours",
        pooling="noisy_or",
        input=InputSpec(
            resize="square",
            size_px=16,
            resample="bilinear",
            normalization=Normalization("RGB", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        ),
        grid=GridSpec(rows=4, columns=4, window=1, stride=1, canvas=4),
        words=len(WORDS),
    ).save(detector)
    rng = np.random.default_rng(0)
    lines = ["image,caption"]
    for number in range(30):
        colour = ("red", "green", "blue")[number % 3]
        pixels = rng.integers(0, 80, (16, 16, 3)).astype(np.uint8)
        pixels[..., number % 3] += 150
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        lines += [f"{number}.png,a {colour} wall", f"{number}.png,the wall is {colour}"]
    (tmp_path / "walls.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "mine.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def _train(folder: Path, *options: str) -> int:
    return main(
        ["train", "dmsm", str(folder / "walls.csv"), "--detector", str(folder / "words"),
         "--out", str(folder / "dmsm"), "--config", str(folder / "mine.toml"),
         "--set", "run.device=cpu",
         *options]
    )  # fmt: skip


def test_from_captions_to_ranking(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _train(folder, "--val", str(folder / "walls.csv")) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["images"], row["captions"], row["val_images"]) == (30, 60, 30)
    assert row["difference_from_torch"] < 0.02
    sentences = folder / "sentences.txt"
    sentences.write_text("a blue wall\na red wall\na green wall\n", encoding="utf-8")
    for photograph, colour in (("0.png", "red"), ("1.png", "green"), ("2.png", "blue")):
        assert main(
            ["rank", str(folder / photograph), "--sentences", str(sentences), "--n-best", "1",
             "--parts", str(folder)]
        ) == 0  # fmt: skip
        assert f"a {colour} wall" in capsys.readouterr().out


def test_the_same_command_computes_nothing_twice(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _train(folder, "--set", "dmsm.epochs=2") == 0
    before = (folder / "dmsm" / "text.onnx").read_bytes()
    monkeypatch.setattr("sightwords.train.dmsm.run.detector_features", None)
    assert _train(folder, "--set", "dmsm.epochs=2") == 0
    assert (folder / "dmsm" / "text.onnx").read_bytes() == before
    [features] = (folder / "dmsm" / "training").glob("features-*.npz")
    given = ["--set", f"run.features={features}", "--set", "dmsm.epochs=2"]
    assert _train(folder, *given, "--out", str(folder / "other")) == 0
    assert (folder / "other" / "text.onnx").read_bytes() == before


def test_features_of_other_images_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sightwords.train.dmsm.image_features import ImageFeatures

    other = folder / "other.npz"
    ImageFeatures(("elsewhere",), np.zeros((1, 1, 3), np.float16)).save(other)
    assert _train(folder, "--set", f"run.features={other}") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "no features of image" in line
