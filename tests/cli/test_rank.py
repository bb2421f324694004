"""`sightwords rank`: which sentence fits, and what it says about bad input."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from sightwords.cli.main import main
from sightwords.images import Normalization
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec

TESTS = Path(__file__).parents[1]
WORDS = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
UNIT = Normalization("RGB", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The colour detector, its similarity model, a red photograph, three sentences."""
    detector = tmp_path / "words"
    detector.mkdir()
    shutil.copy(TESTS / "words" / "data" / "colours.onnx", detector / "network.onnx")
    save_vocabulary(Vocabulary(WORDS, tuple(range(80, 0, -10)), 360), detector / "vocabulary.json")
    DetectorSpec(
        backbone="colours",
        pooling="noisy_or",
        input=InputSpec(resize="square", size_px=16, resample="bilinear", normalization=UNIT),
        grid=GridSpec(rows=4, columns=4, window=1, stride=1, canvas=4),
        words=len(WORDS),
    ).save(detector)
    shutil.copytree(TESTS / "rerank" / "data" / "dmsm", tmp_path / "dmsm")
    Image.new("RGB", (40, 30), (230, 20, 20)).save(tmp_path / "red.png")
    text = "A blue wall.\n\nThe wall is red!\na green wall\n"
    (tmp_path / "sentences.txt").write_text(text, encoding="utf-8")
    return tmp_path


def _rank(folder: Path, *options: str, sentences: str = "sentences.txt") -> int:
    source = sentences if sentences == "-" else str(folder / sentences)
    return main(
        ["rank", str(folder / "red.png"), "--sentences", source, "--parts", str(folder), *options]
    )


def test_the_best_comes_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _rank(folder) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("  The wall is red!")


def test_json_has_rank_score_and_share(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _rank(folder, "--json", "--set", "threads=1") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["sentence"] == "The wall is red!"
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)
    assert [row["score"] for row in rows] == sorted((r["score"] for r in rows), reverse=True)


def test_sentences_from_stdin(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"a green wall\na red wall\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert _rank(folder, "--n-best", "1", sentences="-") == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("a red wall")


def test_equal_sentences_keep_their_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "same.txt").write_text("A red wall\na red wall\n", encoding="utf-8")
    assert _rank(folder, sentences="same.txt") == 0
    assert [x.split("  ")[-1] for x in capsys.readouterr().out.splitlines()] == [
        "A red wall",
        "a red wall",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n\n", "holds no sentence"),
        (b"a red wall\n...\n", "'...' has no words"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_bad_sentence_files_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (folder / "bad.txt").write_bytes(content)
    assert _rank(folder, sentences="bad.txt") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_missing_things_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _rank(folder, sentences="none.txt") == 1
    assert "cannot be read" in capsys.readouterr().err
    shutil.rmtree(folder / "dmsm")
    assert _rank(folder) == 1
    assert "holds no dmsm.json" in capsys.readouterr().err


def test_a_bundle_and_parts_contradict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _rank(folder, "--bundle", str(folder))
    assert ended.value.code == 2
    assert "--bundle" in capsys.readouterr().err


def test_no_sentences_cannot_be_the_best(folder: Path) -> None:
    with pytest.raises(SystemExit):
        _rank(folder, "--n-best", "0")
