"""`benchmarks/words_plot.py`: times meet precisions, and a picture comes out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (BENCHMARKS / "words_plot.py").exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delitem(sys.modules, "words_plot", raising=False)
    import words_plot  # type: ignore[import-not-found]

    module: ModuleType = words_plot
    return module


@pytest.fixture
def files(tmp_path: Path) -> Path:
    times = {"alexnet:565:float32:noisy_or": 200.0, "dinov2-vits14:224:int8:noisy_or": 50.0}
    (tmp_path / "times.json").write_text(json.dumps(times), encoding="utf-8")
    rows = [
        {"row": "alexnet-mil", "backbone": "alexnet", "size_px": 565, "ap": 25.0},
        {"row": "alexnet-mil-at-565", "backbone": "alexnet", "size_px": 565, "ap": 1.0},
    ]
    lines = [json.dumps({**r, "pooling": "noisy_or", "All": {"ap": r["ap"]}}) for r in rows]
    (tmp_path / "results.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_a_network_trained_at_its_size_goes_before_one_used_at_it(
    script: ModuleType, files: Path
) -> None:
    found = script.precisions([files / "results.jsonl"], ["dinov2-vits14:224:int8=43.1"])
    assert found == {
        script.Kind("alexnet", 565): 25.0,
        script.Kind("dinov2-vits14", 224, "int8"): 43.1,
    }


def test_the_table_and_the_picture(
    script: ModuleType,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    picture = files / "plot.png"
    options = ["--times", str(files / "times.json"), "--results", str(files / "results.jsonl")]
    monkeypatch.setattr(sys, "argv", ["words_plot", "draw", *options, "--out", str(picture)])
    script.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["| ViT-S/14, int8 | 224 | 50 | – |", "| AlexNet | 565 | 200 | 25.0 |"]
    with Image.open(picture) as image:
        assert image.size == (910, 546)
