"""Object proposals: files, and OpenCV's searches where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightwords.errors import InputError, MissingExtraError
from sightwords.types import Box
from sightwords.words.proposals import Method, propose, read_proposals


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "boxes.jsonl"
    path.write_text(
        '{"id": 9, "boxes": [[0, 0, 0.5, 1], [0.25, 0, 1, 1]]}\n\n{"id": "b", "boxes": []}\n',
        encoding="utf-8",
    )
    assert read_proposals(path) == {
        "9": (Box(0.0, 0.0, 0.5, 1.0), Box(0.25, 0.0, 1.0, 1.0)),
        "b": (),
    }
    assert read_proposals(path, limit=1)["9"] == (Box(0.0, 0.0, 0.5, 1.0),)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"id": "9"}',
        '{"boxes": []}',
        '{"id": "9", "boxes": [[0, 0, 1]]}',
        '{"id": "9", "boxes": [[0, 0, 640, 480]]}',
        '{"id": "9", "boxes": [[0.5, 0, 0.5, 1]]}',
        '{"id": "9", "boxes": ["left"]}',
        '{"id": "1", "boxes": []}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "boxes.jsonl"
    path.write_text('{"id": "1", "boxes": []}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"boxes\.jsonl:2: "):
        read_proposals(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl"):
        read_proposals(tmp_path / "none.jsonl")


def test_without_opencv_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cv2", raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingExtraError, match=r"sightwords\[proposals\]"):
        propose(Image.new("RGB", (32, 32)))


@pytest.mark.parametrize("method", ["selective_search", "edge_boxes"])
def test_a_square_is_found(method: Method) -> None:
    pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 40, (200, 300, 3), dtype=np.uint8)
    pixels[50:150, 100:220] = rng.integers(200, 240, (100, 120, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    boxes = propose(image, method=method, limit=50)
    assert 0 < len(boxes) <= 50
    assert len(set(boxes)) == len(boxes)
    assert boxes == propose(image, method=method, limit=50)
    assert max(_overlap(box, Box(1 / 3, 0.25, 220 / 300, 0.75)) for box in boxes) > 0.8


def test_an_unknown_method_is_refused() -> None:
    pytest.importorskip("cv2")
    with pytest.raises(InputError, match="selective_search"):
        propose(Image.new("RGB", (32, 32)), method="magic")  # type: ignore[arg-type]


def _overlap(a: Box, b: Box) -> float:
    width = max(0.0, min(a.x1, b.x1) - max(a.x0, b.x0))
    height = max(0.0, min(a.y1, b.y1) - max(a.y0, b.y0))
    both = (a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0)
    return width * height / (both - width * height)
