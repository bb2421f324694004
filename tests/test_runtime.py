"""ONNX Runtime sessions: what they give, and how they fail."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import BundleError
from sightwords.parallel import available_cores
from sightwords.runtime import Network

DATA = Path(__file__).parent / "words" / "data"
COLOURS = DATA / "colours.onnx"


def _images(count: int = 1) -> np.ndarray:
    return np.random.default_rng(0).random((count, 3, 16, 16)).astype(np.float32)


def test_names_and_shapes() -> None:
    network = Network(COLOURS, threads=1)
    assert network.inputs == {"image": (None, 3, 16, 16)}
    assert network.outputs == {"region_logits": (None, 4, 4, 8), "features": (None, 1, 3)}
    assert network.name.endswith("colours.onnx")


def test_values_by_hand() -> None:
    red = np.zeros((1, 3, 16, 16), dtype=np.float32)
    red[:, 0] = 1
    outputs = Network(COLOURS, threads=1).run({"image": red})
    np.testing.assert_allclose(
        outputs["region_logits"][0, 0, 0], [2, 8, -24, -24, -24, -8, -1, -9], rtol=1e-5
    )
    np.testing.assert_allclose(outputs["features"], [[[1, 0, 0]]], atol=1e-6)


def test_a_path_and_its_bytes_give_the_same() -> None:
    images = _images(3)
    path, data = Network(str(COLOURS), threads=2), Network(COLOURS.read_bytes())
    for name, value in path.run({"image": images}).items():
        np.testing.assert_allclose(value, data.run({"image": images})[name], rtol=1e-5)
    assert data.name == f"<network of {COLOURS.stat().st_size} bytes>"


def test_only_the_outputs_asked_for() -> None:
    assert list(Network(COLOURS).run({"image": _images()}, outputs=["features"])) == ["features"]


def test_several_threads_may_call() -> None:
    network = Network(COLOURS, threads=1)
    images = _images(1)
    expected = network.run({"image": images})["features"]
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: network.run({"image": images}), range(20)):
            np.testing.assert_array_equal(result["features"], expected)


@pytest.mark.parametrize("data", [b"", b"no network", COLOURS.read_bytes()[:900]])
def test_a_damaged_network_is_named_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(data)
    for model in (path, data):
        with pytest.raises(BundleError, match="ONNX") as caught:
            Network(model)
        assert "\n" not in str(caught.value)


def test_a_missing_network_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"none\.onnx"):
        Network(tmp_path / "none.onnx")


def test_nan_is_named_with_what_was_fed() -> None:
    network = Network(DATA / "broken.onnx")
    blue = np.zeros((1, 3, 16, 16), dtype=np.float32)
    blue[:, 2] = 1
    with pytest.raises(BundleError, match=r"broken\.onnx.*features holds NaN or inf.*on sky\.jpg"):
        network.run({"image": blue}, about="sky.jpg")
    network.run({"image": blue}, outputs=["region_logits"])  # the rest is sound


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"image": _images()[:, :, :15]}, r"the network failed on a\.jpg .*takes image \(any, 3"),
        ({"image": _images().astype(np.float64)}, r"the network failed on a\.jpg"),
        ({"photo": _images()}, "from photo; the network takes image"),
        ({}, "the network takes image"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(BundleError, match=message) as caught:
        Network(COLOURS).run(inputs, about="a.jpg")
    assert "\n" not in str(caught.value)


def test_nothing_is_printed(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"bad")
    code = (
        "import sys, numpy as np\n"
        "from sightwords.runtime import Network\n"
        "from sightwords.errors import BundleError\n"
        "network = Network(sys.argv[1])\n"
        "for call in (lambda: Network(sys.argv[2]),\n"
        "             lambda: network.run({'image': np.zeros((1, 3, 9, 9), np.float32)})):\n"
        "    try:\n        call()\n    except BundleError:\n        pass\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(COLOURS), str(bad)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (result.stdout, result.stderr) == ("", "")


def test_cores() -> None:
    assert available_cores() >= 1
