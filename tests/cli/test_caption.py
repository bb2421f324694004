"""`sightwords caption`: lines, JSON, figures, lists on stdin, and what it says about bad input."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from sightwords.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.new("RGB", (30, 20), "red").save(tmp_path / "red.png")
    Image.new("RGB", (30, 20), "blue").save(tmp_path / "sky.png")
    return tmp_path


def _run(bundle: Path, *arguments: object) -> int:
    return main(["caption", *map(str, arguments), "--bundle", str(bundle), "--set", "threads=1"])


def test_one_line_a_photograph(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tiny_bundle, folder / "red.png", folder / "sky.png") == 0
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith(f"{folder / 'red.png'}: ")
    assert "red 100%" in first
    assert second.startswith(f"{folder / 'sky.png'}: ")
    assert "blue 100%" in second
    assert err == ""


def test_words_and_n_best_stand_below(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tiny_bundle, folder / "red.png", "--words", "--n-best", 2) == 0
    _, *below = capsys.readouterr().out.splitlines()
    assert all(line.startswith("  ") for line in below)
    words = [line for line in below if "precision" in line]
    assert any(line.split()[0] == "red" and line.endswith("used") for line in words)
    sentences = below[len(words) :]
    assert len(sentences) == 2
    scores = [float(line.split()[0]) for line in sentences]
    assert scores == sorted(scores, reverse=True)


def test_json_has_all_that_is_known(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tiny_bundle, folder / "red.png", "--json", "--n-best", 3) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["image"] == str(folder / "red.png")
    assert record["confidence"] is None  # this bundle has no confidence model
    assert len(record["n_best"]) == 3
    best = record["n_best"][0]
    assert best["caption"] == record["caption"]
    total = sum(record["weights"][name] * value for name, value in best["features"].items())
    assert total == pytest.approx(best["score"], abs=1e-3)
    assert list(record["seconds"]) == [
        "decode", "detect", "pool", "calibrate", "generate", "choose"
    ]  # fmt: skip
    red = next(word for word in record["words"] if word["word"] == "red")
    assert red["used"] is True
    assert len(red["box"]) == 4


def test_wishes(folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--require", "green", "--forbid", "dog", "--min-precision", 0.9)
    assert _run(tiny_bundle, folder / "red.png", *options) == 0
    caption = capsys.readouterr().out.partition(": ")[2].partition("  [")[0].split()
    assert "green" in caption
    assert "dog" not in caption
    assert _run(tiny_bundle, folder / "red.png", "--require", "zebra") == 1
    assert "zebra" in capsys.readouterr().err


def test_a_misspelt_forbidden_word_is_named(
    folder: Path, tiny_bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert _run(tiny_bundle, folder / "red.png", "--forbid", "dgog") == 0
    [record] = caplog.records
    assert record.levelname == "WARNING"  # which the command line writes to stderr
    assert "'dgog' (did you mean 'dog'?)" in record.message


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
def test_names_of_any_bytes_on_stdin(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photograph = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Image.new("RGB", (8, 8), "red").save(os.fsdecode(photograph), format="PNG")
    listed = io.TextIOWrapper(io.BytesIO(photograph + b"\n"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", listed)
    said = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(said, encoding="utf-8", write_through=True))
    assert _run(tiny_bundle, "-") == 0
    assert b"caf\xe9.png: " in said.getvalue()


def test_stdin_patterns_and_samples(
    folder: Path,
    tiny_bundle: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{folder / 'sky.png'}\n\n"))
    assert _run(tiny_bundle, "-", folder / "*.png", "--samples") == 0
    names = [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]
    expected = [folder / "sky.png", folder / "red.png", folder / "sky.png"]
    assert names[:3] == list(map(str, expected))
    assert len(names) == 3 + 5


def test_figures(folder: Path, tiny_bundle: Path) -> None:
    (folder / "more").mkdir()
    Image.new("RGB", (30, 20), "white").save(folder / "more" / "red.png")
    photographs = [folder / "red.png", folder / "more" / "red.png", folder / "sky.png"]
    assert _run(tiny_bundle, *photographs, "--explain", folder / "out") == 0
    names = {path.name for path in (folder / "out").iterdir()}
    assert names == {"red-1.png", "red-2.png", "sky.png"}
    with Image.open(folder / "out" / "sky.png") as figure:
        assert figure.width > 800


def test_figures_that_cannot_be_written(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "red.png"
    assert _run(tiny_bundle, folder / "sky.png", "--explain", file) == 1
    assert f"--explain {file}: cannot be made" in capsys.readouterr().err
    (folder / "out" / "sky.png").mkdir(parents=True)  # where the figure would be
    assert _run(tiny_bundle, folder / "sky.png", "--explain", folder / "out") == 1
    err = capsys.readouterr().err
    assert f"{folder / 'out' / 'sky.png'}: cannot be written" in err
    assert "report" not in err


def test_too_little_memory_to_decode_anything_is_refused(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _run(tiny_bundle, folder / "sky.png", "--set", "max_memory=1")
    assert ended.value.code == 2
    assert "max_memory is 1" in capsys.readouterr().err


def test_bad_photographs_are_named_and_the_others_go_on(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.jpg").write_bytes(b"no image")
    photographs = [folder / "bad.jpg", folder / "none.jpg", folder, folder / "red.png"]
    assert _run(tiny_bundle, *photographs) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{folder / 'red.png'}: ")
    errors = captured.err.splitlines()
    assert len(errors) == 3
    assert "bad.jpg" in errors[0]
    assert "none.jpg" in errors[1]
    assert "is a directory" in errors[2]


@pytest.mark.parametrize(
    "options",
    [["--min-precision", "1.5"], ["--min-precision", "x"], ["--n-best", "x"], ["--n-best", "0"]],
)
def test_bad_options_are_usage_errors(folder: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["caption", str(folder / "red.png"), *options])
    assert caught.value.code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_names_that_are_no_text(folder: Path, tiny_bundle: Path) -> None:
    odd = os.fsencode(folder) + b"/caf\xe9.png"
    shutil.copy(folder / "red.png", os.fsdecode(odd))
    command = [sys.executable, "-m", "sightwords", "caption", os.fsdecode(odd)]
    command += ["--bundle", str(tiny_bundle)]
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    plain = subprocess.run(command, capture_output=True, check=True, env=env)
    assert plain.stdout.startswith(odd + b": ")
    as_json = subprocess.run([*command, "--json"], capture_output=True, check=True, env=env)
    assert os.fsencode(json.loads(as_json.stdout)["image"]) == odd


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_a_name_with_a_line_break_takes_one_line(
    folder: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(folder / "red.png", folder / "two\nlines.png")
    assert main(["caption", str(folder / "two\nlines.png"), "--bundle", str(tiny_bundle)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert "two\\nlines.png: " in line


def test_no_such_bundle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder / "nowhere", folder / "red.png") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "nowhere: no such directory or file" in captured.err
