"""`sightwords train`: words from a CSV file to calibrated words of a photograph."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightwords.cli.main import main
from sightwords.cli.train.progress import ProgressLine
from sightwords.config import PRESETS, load_config


def _manifest(folder: Path, count: int = 60) -> Path:
    """Images that are wholly red or blue, and say so twice."""
    rng = np.random.default_rng(0)
    lines = ["image,caption"]
    for number in range(count):
        colour = ("red", "blue")[number % 2]
        pixels = rng.integers(0, 60, (20, 20, 3)).astype(np.uint8)
        pixels[..., 0 if colour == "red" else 2] += 180
        Image.fromarray(pixels).save(folder / f"{number:03d}.png")
        lines += [f"{number:03d}.png,a {colour} wall", f"{number:03d}.png,a wall so {colour}"]
    path = folder / "walls.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_settings_are_printed_as_a_file_that_reads_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ["--set", "words.epochs=2", "--set", "images.size_px=280"]
    assert main(["train", "words", "--print-config", *changes]) == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    config = load_config(path)
    assert (config.words.epochs, config.images.size_px) == (2, 280)
    assert config.words.backbone == PRESETS["default"].words.backbone
    command = ["train", "words", "--print-config", "--config", str(path)]
    assert main([*command, "--set", "words.batch_size=7"]) == 0
    assert "batch_size = 7" in capsys.readouterr().out


def test_the_paper_is_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "words", "--preset", "paper", "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert 'backbone = "vgg16"' in printed
    assert "learning_rate = 1.5625e-05" in printed


VERBS = ("words", "language", "dmsm", "mert", "all")


def test_one_file_means_the_same_in_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'preset = "paper"\n[data]\ntrain = ["x.csv"]\n[words]\nepochs = 2\n', encoding="utf-8"
    )
    printed = set()
    for verb in VERBS:
        assert main(["train", verb, "--config", str(path), "--print-config"]) == 0
        printed.add(capsys.readouterr().out)
    [text] = printed
    assert 'preset = "paper"' in text
    assert 'backbone = "vgg16"' in text
    for verb in VERBS:
        command = ["train", verb, "--config", str(path), "--preset", "default", "--print-config"]
        assert main(command) == 0
        printed.add(capsys.readouterr().out)
    [other] = printed - {text}
    assert 'backbone = "dinov2-vits14"' in other
    assert "epochs = 2" in other


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("language", "words.epochs=2"),
        ("dmsm", "run.stream=true"),
        ("words", "mert.bags=2"),
        ("all", "run.proposals=x"),
        ("mert", "data.base=default"),
    ],
)
def test_a_setting_that_the_verb_does_not_use_is_refused(
    verb: str, change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--parts" if verb == "mert" else "--out", str(tmp_path / "out")]
    assert main(["train", verb, "x.csv", "--set", change, *out]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert change.partition("=")[0] in line
    assert f"train {verb}" in line


def test_a_file_with_a_setting_that_no_verb_shares_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[run]\nstream = true\n", encoding="utf-8")
    assert main(["train", "words", "--config", str(path), "--print-config"]) == 0
    assert "stream = true" in capsys.readouterr().out
    assert main(["train", "dmsm", "--config", str(path), "--print-config"]) == 1
    error = capsys.readouterr().err
    assert str(path) in error
    assert "run.stream" in error


def test_a_former_option_names_its_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "words", "x.csv", "--out", "y", "--batch-size", "2"])
    assert "--set words.batch_size=VALUE" in capsys.readouterr().err


def test_a_settings_file_is_no_source(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "words", "mine.toml", "--out", "y"])
    assert "--config mine.toml" in capsys.readouterr().err


def test_sources_and_a_target_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "words"])
    assert "--out" in capsys.readouterr().err


def test_the_command_line_does_not_load_torch() -> None:
    code = "import sys, sightwords.cli.train; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_the_install_command_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["train", "words", "x.csv", "--out", str(tmp_path)]) == 1
    assert "pip install 'sightwords[train]'" in capsys.readouterr().err


def test_progress_off_a_terminal_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 10.0, 31.0, 31.0])
    monkeypatch.setattr("sightwords.cli.train.progress.time.monotonic", lambda: next(clock))
    line = ProgressLine()
    line.images(100)
    line.images(310)
    line.end()
    assert capsys.readouterr().err == "sightwords: 310 images, 10 images/s\n"


@pytest.mark.torch
@pytest.mark.slow
def test_from_a_csv_file_to_calibrated_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("onnxscript")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transformers.Dinov2Model(
        transformers.Dinov2Config(
            hidden_size=24, num_hidden_layers=1, num_attention_heads=2, patch_size=14
        )
    ).save_pretrained(tmp_path / "vit")
    settings = tmp_path / "mine.toml"
    settings.write_text(
        '[words]\nbackbone = "dinov2-vits14"\nepochs = 10\nbatch_size = 10\noptimizer = "adamw"\n'
        'schedule = "cosine"\nlearning_rate = 0.003\nhead_rate = 10.0\n'
        "[images]\nsize_px = 168\n",
        encoding="utf-8",
    )
    out, source = tmp_path / "detector", str(_manifest(tmp_path))
    command = ["train", "words", source, "--config", str(settings), "--val", source]
    command += ["--out", str(out), "--set", f"data.weights={tmp_path / 'vit'}", "--hold-out", "20"]
    command += ["--set", "run.device=cpu"]
    assert main(command) == 0
    captured = capsys.readouterr()
    row = json.loads(captured.out)
    assert row["words"] == 5  # a, wall, red, blue, so
    assert row["val_images"] == 60
    assert row["ap"] == pytest.approx(90, abs=1)  # so: one caption never agrees with another
    assert "step 40/40, loss" in captured.err
    assert main(command) == 0  # finished: nothing is trained or decoded again
    assert "step" not in capsys.readouterr().err

    calibrate = ["train", "calibration", str(out), source, "--hold-out", "20"]
    assert main(calibrate) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 20
    assert main(["words", str(tmp_path / "000.png"), "--detector", str(out)]) == 0
    assert "red" in capsys.readouterr().out.partition(": ")[2]

    assert main(["train", "quantise", str(out), "--out", str(tmp_path / "small")]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["network_bytes"] < (out / "network.onnx").stat().st_size
    assert main([*command, "--set", "words.epochs=11"]) == 1
    assert "other settings" in capsys.readouterr().err


def test_words_in_boxes_from_a_proposal_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    source = _manifest(tmp_path, count=6)
    boxes = tmp_path / "boxes.jsonl"
    lines = [{"id": f"{i:03d}", "boxes": [[0, 0, 0.5, 1], [0.5, 0, 1, 1]]} for i in range(6)]
    boxes.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    settings = tmp_path / "early.toml"
    settings.write_text(
        '[images]\nsize_px = 224\n[words]\nbackbone = "alexnet"\nregions = "proposals"\n'
        "proposals = 2\nfrozen = true\nepochs = 1\nbatch_size = 3\n",
        encoding="utf-8",
    )
    command = ["train", "words", str(source), "--config", str(settings)]
    command += ["--out", str(tmp_path / "d")]
    proposals = ["--set", f"run.proposals={boxes}"]
    with pytest.raises(SystemExit):
        main(command)
    assert "run.proposals" in capsys.readouterr().err
    assert main([*command, *proposals, "--val", str(source)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["difference_from_torch"] < 1e-3
    assert row["val_images"] == 6
    assert row["ap"] is not None
    calibrating = ["train", "calibration", str(tmp_path / "d"), str(source)]
    assert main([*calibrating, "--set", f"proposals={boxes}"]) == 0
    assert (tmp_path / "d" / "calibration.json").exists()
    capsys.readouterr()
    assert main(calibrating) != 0
    assert "boxes" in capsys.readouterr().err
    lines[3]["id"] = "other"
    boxes.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert main([*command, *proposals]) != 0
    assert "003" in capsys.readouterr().err
