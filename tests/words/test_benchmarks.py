"""The measuring scripts of `benchmarks/` on the tiny colour detector: figures worked by hand."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# Red at the top right, a quarter of the image; its region's middle is (5/8, 1/8) or next to it.
RED = (20, 0, 40, 20)


def _script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = BENCHMARKS / f"{name}.py"
    if not path.exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """Four images on white: red at the top right in the even ones, and the captions say so."""
    path = tmp_path / "tiny-00.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(4):
            image = Image.new("RGB", (40, 40), "white")
            if number % 2 == 0:
                image.paste((255, 0, 0), RED)
            picture = io.BytesIO()
            image.save(picture, "PNG")
            caption = "a red thing" if number % 2 == 0 else "a white wall"
            meta = {"key": f"{number:04d}", "captions": [caption] * 5, "split": "test"}
            for ext, data in (("png", picture.getvalue()), ("json", json.dumps(meta).encode())):
                info = tarfile.TarInfo(f"{number:04d}.{ext}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def _main(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, arguments)])
    module.main()


def test_words_writes_scores_and_the_table(
    shard: Path,
    colour_detector: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = _script("words", monkeypatch)
    _main(script, monkeypatch, colour_detector, "--images", shard, "--out", tmp_path / "out")
    with np.load(tmp_path / "out" / "scores.npz") as arrays:
        red = arrays["scores"][:, arrays["words"].tolist().index("red")]
    assert red[[0, 2]].min() > 0.99 > 0.01 > red[[1, 3]].max()
    first = capsys.readouterr().out
    table = json.loads((tmp_path / "out" / "table.json").read_text(encoding="utf-8"))
    assert table["means"]["All"]["words_with_ap"] == 3  # a, red, white
    again = ("--scores", tmp_path / "out" / "scores.npz", "--out", tmp_path / "again")
    _main(script, monkeypatch, colour_detector, "--images", shard, *again)
    assert capsys.readouterr().out.splitlines()[4:7] == first.splitlines()[4:7]


@pytest.mark.parametrize(
    ("box", "peak", "centre"),
    [
        ([0.5, 0.0, 1.0, 0.5], "100.0", "100.0"),  # its corner is the centre, the edge included
        ([0.55, 0.0, 1.0, 0.45], "100.0", "0.0"),
        ([0.0, 0.45, 0.55, 1.0], "0.0", "100.0"),
    ],
)
def test_the_pointing_game(
    box: list[float],
    peak: str,
    centre: str,
    shard: Path,
    colour_detector: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = _script("localisation", monkeypatch)
    monkeypatch.setattr(script, "NAMES", {"thing": "red", "wall": "white"})
    # a wall has a box in an image whose captions do not name it: no pair
    things = [{"label": "thing", "box": box}, {"label": "wall", "box": [0, 0, 1, 1]}]
    boxes = tmp_path / "boxes.json.gz"
    boxes.write_bytes(gzip.compress(json.dumps({"0000": things, "0002": things}).encode()))
    _main(script, monkeypatch, colour_detector, "--images", shard, "--boxes", boxes)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert rows[2][1] == peak
    assert rows[3][1] == centre
    assert rows[4][1:3] == ["2", "1"]


def test_the_pointing_game_by_both_maps_and_kinds_of_things(
    shard: Path,
    colour_detector: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = _script("localisation", monkeypatch)
    monkeypatch.setattr(script, "NAMES", {"thing": "red"})
    monkeypatch.setattr(script, "GROUPS", {"things": "thing", "none": "other"})
    coco = {  # as COCO writes it: x, y, width and height in pixels
        "images": [{"id": 2, "width": 200, "height": 100}],
        "categories": [{"id": 7, "name": "thing"}],
        "annotations": [{"image_id": 2, "category_id": 7, "bbox": [100, 25, 50, 75]}],
    }
    assert script.coco_boxes(coco) == {
        "000000000002": [{"label": "thing", "box": [0.5, 0.25, 0.75, 1.0]}]
    }
    boxes = tmp_path / "boxes.json"
    boxes.write_text(json.dumps({"0000": [{"label": "thing", "box": [0, 0, 1, 1]}]}))
    options = ("--images", shard, "--boxes", boxes, "--regions", "--groups")
    _main(script, monkeypatch, colour_detector, *options)
    lines = capsys.readouterr().out.splitlines()
    name = colour_detector.name  # it has no patches, so both maps are that of the regions
    assert f"|  | pairs | {name}, regions, % | {name}, % | centre, % |" in lines
    assert "| things | 1 | 100.0 | 100.0 | 100.0 |" in lines
    assert not any("none" in line for line in lines)


def test_calibration_measures_a_detector_whose_scores_are_true(
    tmp_path: Path,
    colour_detector: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = _script("calibration", monkeypatch)
    words = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
    for name, seed in (("fit", 0), ("test", 1)):
        rng = np.random.default_rng(seed)
        scores = rng.beta(0.5, 1.5, size=(2000, len(words)))
        true = rng.random(scores.shape) < scores
        ids = [str(i) for i in range(len(scores))]
        np.savez(tmp_path / f"{name}.npz", ids=np.array(ids), words=np.array(words), scores=scores)
        with (tmp_path / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for i, row in zip(ids, true, strict=True):
                caption = " ".join(w for w, t in zip(words, row, strict=True) if t) or "nothing"
                file.write(json.dumps({"id": i, "captions": [caption] * 5}) + "\n")
    files = [
        *("--fit", tmp_path / "fit.npz", "--fit-captions", tmp_path / "fit.jsonl"),
        *("--test", tmp_path / "test.npz", "--test-captions", tmp_path / "test.jsonl"),
    ]
    (colour_detector / "calibration.json").unlink()
    _main(script, monkeypatch, colour_detector, *files, "--save")
    printed = capsys.readouterr().out
    assert "fitted on 2000 images, measured on 2000" in printed
    row = next(line for line in printed.splitlines() if line.startswith("| shrunk |"))
    assert row.endswith("| yes |")
    assert (colour_detector / "calibration.json").exists()
