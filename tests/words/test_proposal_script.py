"""`benchmarks/proposals.py`: boxes are searched, written, and judged by people's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from sightwords.errors import InputError
from sightwords.types import Box
from sightwords.words.proposals import read_proposals, write_proposals

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (BENCHMARKS / "proposals.py").exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("localisation", "proposals"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import proposals  # type: ignore[import-not-found]

    module: ModuleType = proposals
    return module


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    """A bright square on noise, with a caption in a CSV file."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 40, (90, 120, 3), dtype=np.uint8)
    pixels[20:70, 40:100] = rng.integers(200, 240, (50, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "1.png")
    path = tmp_path / "one.csv"
    path.write_text("image,caption\n1.png,a square\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["boxes.jsonl", "boxes.jsonl.gz"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    boxes = (Box(0.0, 0.25, 0.5, 1.0), Box(1 / 3, 0.0, 2 / 3, 0.5))
    assert write_proposals(tmp_path / name, [("9", boxes), ("none", ())]) == 2
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    found = read_proposals(tmp_path / name)
    assert found["none"] == ()
    assert found["9"] == (boxes[0], Box(0.3333, 0.0, 0.6667, 0.5))


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "boxes.jsonl.gz"
    write_proposals(path, [("9", [Box(0.0, 0.25, 0.5, 1.0)])])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"boxes\.jsonl\.gz: cannot be read"):
        read_proposals(path)


def test_search_and_quality(
    script: ModuleType,
    photograph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("cv2")
    [example] = script.open_corpus([str(photograph)])
    key, boxes = script.search((example, "edge_boxes", 20, 300))
    write_proposals(tmp_path / "boxes.jsonl", [(key, boxes)])
    truth = {key: [{"label": "square", "box": [1 / 3, 2 / 9, 5 / 6, 7 / 9]}]}
    (tmp_path / "people.json").write_text(json.dumps(truth), encoding="utf-8")
    options = ["--images", str(photograph), "--proposals", str(tmp_path / "boxes.jsonl")]
    options += ["--boxes", str(tmp_path / "people.json")]
    monkeypatch.setattr(sys, "argv", ["proposals", "quality", *options])
    script.main()
    printed = capsys.readouterr().out
    assert "1 things in 1 images" in printed
    assert "| 50 | 100.0 |" in printed


def test_half_in_common_by_number(script: ModuleType) -> None:
    proposals = np.array([[0, 0, 0.1, 0.1], [0, 0, 1, 0.6]])
    things = np.array([[0, 0, 1, 1.0], [0.5, 0.5, 1, 1]])
    met = script.meets(proposals, things)
    assert met.tolist() == [[False, True, True, True, True], [False] * 5]
