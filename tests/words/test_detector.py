"""The whole of section 3 on a network whose answers can be worked out by hand."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightwords.errors import BundleError, ImageError
from sightwords.types import Box
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)
RED_WORD = 1


def _quarter(colour: tuple[int, int, int], *, ground: tuple[int, int, int]) -> Image.Image:
    """32 x 32 px, the top right quarter in one colour."""
    image = Image.new("RGB", (32, 32), ground)
    image.paste(colour, (16, 0, 32, 16))
    return image


def _logistic(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def test_regions_are_eq_2(colour_detector: Path) -> None:
    detector = Detector.load(colour_detector, threads=1)
    regions = detector(Image.new("RGB", (20, 20), RED))
    assert regions.region_probs.shape == (4, 4, 8)
    assert regions.region_probs.dtype == np.float32
    expected = [_logistic(x) for x in (2, 8, -24, -24, -24, -8, -1, -9)]
    np.testing.assert_allclose(regions.region_probs[2, 3], expected, rtol=1e-4)
    assert regions.features is not None
    np.testing.assert_allclose(regions.features, [[1, 0, 0]], atol=1e-6)
    assert regions.image_probs is None


@pytest.mark.parametrize(("said", "tokens", "place"), [
    (None, 1, 0), (None, 17, 0), (None, 18, 1), (1, 17, 1), (0, 18, 0), (4, 5, 4),
])  # fmt: skip
def test_the_token_of_the_whole_image_is_the_one_that_the_file_names(
    colour_detector: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: int | None,
    tokens: int,
    place: int,
) -> None:
    detector = Detector.load(colour_detector, threads=1)
    detector.spec = replace(detector.spec, whole_token=said)
    outputs = detector.network.run({"image": np.zeros((1, 3, 16, 16), np.float32)})
    outputs["features"] = np.repeat(outputs["features"], tokens, axis=1)
    monkeypatch.setattr(detector.network, "run", lambda *_, **__: outputs)
    assert detector(Image.new("RGB", (20, 20), RED)).whole_token == place


def test_pooling_is_eq_1(colour_detector: Path) -> None:
    detector = Detector.load(colour_detector, threads=1)
    scores = pool(detector(Image.new("RGB", (20, 20), RED)))
    # dog: 16 regions at sigmoid(-9)
    assert scores.image_probs[7] == pytest.approx(1 - (1 - _logistic(-9)) ** 16, rel=1e-3)
    assert scores.raw_scores[7] == pytest.approx(_logistic(-9), rel=1e-4)
    assert scores.image_probs.dtype == scores.raw_scores.dtype == np.float32


def test_classification_uses_its_own_verdict(make_detector: Callable[..., Path]) -> None:
    detector = Detector.load(make_detector("classes", pooling="whole_image"), threads=1)
    regions = detector(_quarter(RED, ground=WHITE))
    # the mean logit: a quarter at +8, three quarters at -24
    scores = pool(regions)
    assert scores.image_probs[RED_WORD] == pytest.approx(_logistic(-16), rel=1e-2)
    assert scores.raw_scores[RED_WORD] == pytest.approx(_logistic(8), rel=1e-3)


def test_words_come_with_their_place(colour_detector: Path) -> None:
    found = Detector.load(colour_detector, threads=1).words(_quarter(RED, ground=WHITE))
    words = {word.word: word for word in found.words}
    assert {"a", "the", "red", "white"} <= set(words)
    assert words["red"].box == Box(0.5, 0.0, 1.0, 0.5)
    assert words["red"].prob > 0.99
    assert words["red"].precision == pytest.approx(1, abs=0.05)
    precisions = [word.precision for word in found.words]
    assert precisions == sorted(precisions, reverse=True)
    assert found.threshold == 0.5


def test_three_content_words_at_least(colour_detector: Path) -> None:
    detector = Detector.load(colour_detector, threads=1)
    found = detector.words(Image.new("RGB", (8, 8), (90, 90, 90)), threshold=1.0)
    content = [w.word for w in found.words if w.word not in ("a", "the")]
    assert len(content) == 3
    assert found.words[-1].word == content[-1]  # not one word more


def test_nan_names_the_network_and_the_photograph(make_detector: Callable[..., Path]) -> None:
    detector = Detector.load(make_detector("broken"), threads=1)
    detector(Image.new("RGB", (8, 8), RED), name="red.png")
    with pytest.raises(BundleError, match=r"broken/network.onnx: .*features holds NaN .*sky\.png"):
        detector(Image.new("RGB", (8, 8), BLUE), name="sky.png")


def test_an_unreadable_photograph_is_named(colour_detector: Path, tmp_path: Path) -> None:
    detector = Detector.load(colour_detector, threads=1)
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"bad\.jpg"):
        detector.words(bad)
    stream = io.BytesIO()
    Image.new("RGB", (9, 9), RED).save(stream, "PNG")
    assert "red" in [w.word for w in detector.words(stream.getvalue()).words]


def test_without_calibration_only_probabilities(make_detector: Callable[..., Path]) -> None:
    folder = make_detector(calibrated=False)
    detector = Detector.load(folder, threads=1, calibrated=False)
    regions = detector(Image.new("RGB", (9, 9), RED))
    with pytest.raises(BundleError, match="sightwords train calibration"):
        detector.calibrate(pool(regions), regions)
