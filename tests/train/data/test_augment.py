"""Network inputs are unchanged without random settings; random crops stay inside the image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.images import CAFFE, TORCHVISION, Normalization  # noqa: E402
from sightwords.train.data.augment import network_input, normalize, random_crops  # noqa: E402
from sightwords.words.artefact import InputSpec  # noqa: E402

pytestmark = pytest.mark.torch

UNIT = Normalization("RGB", 1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
SPEC = InputSpec(resize="square", size_px=32, resample="bilinear", normalization=UNIT)
STILL = WordsConfig()


def _pixels(count: int = 4, side: int = 32) -> Any:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 256, (count, side, side, 3)).astype(np.uint8))


def _whole(pixels: Any) -> Any:
    return torch.full((len(pixels), 2), pixels.shape[1], dtype=torch.int32)


def test_pixels_are_unchanged_without_random_settings() -> None:
    pixels = _pixels()
    for config in (None, STILL):
        images = network_input(pixels, _whole(pixels), SPEC, config)
        assert torch.equal(images, pixels.permute(0, 3, 1, 2).float())


def test_the_same_numbers_as_in_captioning() -> None:
    """Stored at the input's size, an image is what `InputSpec.prepare` makes of it."""
    pixels = _pixels(1)
    for normalization in (TORCHVISION, CAFFE):
        spec = replace(SPEC, normalization=normalization)
        served = spec.prepare(Image.fromarray(pixels[0].numpy()))
        ours = network_input(pixels, _whole(pixels), spec)[0].numpy()
        np.testing.assert_allclose(ours, served, atol=1e-4)


def test_bgr_swaps_the_channels() -> None:
    red = torch.tensor([255.0, 0, 0]).view(1, 3, 1, 1)
    blue_first = normalize(red, Normalization("BGR", 1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    assert blue_first.flatten().tolist() == [0.0, 0.0, 255.0]


def test_a_mirror_turns_the_image_round() -> None:
    pixels = _pixels(64)
    images = network_input(pixels, _whole(pixels), SPEC, replace(STILL, flip=True))
    plain = pixels.permute(0, 3, 1, 2).float()
    same = [torch.allclose(a, b, atol=1e-2) for a, b in zip(images, plain, strict=True)]
    turned = [torch.allclose(a, b.flip(-1), atol=1e-2) for a, b in zip(images, plain, strict=True)]
    assert all(s != t for s, t in zip(same, turned, strict=True))
    assert 16 < sum(turned) < 48


@pytest.mark.parametrize("shares", [(1.0, 1.0), (1.0, 0.5), (0.3, 1.0)])
def test_crops_stay_inside_the_image(shares: tuple[float, float]) -> None:
    """Corners of a crop lie on the content."""
    torch.manual_seed(0)
    config = replace(STILL, smallest_crop=0.3, flip=True)
    share = torch.tensor([shares] * 500)
    maps = random_crops(share, config)
    ends = torch.stack([torch.full_like(share, -1.0), 2 * share - 1])  # of the content, (2, B, 2)
    scale, offset = maps[:, [0, 1], [0, 1]], maps[:, :, 2]
    reached = ends * scale + offset
    assert (reached >= -1 - 1e-5).all()
    assert (reached <= 2 * share - 1 + 1e-5).all()
    areas = scale[:, 0].abs() * scale[:, 1]
    assert areas.min() < 0.4
    assert areas.max() > 0.9
    assert areas.min() > 0.25  # not below the share asked for, but for sides that reach the edge
    assert (scale[:, 0] < 0).float().mean() == pytest.approx(0.5, abs=0.1)


def test_padding_is_blank_after_normalisation_and_after_crops() -> None:
    pixels = _pixels(8)
    content = torch.tensor([[32, 20]] * 8, dtype=torch.int32)
    spec = replace(SPEC, resize="paper", normalization=TORCHVISION)
    for config in (None, replace(STILL, smallest_crop=0.5, flip=True, jitter=0.2)):
        images = network_input(pixels, content, spec, config)
        assert (images[:, :, 20:] == 0).all()
        assert (images[:, :, :20] != 0).float().mean() > 0.99


def test_light_keeps_the_range_and_moves_the_mean() -> None:
    pixels = _pixels(32)
    images = network_input(pixels, _whole(pixels), SPEC, replace(STILL, jitter=0.4))
    assert images.min() >= 0
    assert images.max() <= 255
    means = images.mean(dim=(1, 2, 3))
    assert means.std() > 5
