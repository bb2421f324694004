"""`sightwords train all` on made-up photographs: a kill, the rest, and a captioner that works."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("numba")

import sightwords
from sightwords.cli.main import main
from sightwords.config import PRESETS
from sightwords.errors import ConfigError, CorpusError
from sightwords.rerank.linear import Ranker
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.all import stages_of, train_all
from sightwords.train.recipe import load_recipe
from sightwords.train.rerank.confidence import Choices, fit_confidence
from sightwords.train.split import Split
from sightwords.train.stages import key_of
from sightwords.train.words.frozen import stages as all_frozen
from sightwords.train.words.frozen.features import RegionTable

pytestmark = pytest.mark.torch


@pytest.fixture
def folder(colour_base: Any, tmp_path: Path) -> Path:
    """Forty-eight photographs with captions, a base to build on, and settings."""
    colour_base.write_project(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_killed_resumed_and_used(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[Choices] = []

    def fit(choices: Choices, *rest: Any, **options: Any) -> Any:
        fitted.append(choices)
        return fit_confidence(choices, *rest, **options)

    monkeypatch.setattr("sightwords.train.rerank.run.fit_confidence", fit)
    command = ["train", "all", "--config", str(folder / "mine.toml"), "--out", str(folder / "out")]
    command += ["--set", "run.device=cpu", "--set", "run.threads=1"]
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
        assert "[2/12] detector: kept from before" in captured.err
    assert "[12/12] bundle: done" in captured.err
    figures = json.loads(captured.out)["stages"]
    assert figures["vocabulary"] == {
        "images": 48, "captions": 96, "calibration": 12, "rerank": 7,
    }  # fmt: skip
    assert figures["detector"] == {"words": 9, "known": 2}  # a, red
    assert figures["mert"]["tuning"]["cider"] > 2
    assert figures["grounded"] == {"images": 41, "lists": 41, "bytes": figures["grounded"]["bytes"]}
    captioner = sightwords.load(folder / "out", threads=1)
    assert (folder / "out" / "grounded" / "network.onnx").exists()
    assert Ranker.load(folder / "out" / "rerank").needs("grounded")
    assert "red" in captioner(folder / "00.png").text
    found = captioner(folder / "01.png")
    assert "blue" in found.text
    # Confidence looks at the images themselves, too: how far they are from photographs.
    assert fitted[0].tokens is not None
    assert fitted[0].tokens.shape == (7, 8)
    assert math.isnan(found.confidence)  # seven perfect captions: nothing tells good from bad

    assert main(command) == 0  # nothing is left to do
    assert capsys.readouterr().err.count("kept from before") == 12
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


def test_detections_are_drawn_anew_for_another_seed(folder: Path) -> None:
    recipe = load_recipe(folder / "mine.toml")
    other = replace(
        recipe, config=replace(recipe.config, language=replace(recipe.config.language, seed=1))
    )
    [stage] = [stage for stage in stages_of(recipe) if stage.name == "detections"]
    needed = dict.fromkeys(stage.needs, "")
    assert key_of(stage, recipe, needed) != key_of(stage, other, needed)


def test_a_detector_is_trained_anew_from_other_weights_of_the_same_name(folder: Path) -> None:
    recipe = load_recipe(folder / "mine.toml")
    weights = folder / "weights.safetensors"
    recipe = replace(recipe, data=replace(recipe.data, weights=str(weights)))
    [stage] = [stage for stage in stages_of(recipe) if stage.name == "detector"]
    keys = set()
    for content in (b"some", b"other", b"some"):
        weights.write_bytes(content)
        keys.add(key_of(stage, recipe, dict.fromkeys(stage.needs, "")))
    assert len(keys) == 2


def test_photographs_that_all_fall_into_one_half_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = np.zeros((1, 1), np.float32)
    table = RegionTable(nothing.astype(np.float16), ("1", "2"), ((), ()), nothing, nothing[0])
    monkeypatch.setattr(all_frozen, "regions_of", lambda *_: table)
    monkeypatch.setattr("sightwords.train.split.half_by_hash", lambda *_, **__: 0)
    job: Any = SimpleNamespace(recipe=load_recipe(folder / "mine.toml"))
    vocabulary = Vocabulary(("a",), (1,), 1)
    with pytest.raises(CorpusError, match=r"2 training images .* half"):
        all_frozen.frozen_folds(
            job, folder / "base", vocabulary, Split(0, frozenset(), frozenset())
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\n", "train is empty.*sightwords train all photos.csv"),
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


def test_a_time_limit_and_stages_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "all", str(folder / "mine.toml"), "--out", str(folder / "out")]
    assert main([*command, "--max-minutes", "0"]) == 75
    said = capsys.readouterr()
    assert json.loads(said.out) == {"bundle": None, "stages": {}, "stopped": "vocabulary"}
    assert "stage vocabulary" in said.err
    assert main([*command, "--until", "vocabulary"]) == 0
    assert json.loads(capsys.readouterr().out)["stopped"] is None
    assert main([*command, "--only", "mert"]) == 1
    assert "'calibration', which is not finished" in capsys.readouterr().err
    assert main([*command, "--only", "teachers"]) == 1
    assert "'teachers'" in capsys.readouterr().err


def test_too_few_photographs_are_refused(folder: Path) -> None:
    lines = (folder / "photos.csv").read_text("utf-8").splitlines()[:21]
    (folder / "photos.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(CorpusError, match="10 captioned images; a captioner needs at least 20"):
        train_all(load_recipe(folder / "mine.toml"), folder / "out")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"validation": "photos.csv"}, "in train and in validation"),
        ({"more": "photos.csv"}, "in train and in more"),
        ({"validation": "others.csv", "more": "others.csv"}, "in validation and in more"),
        ({"train": "spelled.csv"}, "'0907' and '907'"),
        ({"validation": "tested.jsonl"}, "test images, the first 'x'"),
    ],
)
def test_no_image_serves_two_purposes(folder: Path, data: dict[str, str], message: str) -> None:
    """One that was learned from must not be judged by."""
    lines = (folder / "photos.csv").read_text("utf-8").splitlines()
    first = lines[1].partition(",")[0]
    for name, images in (("others", ["x"]), ("spelled", ["907", "0907"])):
        rows = [f"{image}{Path(first).suffix},a red square" for image in images]
        (folder / f"{name}.csv").write_text("\n".join([lines[0], *rows]), encoding="utf-8")
        for image in images:
            shutil.copy(folder / first, folder / f"{image}{Path(first).suffix}")
    tested = {"image": f"x{Path(first).suffix}", "captions": ["a dog"], "split": "test", "id": "x"}
    (folder / "tested.jsonl").write_text(json.dumps(tested) + "\n", encoding="utf-8")
    recipe = load_recipe(folder / "mine.toml")
    named = {use: (str(folder / name),) for use, name in data.items()}
    train = (*recipe.data.train, *named.pop("train", ()))
    changed = replace(
        recipe.data, train=train, validation=named.get("validation", ()), more=named.get("more", ())
    )
    with pytest.raises(sightwords.SightwordsError, match=message):
        train_all(replace(recipe, data=changed), folder / "out", until="vocabulary")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('language_base = "nowhere"', "language_base: nowhere holds no language model"),
        ('text = ["nowhere.txt"]', r"nowhere\.txt: no such file; check the path \(it is relative"),
        ('validation = ["nowhere.csv"]', r"nowhere\.csv: no such file"),
    ],
)
def test_what_is_not_there_is_said_before_anything_runs(
    folder: Path, setting: str, message: str
) -> None:
    text = (folder / "mine.toml").read_text("utf-8").replace("[data]", f"[data]\n{setting}")
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(sightwords.SightwordsError, match=message):
        train_all(load_recipe(folder / "mine.toml"), folder / "out")
    assert not (folder / "out.training").exists()


@pytest.mark.parametrize(
    ("start", "backbone", "refused"),
    [
        ("", "dinov2-vits14", True),
        ("", "vgg16", True),
        ("", "efficientnet-lite2", False),  # its package has weights
        ('weights = "random"', "dinov2-vits14", False),
        ('weights = "facebook/dinov2-small"', "dinov2-vits14", False),
        ('base = "{folder}/base"', "dinov2-vits14", False),
    ],
)
def test_random_numbers_must_be_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: str, backbone: str, refused: bool
) -> None:
    """Hours are spent on what a line of settings would have made good."""

    def begin(*_: Any, **__: Any) -> None:
        raise InterruptedError("it begins")

    monkeypatch.setattr("sightwords.train.all.run_stages", begin)
    train = f'[data]\ntrain = ["{folder.as_posix()}/photos.csv"]\n{start}\n'
    settings = f'{train}[words]\nbackbone = "{backbone}"\n'
    (folder / "mine.toml").write_text(settings.format(folder=folder.as_posix()), encoding="utf-8")
    expected: type[Exception]
    expected, said = InterruptedError, "it begins"
    if refused:
        expected, said = ConfigError, 'would start from random .* base = "default" .* = "random"'
    with pytest.raises(expected, match=said):
        train_all(load_recipe(folder / "mine.toml"), folder / "out")


def test_random_numbers_are_no_file_of_weights(folder: Path) -> None:
    plain = load_recipe(folder / "mine.toml")
    recipe = replace(plain, data=replace(plain.data, weights="random"))
    assert recipe.weights is None
    [stage] = [stage for stage in stages_of(recipe) if stage.name == "detector"]
    needed = dict.fromkeys(stage.needs, "")
    assert key_of(stage, recipe, needed) == key_of(stage, plain, needed)


def test_what_is_not_learned_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = folder / "photos.csv"
    header, *lines = manifest.read_text("utf-8").splitlines()
    gone = [line.replace(line.partition(",")[0], "gone.png") for line in lines[20:22]]
    empty = [f"{lines[22].partition(',')[0]},"]
    manifest.write_text("\n".join([header, *lines[:20], *gone, *empty]), encoding="utf-8")
    with pytest.raises(CorpusError, match="captioned images"):
        train_all(load_recipe(folder / "mine.toml"), folder / "out")
    [said] = [record.getMessage() for record in caplog.records]
    assert "1 missing-image" in said
    assert "1 empty-caption" in said
    assert said.endswith(f"sightwords data inspect {manifest.as_posix()}")
    manifest.write_text("\n".join(["photo;words", *lines]), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"image_column.* 'sightwords data convert'"):
        train_all(load_recipe(folder / "mine.toml"), folder / "out")


def test_a_folder_that_is_no_bundle_is_left_alone(folder: Path) -> None:
    with pytest.raises(sightwords.SightwordsError, match="not a bundle"):
        train_all(load_recipe(folder / "mine.toml"), folder)
    assert (folder / "photos.csv").exists()
