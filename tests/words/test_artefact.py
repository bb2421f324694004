"""A detector directory: round trip, and every way in which its files can disagree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightwords.errors import BundleError
from sightwords.images import CAFFE, TORCHVISION, fit_size, region_boxes
from sightwords.sealed import renew_sum
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec
from sightwords.words.detector import Detector


def _edit(path: Path, **changes: Any) -> None:
    """Change a JSON file and list its new sum."""
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, **changes}), encoding="utf-8")
    renew_sum(path.parent, path.name)


def test_round_trip(colour_detector: Path) -> None:
    spec = DetectorSpec.load(colour_detector)
    assert (spec.backbone, spec.pooling, spec.words) == ("colours", "noisy_or", 8)
    before = (colour_detector / "detector.json").read_bytes()
    spec.save(colour_detector)
    assert (colour_detector / "detector.json").read_bytes() == before
    assert DetectorSpec.load(colour_detector) == spec


def test_which_token_describes_the_image_is_kept_where_it_is_said(colour_detector: Path) -> None:
    path = colour_detector / "detector.json"
    assert "whole_token" not in json.loads(path.read_text())  # as in files before there was one
    assert DetectorSpec.load(colour_detector).whole_token is None
    _edit(path, whole_token=0)
    spec = DetectorSpec.load(colour_detector)
    assert spec.whole_token == 0
    spec.save(colour_detector)
    assert DetectorSpec.load(colour_detector) == spec
    renew_sum(colour_detector, "calibration.json")
    assert Detector.load(colour_detector)(Image.new("RGB", (9, 9))).whole_token == 0


@pytest.mark.parametrize("place", [1, -1])
def test_a_token_that_is_not_there_is_refused(colour_detector: Path, place: int) -> None:
    _edit(colour_detector / "detector.json", whole_token=place)
    with pytest.raises(BundleError, match=f"1 tokens.* token {place} "):
        Detector.load(colour_detector)


def test_regions_of_both_kinds() -> None:
    patches = DetectorSpec(
        backbone="vit",
        pooling="noisy_or",
        input=InputSpec(
            resize="square", size_px=224, resample="bicubic", normalization=TORCHVISION
        ),
        grid=GridSpec(rows=12, columns=12, window=5, stride=1, canvas=16),
        words=1,
    )
    np.testing.assert_array_equal(
        patches.regions(640, 200).corners, region_boxes(window=5, stride=1, canvas=16).corners
    )
    paper = DetectorSpec(
        backbone="vgg16",
        pooling="noisy_or",
        input=InputSpec(resize="paper", size_px=565, resample="bilinear", normalization=CAFFE),
        grid=GridSpec(rows=12, columns=12, window=224, stride=32, canvas=565),
        words=1,
    )
    expected = region_boxes(content=fit_size(640, 200, 565))
    np.testing.assert_array_equal(paper.regions(640, 200).corners, expected.corners)
    np.testing.assert_array_equal(paper.regions(640, 200).inside, expected.inside)
    assert paper.input.prepare(Image.new("RGB", (64, 20))).shape == (3, 565, 565)
    assert patches.input.prepare(Image.new("RGB", (64, 20))).shape == (3, 224, 224)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2.* up to 1; upgrade"),
        ({"format": "1"}, "format is '1'"),
        ({"pooling": "mean"}, "pooling is 'mean'.* noisy_or, whole_image"),
        ({"words": 0}, "words is 0"),
        ({"words": True}, "words is True"),
        ({"whole_token": "1"}, "whole_token is '1'"),
        ({"grid": None}, "grid is None"),
        ({"grid": {"rows": 4}}, "grid: columns is missing"),
    ],
)
def test_a_bad_detector_file_is_named(
    colour_detector: Path, changes: dict[str, Any], message: str
) -> None:
    _edit(colour_detector / "detector.json", **changes)
    with pytest.raises(BundleError, match=message) as caught:
        DetectorSpec.load(colour_detector)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("channels", "RBG", "channels is 'RBG'.* RGB, BGR"),
        ("std", [1, 0, 1], "std is"),
        ("mean", [1, 2], "mean is"),
        ("scale", None, "scale is None"),
    ],
)
def test_a_bad_normalization_is_named(
    colour_detector: Path, key: str, value: object, message: str
) -> None:
    path = colour_detector / "detector.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["input"]["normalization"][key] = value
    _edit(path, input=document["input"])
    with pytest.raises(
        BundleError, match=rf"detector\.json: input: normalization: {message}|{message}"
    ):
        DetectorSpec.load(colour_detector)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b""])
def test_damaged_json_is_named(colour_detector: Path, content: bytes) -> None:
    (colour_detector / "detector.json").write_bytes(content)
    renew_sum(colour_detector, "detector.json")
    with pytest.raises(BundleError, match=r"detector\.json"):
        DetectorSpec.load(colour_detector)


@pytest.mark.parametrize(
    "name", ["detector.json", "network.onnx", "vocabulary.json", "calibration.json"]
)
def test_a_missing_file_is_named(colour_detector: Path, name: str) -> None:
    (colour_detector / name).unlink()
    with pytest.raises(BundleError, match=rf"{name}: .*[Nn]o such file"):
        Detector.load(colour_detector)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="nowhere"):
        Detector.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["detector.json", "network.onnx", "vocabulary.json", "calibration.json"]
)
def test_a_changed_file_is_named(colour_detector: Path, name: str) -> None:
    data = (colour_detector / name).read_bytes()
    (colour_detector / name).write_bytes(data[:-1] + b"\0")
    with pytest.raises(BundleError, match=name):
        Detector.load(colour_detector)
    (colour_detector / name).write_bytes(data[:-1])
    with pytest.raises(BundleError, match=name):
        Detector.load(colour_detector)
    (colour_detector / name).write_bytes(data)
    Detector.load(colour_detector)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"{}", b'{"format": 1, "files": {"network.onnx": 3}}', b"\xff"]
)
def test_a_damaged_list_of_sums_is_named(colour_detector: Path, content: bytes) -> None:
    (colour_detector / "sums.json").write_bytes(content)
    with pytest.raises(BundleError, match=r"sums\.json"):
        Detector.load(colour_detector)


def test_a_directory_without_sums_is_loaded_as_it_is(colour_detector: Path) -> None:
    """Older releases wrote none."""
    (colour_detector / "sums.json").unlink()
    assert Detector.load(colour_detector).calibration is not None


def test_a_damaged_network_is_named_even_when_sealed(colour_detector: Path) -> None:
    network = colour_detector / "network.onnx"
    network.write_bytes(network.read_bytes()[:700])
    DetectorSpec.load(colour_detector).save(colour_detector)  # sealed as it is
    with pytest.raises(BundleError, match=r"network\.onnx"):
        Detector.load(colour_detector, calibrated=False)


def test_a_calibration_of_another_network_is_refused(colour_detector: Path) -> None:
    """It is not among the files of a detector that was exported after it."""
    DetectorSpec.load(colour_detector).save(colour_detector)
    with pytest.raises(BundleError, match=r"calibration\.json"):
        Detector.load(colour_detector)


def test_a_vocabulary_of_another_size_is_refused(colour_detector: Path) -> None:
    path = colour_detector / "vocabulary.json"
    lines = path.read_text(encoding="utf-8").replace('["the", 20],\n', "")
    path.write_text(lines, encoding="utf-8")
    renew_sum(colour_detector, path.name)
    with pytest.raises(BundleError, match=r"vocabulary.* 7 words"):
        Detector.load(colour_detector, calibrated=False)


def test_a_network_of_another_grid_is_refused(colour_detector: Path) -> None:
    document = json.loads((colour_detector / "detector.json").read_text(encoding="utf-8"))
    _edit(colour_detector / "detector.json", grid={**document["grid"], "rows": 5})
    with pytest.raises(BundleError, match=r"region_logits is \(None, 4, 4, 8\)"):
        Detector.load(colour_detector)
    _edit(colour_detector / "detector.json", grid=document["grid"], pooling="whole_image")
    with pytest.raises(BundleError, match="image_logits"):
        Detector.load(colour_detector)


def test_a_damaged_vocabulary_is_a_damaged_bundle(colour_detector: Path) -> None:
    (colour_detector / "vocabulary.json").write_text("{}", encoding="utf-8")
    renew_sum(colour_detector, "vocabulary.json")
    with pytest.raises(BundleError, match=r"vocabulary\.json"):
        Detector.load(colour_detector)
