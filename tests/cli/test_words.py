"""`sightwords words`: lines, JSON, pictures, and what it says about bad input."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightwords.cli import words as verb
from sightwords.errors import BundleError, InputError, VocabularyError
from sightwords.images import Normalization
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec
from sightwords.words.calibration_fit import fit_calibration

DATA = Path(__file__).parent.parent / "words" / "data"
WORDS = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
UNIT = Normalization("RGB", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def _detector(folder: Path, network: str = "colours") -> Path:
    folder.mkdir()
    shutil.copy(DATA / f"{network}.onnx", folder / "network.onnx")
    save_vocabulary(Vocabulary(WORDS, tuple(range(80, 0, -10)), 360), folder / "vocabulary.json")
    DetectorSpec(
        backbone="colours",
        pooling="noisy_or",
        input=InputSpec(resize="square", size_px=16, resample="bilinear", normalization=UNIT),
        grid=GridSpec(rows=4, columns=4, window=1, stride=1, canvas=4),
        words=len(WORDS),
    ).save(folder)
    scores = np.random.default_rng(0).random((1000, len(WORDS)))
    labels = np.random.default_rng(1).random(scores.shape) < scores
    fit_calibration(scores, labels).save(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A detector and two photographs, one of them red at the top right on white."""
    _detector(tmp_path / "detector")
    image = Image.new("RGB", (40, 40), "white")
    image.paste((255, 0, 0), (20, 0, 40, 20))
    image.save(tmp_path / "red.png")
    Image.new("RGB", (30, 20), (0, 0, 255)).save(tmp_path / "sky.png")
    return tmp_path


def _run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["words", *map(str, arguments)])
    code: int = args.run(args)
    return code


def test_one_line_a_photograph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photographs = [folder / "red.png", folder / "sky.png"]
    assert _run(*photographs, "--detector", folder / "detector", "--set", "threads=1") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{folder / 'red.png'}: ")
    assert first.startswith(f"{folder / 'red.png'}: red 100%, white 100%")
    assert second.startswith(f"{folder / 'sky.png'}: blue 100%")
    words = {part.split()[0] for part in first.partition(": ")[2].split(", ")}
    assert not words & {"a", "the"}  # found everywhere, so not worth a line


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(folder / "red.png", "--detector", folder / "detector", "--json", "--min-precision", 0.9)
    record = json.loads(capsys.readouterr().out)
    assert record["image"] == str(folder / "red.png")
    assert record["threshold"] == 0.9
    words = {word["word"]: word for word in record["words"]}
    assert words["red"]["box"] == [0.5, 0.0, 1.0, 0.5]
    assert words["red"]["prob"] > 0.99
    assert set(words["red"]) == {"word", "prob", "precision", "raw_score", "box", "closed_class"}
    assert words["a"]["closed_class"] is True
    assert words["red"]["closed_class"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_of_any_bytes(folder: Path) -> None:
    odd = os.fsencode(folder) + b"/two\ncaf\xe9.png"
    shutil.copy(folder / "red.png", os.fsdecode(odd))
    command = [sys.executable, "-m", "sightwords", "words", os.fsdecode(odd)]
    command += ["--detector", str(folder / "detector")]
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    plain = subprocess.run(command, capture_output=True, check=True, env=env)
    assert plain.stdout.startswith(odd.replace(b"\n", b"\\n") + b": ")
    as_json = subprocess.run([*command, "--json"], capture_output=True, check=True, env=env)
    assert os.fsencode(json.loads(as_json.stdout)["image"]) == odd


def test_a_higher_precision_gives_fewer_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = []
    for precision in (0, 0.5, 1):
        options = ("--detector", folder / "detector", "--min-precision", precision, "--json")
        _run(folder / "red.png", *options)
        lengths.append(len(json.loads(capsys.readouterr().out)["words"]))
    assert lengths[0] == 8
    assert lengths[0] > lengths[1] >= lengths[2] >= 3  # never fewer than three of content


def test_named_words_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(folder / "red.png", "--detector", folder / "detector", "--words", "Dog, red,dog")
    line = capsys.readouterr().out.strip().removeprefix(f"{folder / 'red.png'}: ")
    assert [part.split()[0] for part in line.split(", ")] == ["dog", "red"]
    with pytest.raises(VocabularyError, match="'zebra' is not among the 8 words"):
        _run(folder / "red.png", "--detector", folder / "detector", "--words", "zebra")


def test_heat_maps(folder: Path) -> None:
    out = folder / "pictures"
    (folder / "more").mkdir()
    shutil.copy(folder / "red.png", folder / "more" / "red.png")
    photographs = [folder / "red.png", folder / "more" / "red.png"]
    assert _run(*photographs, "--detector", folder / "detector", "--heatmap", out) == 0
    names = {path.name for path in out.iterdir()}
    assert {"red-1-red.png", "red-2-red.png", "red-1-white.png"} <= names
    assert not {"red-1-a.png", "red-1-the.png"} & names
    with Image.open(out / "red-1-red.png") as picture:
        assert picture.width == 640
    _run(photographs[0], "--detector", folder / "detector", "--heatmap", out, "--words", "a")
    assert (out / "red-a.png").exists()


def test_bad_photographs_are_named_and_the_others_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.jpg").write_bytes(b"no image")
    photographs = [folder / "bad.jpg", folder / "none.jpg", folder / "red.png"]
    assert _run(*photographs, "--detector", folder / "detector") == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{folder / 'red.png'}: ")
    errors = captured.err.splitlines()
    assert len(errors) == 2
    assert "bad.jpg" in errors[0]
    assert "none.jpg" in errors[1]


def test_nan_on_one_photograph_leaves_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _detector(folder / "broken", "broken")
    photographs = [folder / "sky.png", folder / "red.png"]
    # red.png is white for the most part, which has blue in it: darken it
    Image.new("RGB", (8, 8), (255, 0, 0)).save(folder / "red.png")
    assert _run(*photographs, "--detector", broken) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{folder / 'red.png'}: ")
    assert captured.err.count("\n") == 1
    assert "NaN" in captured.err
    assert "sky.png" in captured.err


def test_a_url_that_no_package_reads_leaves_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)  # as where it is not installed
    address = "https://photos.example/a.png"
    assert _run(address, folder / "red.png", "--detector", folder / "detector") == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{folder / 'red.png'}: ")
    assert captured.err.startswith(f"sightwords: error: {address}: ")
    assert "sightwords[remote]" in captured.err


def test_heat_maps_that_cannot_be_written(folder: Path) -> None:
    file = folder / "red.png"
    with pytest.raises(InputError, match=f"--heatmap {file}: cannot be made"):
        _run(file, "--detector", folder / "detector", "--heatmap", file)


def test_no_detector(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightwords.words.artefact.DEFAULT_DETECTOR", folder / "detector")
    assert _run(folder / "red.png") == 0
    with pytest.raises(BundleError, match="elsewhere: no such directory"):
        _run(folder / "red.png", "--detector", folder / "elsewhere")


@pytest.mark.parametrize(
    "options",
    [
        ["--min-precision", "1.5"],
        ["--min-precision", "x"],
        ["--words", ","],
        ["--words", "red", "--min-precision", "0.9"],
    ],
)
def test_bad_options(folder: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        _run(folder / "red.png", "--detector", folder / "detector", *options)
    assert caught.value.code == 2
