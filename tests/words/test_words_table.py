"""`benchmarks/words_table.py` and the peaks it plays with: figures worked by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WORDS = ("dog", "runs")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (BENCHMARKS / "words_table.py").exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("localisation", "words_table"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import words_table  # type: ignore[import-not-found]

    module: ModuleType = words_table
    return module


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two images, a dog in the first; good scores that peak left, bad ones that peak right."""
    captions = {"7": ["a dog"] * 2, "8": ["it runs"] * 2}
    with (tmp_path / "captions.jsonl").open("w", encoding="utf-8") as file:
        for key, said in captions.items():
            file.write(json.dumps({"id": key, "captions": said}) + "\n")
    boxes = {"7": [{"label": "dog", "box": [0.0, 0.0, 0.4, 1.0]}]}
    (tmp_path / "boxes.json").write_text(json.dumps(boxes), encoding="utf-8")
    save_vocabulary(Vocabulary(WORDS, (2, 1), 5, ("NN", "VB")), tmp_path / "vocabulary.json")
    for name, scores, peak in (("good", [[0.9, 0.1], [0.1, 0.9]], 0), ("bad", [[0, 1], [1, 0]], 1)):
        np.savez(
            tmp_path / f"{name}.npz",
            ids=np.array(["7", "8"]),
            words=np.array(WORDS),
            scores=np.array(scores, dtype=np.float16),
            peak_words=np.array(["dog"]),
            peaks=np.full((2, 1), peak, dtype=np.uint8),
            corners=np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]], dtype=np.float32),
        )
    return tmp_path


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, files: Path, *more: str) -> None:
    options = ["--captions", str(files / "captions.jsonl")]
    options += ["--vocabulary", str(files / "vocabulary.json")]
    rows = [f"Good={files / 'good.npz'}", f"Bad={files / 'bad.npz'}"]
    stated = [word for word in more if "#" in word]
    more = tuple(word for word in more if "#" not in word)
    monkeypatch.setattr(sys, "argv", ["words_table", *rows, *stated, *options, *more])
    script.main()


def cells(text: str, row: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {row} |")]
    return [line.strip("| ").split(" | ") for line in lines]


def test_ap_phr_and_places_of_each_row(
    script: ModuleType,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = files / "page.md"
    page.write_text("above\n<!-- words_table -->\nold\n<!-- end -->\nbelow\n", encoding="utf-8")
    run(script, monkeypatch, files, "--boxes", str(files / "boxes.json"), "--write", str(page))
    printed = capsys.readouterr().out
    ap, phr, places = cells(printed, "Good")
    assert (ap[1], ap[2], ap[-1], phr[1]) == ("100.0", "100.0", "100.0", "100.0")
    assert places[1:3] == ["100.0", "100.0"]
    bad_ap, _, bad_places = cells(printed, "Bad")
    assert bad_ap[1] == "50.0"  # the one right image comes second: tp 1 of tp 1 and fp 1
    assert bad_places[1] == "0.0"
    assert cells(printed, "centre of the image")[0][1] == "0.0"
    written = page.read_text(encoding="utf-8")
    assert "old" not in written
    assert written.startswith("above\n")
    assert written.endswith("<!-- end -->\nbelow\n")
    assert cells(written, "Good") == cells(printed, "Good")


def test_rows_of_different_images_are_refused(
    script: ModuleType, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(files / "bad.npz") as arrays:
        fewer = {key: arrays[key] for key in arrays}
    fewer["ids"], fewer["scores"] = fewer["ids"][:1], fewer["scores"][:1]
    np.savez(files / "bad.npz", **fewer)
    with pytest.raises(SystemExit, match="different images"):
        run(script, monkeypatch, files)


def test_a_row_stated_in_a_results_file(
    script: ModuleType,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = {
        pos: {"ap": 12.34, "phr": 56.78}
        for pos in ("NN", "VB", "JJ", "DT", "PRP", "IN", "Others", "All")
    }
    lines = [{"row": "vgg", "images": 2, **figures}, {"row": "other", "images": 2, **figures}]
    lines[0]["All"] = {"ap": 9.96, "phr": 1.0}
    results = files / "results.jsonl"
    results.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    run(script, monkeypatch, files, f"Stated={results}#vgg")
    ap, phr = cells(capsys.readouterr().out, "Stated")
    assert (ap[1], ap[-1], phr[1], phr[-1]) == ("12.3", "10.0", "56.8", "1.0")
    with pytest.raises(SystemExit, match="no row 'lost'; it has \\['other', 'vgg'\\]"):
        run(script, monkeypatch, files, f"Stated={results}#lost")
    lines[0]["images"] = 3
    results.write_text(json.dumps(lines[0]) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="different images"):
        run(script, monkeypatch, files, f"Stated={results}#vgg")


def test_a_page_without_markers_is_left_alone(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="words_table"):
        script.between_markers("no marks", "tables")
