"""Features of every image of a table, from torch and from an exported detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from sightwords.errors import InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.dmsm.image_features import (
    ImageFeatures,
    describe_images,
    detector_features,
    merged,
)
from sightwords.train.words.export import export_detector
from sightwords.train.words.run import fit_detector
from sightwords.train.words.validation import score_images
from sightwords.types import Example, ImageRef
from sightwords.words.detector import Detector


@pytest.fixture
def trained(tiny_net: Any, squares: Any, toy_config: Any) -> tuple[Any, Any]:
    data = squares(40)
    network = fit_detector(data.table(), data.vocabulary, toy_config, weights=None, size_px=48)
    return network, data


def test_one_pass_gives_scores_and_features(trained: tuple[Any, Any]) -> None:
    network, data = trained
    table = data.table()
    found = describe_images(network, table, batch_size=16, mirrored=True)
    np.testing.assert_allclose(found.image_probs, score_images(network, table), atol=1e-6)
    assert found.features.features.dtype == np.float16
    assert found.features.features.shape[0] == len(table)
    assert found.features.features.ndim == 3
    assert found.features.mirrored is not None


def test_mirrored_features_are_those_of_the_mirrored_image(trained: tuple[Any, Any]) -> None:
    network, data = trained
    both = describe_images(network, data.table(), mirrored=True)
    data.pixels = np.ascontiguousarray(data.pixels[:, :, ::-1])
    turned = describe_images(network, data.table())
    assert both.features.mirrored is not None
    np.testing.assert_allclose(both.features.mirrored, turned.features.features, atol=2e-3)


def test_padding_stays_where_it_was() -> None:
    import torch

    from sightwords.train.dmsm.image_features import _turned

    pixels = torch.arange(4).view(1, 1, 4, 1).expand(1, 4, 4, 3)
    found = _turned(pixels, torch.tensor([[3, 4]]))
    assert found[0, 0, :, 0].tolist() == [2, 1, 0, 3]


def test_an_exported_detector_gives_the_same(
    trained: tuple[Any, Any], tmp_path: Path, toy_config: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from sightwords.config import Config

    network, data = trained
    vocabulary: Vocabulary = data.vocabulary
    export_detector(network, vocabulary, Config(words=toy_config), tmp_path / "detector")
    detector = Detector.load(tmp_path / "detector", threads=1, calibrated=False)
    found = detector_features(detector, data.examples(tmp_path / "images"))
    expected = describe_images(network, data.table())
    assert detector.spec.whole_token == network.backbone.whole_token
    assert found.features.whole_token == expected.features.whole_token == 0
    np.testing.assert_allclose(found.image_probs, expected.image_probs, atol=1e-4)
    np.testing.assert_allclose(
        found.features.features, expected.features.features, atol=1e-2, rtol=1e-2
    )
    gone = Example("gone", ImageRef(str(tmp_path / "gone.png")), ("a dog",), "", "")
    caplog.clear()
    detector_features(detector, [*data.examples(tmp_path / "images"), gone])
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith("left out gone: ")


@pytest.mark.parametrize(("said", "place"), [(None, 0), (0, 0), (1, 1)])
def test_the_token_of_the_whole_image_is_kept(tmp_path: Path, said: int | None, place: int) -> None:
    """Seventeen tokens: a mean and its parts, unless the detector says another."""
    values = np.arange(2 * 17, dtype=np.float16).reshape(2, 17, 1)
    ImageFeatures(("1", "2"), values, whole_token=said).save(tmp_path / "features.npz")
    found = ImageFeatures.load(tmp_path / "features.npz")
    assert found.whole_token == said
    assert found.whole(1).tolist() == [17 + place]
    parts = [found.select(["2"]), found.select(["1"])]
    assert merged(parts).whole(0).tolist() == [17 + place]
    with pytest.raises(InputError, match="cannot be merged"):
        merged([parts[0], ImageFeatures(("3",), values[:1], whole_token=16)])


def test_features_survive_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = ImageFeatures(("9", "é"), rng.random((2, 3, 4)).astype(np.float16))
    features.save(tmp_path / "features.npz")
    found = ImageFeatures.load(tmp_path / "features.npz")
    assert found.ids == features.ids
    assert np.array_equal(found.features, features.features)
    assert found.mirrored is None
    assert found.select(["é"]).ids == ("é",)
    both = merged([features.select(["é"]), features.select(["9"])])
    assert np.array_equal(both.features, features.features[::-1])


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        (("1",), np.full((1, 2, 3), np.nan), "'1' hold NaN"),
        (("1", "2"), np.zeros((1, 2, 3)), r"\(1, 2, 3\) for 2 images"),
        (("1", "1"), np.zeros((2, 2, 3)), "image '1'"),
        (("1",), np.zeros((1, 6)), "expected"),
    ],
)
def test_bad_features_are_refused(ids: tuple[str, ...], values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ImageFeatures(ids, values.astype(np.float16))


def test_a_token_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"token 2 .* 2 "):
        ImageFeatures(("1",), np.zeros((1, 2, 3), np.float16), whole_token=2)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"features\.npz"):
        ImageFeatures.load(path)
    with pytest.raises(InputError, match="'7'"):
        ImageFeatures(("1",), np.zeros((1, 2, 3), np.float16)).rows(["7"])
    one = ImageFeatures(("1",), np.zeros((1, 2, 3), np.float16))
    other = ImageFeatures(("2",), np.zeros((1, 2, 4), np.float16))
    with pytest.raises(InputError, match="cannot be merged"):
        merged([one, other])
