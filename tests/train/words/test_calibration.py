"""From held-out photographs to calibration.json."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from sightwords.config import Config, WordsConfig  # noqa: E402
from sightwords.errors import CorpusError  # noqa: E402
from sightwords.train.words.calibration import calibrate_detector, equally_captioned  # noqa: E402
from sightwords.train.words.export import export_detector  # noqa: E402
from sightwords.train.words.run import fit_detector  # noqa: E402
from sightwords.words.detector import Detector  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def detector(tiny_net: Any, squares: Any, toy_config: WordsConfig, tmp_path: Path) -> Path:
    made = squares(200)
    network = fit_detector(made.table(), made.vocabulary, toy_config, weights=None, size_px=48)
    config = replace(Config(), words=toy_config)
    return export_detector(network, made.vocabulary, config, tmp_path / "detector").directory


def test_a_trained_detector_is_precise_about_new_squares(
    detector: Path, squares: Any, tmp_path: Path
) -> None:
    held_out = squares(120, seed=5)
    for captions in held_out.captions:
        captions[:] = [" and ".join(captions)]  # as many for each image
    seen: list[int] = []
    calibration = calibrate_detector(
        detector, held_out.examples(tmp_path / "in"), threads=1, progress=seen.append
    )
    assert calibration.images == 120
    assert seen == list(range(1, 121))
    loaded = Detector.load(detector, threads=1)
    new = squares(20, seed=6)
    for example, places in zip(new.examples(tmp_path / "new"), new.corners, strict=True):
        assert example.image is not None
        found = {w.word: w.precision for w in loaded.words(example.image.location).words}
        for colour in ("red", "blue"):
            assert (found.get(colour, 0) > 0.9) == (colour in places)


def test_images_with_fewer_captions_are_left_out(
    detector: Path, squares: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = squares(40, seed=7)
    for number, captions in enumerate(made.captions):
        captions[:] = ["a"] if number < 4 else ["a", "a square"]
    examples = made.examples(tmp_path / "in")
    (tmp_path / "in" / "039.png").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        calibration = calibrate_detector(detector, examples, threads=1)
    assert calibration.images == 35
    assert "4 images with fewer than 2 captions left out" in caplog.text
    assert "left out 039" in caplog.text


def test_no_image_is_an_error(detector: Path) -> None:
    with pytest.raises(CorpusError, match="calibrate"):
        calibrate_detector(detector, [], threads=1)


@pytest.mark.parametrize(
    ("numbers", "count", "rows"),
    [([5, 7, 5, 1], 5, [0, 1, 2]), ([1, 1, 5], 1, [0, 1, 2]), ([1, 2], 2, [1])],
)
def test_as_many_captions_as_most_images_have(
    numbers: list[int], count: int, rows: list[int]
) -> None:
    assert equally_captioned(numbers) == (count, rows)
