"""benchmarks/places.py: each step's map, on patches worked out by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sightwords.images import patch_regions, region_boxes
from sightwords.samples import sample_paths
from sightwords.types import Box, Example, ImageRef, Patches, RegionScores

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = None
    for name in ("localisation", "places"):
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    assert module is not None
    return module


def _seen() -> RegionScores:
    """A field with a sure patch in a corner, and a dog in the middle that is looked at."""
    cells = region_boxes(16, 16, window=1, stride=1, canvas=16).corners.astype(np.float32)
    logits = np.full((16, 16, 1), 0.5, dtype=np.float32)
    logits[1, 1], logits[6:10, 6:10] = 5, 0.0
    attention = np.full((16, 16), 0.001, dtype=np.float32)
    attention[6:10, 6:10] = 0.05
    probs = np.zeros((12, 12, 1), dtype=np.float32)
    probs[11, 11] = 0.5
    corners = patch_regions().corners.astype(np.float32)
    return RegionScores(probs, corners, patches=Patches(logits, attention, cells))


def test_each_step_moves_the_peak_as_it_should(script: ModuleType) -> None:
    found = {name: (16 * points[0]).tolist() for name, points in script.variants(_seen(), [0])}
    assert found["regions"] == pytest.approx([13.5, 13.5])
    assert found["patches"] == pytest.approx([1.5, 1.5])
    assert 6 <= found["attention for all words"][0] <= 10  # a field is drawn to the dog
    kept = found["attention for words with their share"]
    assert kept == pytest.approx(found["smoothed"])  # and here it is not
    assert not 6 <= kept[0] <= 10


def test_a_detector_without_patches_is_named(script: ModuleType) -> None:
    regions = RegionScores(np.zeros((12, 12, 1), np.float32))
    with pytest.raises(SystemExit, match="sightwords train places"):
        next(iter(script.variants(regions, [0])))


def test_boxes_by_their_share_of_the_peak(script: ModuleType) -> None:
    """Around the highest cell alone a box is small; with all that speaks for the word, large."""

    def seer(image: object, *, name: str) -> RegionScores:
        del image, name
        return _seen()

    words = ("dog",)
    seer.vocabulary = SimpleNamespace(words=words, index=words.index)  # type: ignore[attr-defined]
    example = Example("9", ImageRef(str(sample_paths()[0])), ("a dog",), "train", "hand-made")
    boxes = {"9": {"dog": [Box(2 / 16, 2 / 16, 3 / 16, 3 / 16)]}}
    rows = script.box_table(seer, [example], boxes, [0.05, 0.99]).rows
    assert rows == (("0.05", "0.0"), ("0.99", "100.0"))
