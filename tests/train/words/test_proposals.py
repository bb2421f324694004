"""Words in boxes: pooling worked by hand, learning, resuming, and the detector that comes out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from sightwords.config import Config, WordsConfig  # noqa: E402
from sightwords.errors import BundleError, ConfigError, InputError  # noqa: E402
from sightwords.train.data.augment import network_input  # noqa: E402
from sightwords.train.words.backbones import BACKBONES, build_backbone  # noqa: E402
from sightwords.train.words.boxes.export import export_boxes  # noqa: E402
from sightwords.train.words.boxes.network import BoxNetwork, pool_boxes  # noqa: E402
from sightwords.train.words.boxes.training import (  # noqa: E402
    BoxesFit,
    boxes_of,
    new_box_network,
    on_canvas,
    score_boxes,
    train_boxes,
)
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.types import Box  # noqa: E402
from sightwords.words.calibration_fit import fit_calibration  # noqa: E402
from sightwords.words.detector import Detector  # noqa: E402
from sightwords.words.noisy_or import pool  # noqa: E402
from sightwords.words.proposal_detector import ProposalDetector  # noqa: E402

SIDE = 48
WHOLE = (0.0, 0.0, 1.0, 1.0)


@pytest.fixture
def box_net(tiny_net: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tiny backbone with a feature map."""

    class BoxNet(tiny_net):  # type: ignore[misc]
        def feature_map(self, images: Any) -> Any:
            return self(images)[0].permute(0, 3, 1, 2)

    monkeypatch.setitem(BACKBONES, "tiny", BoxNet)
    return BoxNet


@pytest.fixture
def config(toy_config: WordsConfig) -> WordsConfig:
    return replace(toy_config, regions="proposals", proposals=3, proposal_cells=1)


def _proposals(squares: Any) -> dict[str, list[Box]]:
    """Each square, and a box beside it."""
    found = {}
    for row, places in enumerate(squares.corners):
        boxes = [
            Box(x / SIDE, y / SIDE, (x + 8) / SIDE, (y + 8) / SIDE) for x, y in places.values()
        ]
        found[str(row)] = [*boxes, Box(0.0, 0.4, 0.3, 0.6)]
    return found


def test_a_box_of_the_whole_map_takes_its_largest_values() -> None:
    maps = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    boxes = torch.tensor([[WHOLE, (0.0, 0.0, 0.5, 0.5), (0.5, 0.5, 1.0, 1.0)]])
    # Each cell looks at 2 x 2 points, a quarter of a map's cell from its middle and outside of it.
    assert pool_boxes(maps, boxes, cells=2, samples=1)[0, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert pool_boxes(maps, boxes, cells=1, samples=1)[0, :, 0].tolist() == [2.5, 1.0, 4.0]
    assert pool_boxes(maps, boxes, cells=1, samples=2)[0, :, 0].tolist() == [4.0, 1.75, 4.0]


def test_pooling_agrees_with_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(3)
    maps = torch.rand(2, 3, 5, 7, generator=generator)
    corners = torch.rand(2, 4, 2, 2, generator=generator).sort(dim=2).values.flatten(2)
    found = pool_boxes(maps, corners, cells=2).view(2, 4, 3, 2, 2)
    for image in range(2):
        for box in range(4):
            x0, y0, x1, y1 = corners[image, box].tolist()
            for row in range(2):
                for column in range(2):
                    values = [
                        _bilinear(
                            maps[image],
                            x0 + (x1 - x0) * (2 * column + i + 0.5) / 4,
                            y0 + (y1 - y0) * (2 * row + j + 0.5) / 4,
                        )
                        for i in range(2)
                        for j in range(2)
                    ]
                    expected = np.max(values, axis=0)
                    np.testing.assert_allclose(
                        found[image, box, :, row, column], expected, atol=1e-5
                    )


def _bilinear(maps: Any, x: float, y: float) -> Any:
    """Value at fractions x, y of (C, h, w), whose cells' middles are at (i + 1/2) / w."""
    height, width = maps.shape[1:]
    across = min(max(x * width - 0.5, 0), width - 1)
    down = min(max(y * height - 0.5, 0), height - 1)
    left, top = min(int(across), width - 2), min(int(down), height - 2)
    a, b = across - left, down - top
    upper = (1 - a) * maps[:, top, left] + a * maps[:, top, left + 1]
    lower = (1 - a) * maps[:, top + 1, left] + a * maps[:, top + 1, left + 1]
    return ((1 - b) * upper + b * lower).numpy()


def test_a_box_that_is_not_there_changes_nothing(box_net: Any) -> None:
    network = BoxNetwork(box_net(weights=None, size_px=SIDE), 4, cells=1).eval()
    images = torch.rand(1, 3, SIDE, SIDE)
    boxes = torch.tensor([[WHOLE, (0.0, 0.0, 0.5, 0.5)]])
    padded = torch.cat([boxes, torch.zeros(1, 3, 4)], dim=1)
    few, many = network(images, boxes), network(images, padded)
    assert many.region_logits.shape == (1, 5, 1, 4)
    assert torch.equal(many.region_logits[:, :2], few.region_logits)
    assert many.region_logits[:, 2:].max() < -20
    assert torch.equal(network(images).region_logits, few.region_logits[:, :1])
    # What describes the image as a whole is the mean of the map, not that of a corner.
    mean = network.backbone.feature_map(images).mean(dim=(2, 3))
    assert torch.equal(few.features[:, 0], mean)


def test_boxes_lie_on_the_part_of_the_canvas_that_the_photograph_fills() -> None:
    boxes = torch.tensor([[[0.0, 0.5, 1.0, 1.0]]])
    content = torch.tensor([[100, 50]])
    assert on_canvas(boxes, content, 100).tolist() == [[[0.0, 0.25, 1.0, 0.5]]]


def test_it_learns_from_boxes(squares: Any, config: WordsConfig, box_net: Any) -> None:
    data = squares(120)
    boxes = boxes_of(_proposals(data), [str(i) for i in range(120)], limit=3)
    network = new_box_network(config, 4, weights=None, size_px=SIDE)
    losses: list[float] = []
    train_boxes(
        network,
        data.table(),
        boxes,
        data.targets(),
        config,
        progress=lambda report: losses.append(report.loss),
        report_every=6,
    )
    assert losses[-1] < 0.5 * losses[0]
    scores = score_boxes(network, data.table(), boxes)
    shown, red = data.targets()[:, 3] > 0, scores[:, 3]
    assert red[shown].mean() > red[~shown].mean() + 0.3
    # In the box of the square it is likelier than in the box beside it.
    row = next(i for i, places in enumerate(data.corners) if list(places) == ["red"])
    table = data.table()
    images = network_input(
        torch.from_numpy(table.pixels[row : row + 1]),
        torch.from_numpy(table.content[row : row + 1]),
        network.backbone.input,
    )
    logits = network(images, torch.from_numpy(boxes[row : row + 1])).region_logits[0, :, 0, 3]
    assert logits[1] > logits[2]


def test_a_frozen_backbone_keeps_its_weights(
    squares: Any, config: WordsConfig, box_net: Any
) -> None:
    frozen = replace(config, frozen=True, epochs=1)
    data = squares(40)
    network = new_box_network(frozen, 4, weights=None, size_px=SIDE)
    before = {k: v.clone() for k, v in network.state_dict().items()}
    boxes = boxes_of(_proposals(data), [str(i) for i in range(40)], limit=3)
    train_boxes(network, data.table(), boxes, data.targets(), frozen)
    changed = {k for k, v in network.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"head.weight", "head.bias"}


def test_a_frozen_backbone_keeps_its_statistics(
    squares: Any, config: WordsConfig, box_net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of normalisation layers, from the first step on."""

    class Normed(box_net):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.norm = torch.nn.BatchNorm2d(16)

        def feature_map(self, images: Any) -> Any:
            return self.norm(super().feature_map(images))

    monkeypatch.setitem(BACKBONES, "tiny", Normed)
    frozen = replace(config, frozen=True, epochs=1)
    data = squares(40)
    network = new_box_network(frozen, 4, weights=None, size_px=SIDE)
    boxes = boxes_of(_proposals(data), [str(i) for i in range(40)], limit=3)
    train_boxes(network, data.table(), boxes, data.targets(), frozen)
    kept = network.state_dict()
    assert kept["backbone.norm.running_mean"].tolist() == [0.0] * 16
    assert kept["backbone.norm.num_batches_tracked"] == 0


def test_a_killed_run_ends_as_an_unbroken_one(
    squares: Any, config: WordsConfig, box_net: Any, tmp_path: Path
) -> None:
    short = replace(config, epochs=2, dropout=0.3)
    data = squares(60)
    boxes = boxes_of(_proposals(data), [str(i) for i in range(60)], limit=3)
    unbroken = new_box_network(short, 4, weights=None, size_px=SIDE)
    train_boxes(unbroken, data.table(), boxes, data.targets(), short)
    network = new_box_network(short, 4, weights=None, size_px=SIDE)
    loop = BoxesFit(network, data.table(), boxes, data.targets(), short, device="cpu")
    for _ in range(3):
        loop.advance()
    loop.save(tmp_path / "checkpoint.pt")
    again = new_box_network(short, 4, weights=None, size_px=SIDE)
    train_boxes(again, data.table(), boxes, data.targets(), short, folder=tmp_path)
    for name, value in unbroken.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    with pytest.raises(ConfigError, match="boxes"):  # other boxes, another run
        train_boxes(again, data.table(), boxes[:, ::-1].copy(), data.targets(), short,
                    folder=tmp_path)  # fmt: skip


def test_the_exported_detector_agrees(
    squares: Any, config: WordsConfig, box_net: Any, tmp_path: Path
) -> None:
    data = squares(6)
    proposals = _proposals(data)
    network = new_box_network(config, 4, weights=None, size_px=SIDE)
    torch.nn.init.normal_(network.head.weight, 0.0, 1.0)
    export = export_boxes(network, data.vocabulary, Config(words=config), tmp_path)
    assert export.difference < 1e-4
    expected = score_boxes(
        network, data.table(), boxes_of(proposals, [str(i) for i in range(6)], limit=3)
    )
    detector = ProposalDetector.over(tmp_path, proposals, threads=1, calibrated=False)
    assert detector.spec.whole_token == 0
    for row, pixels in enumerate(data.pixels):
        regions = detector(Image.fromarray(pixels), name=str(row))
        assert regions.region_probs.shape == (1 + min(3, len(proposals[str(row)])), 1, 4)
        np.testing.assert_allclose(pool(regions).image_probs, expected[row], atol=1e-4)
    with pytest.raises(InputError, match="no proposals"):
        detector(Image.fromarray(data.pixels[0]), name="stranger")
    with pytest.raises(BundleError, match="boxes"):  # the grid detector says what is missing
        Detector.load(tmp_path, calibrated=False)(Image.fromarray(data.pixels[0]))
    _check_boxes_of_words(tmp_path, proposals["0"], Image.fromarray(data.pixels[0]))


def _check_boxes_of_words(directory: Path, proposals: list[Box], image: Image.Image) -> None:
    """Once calibrated, a word's box is the one it is likeliest in."""
    rng = np.random.default_rng(0)
    scores = rng.random((500, 4))
    fit_calibration(scores, rng.random(scores.shape) < scores).save(directory)
    detector = ProposalDetector.over(directory, {"": proposals}, threads=1)
    regions = detector(image)
    assert regions.corners is not None
    words = detector.words(image).words
    assert len(words) >= 3
    for word in words:
        place = detector.vocabulary.index(word.word)
        best = int(regions.region_probs[:, 0, place].argmax())
        assert word.box == Box(*map(float, regions.corners[best, 0]))


@pytest.mark.parametrize("change", [{"flip": True}, {"smallest_crop": 0.5}, {"jitter": 0.1}])
def test_images_that_move_under_their_boxes_are_refused(
    change: dict[str, Any], config: WordsConfig, box_net: Any
) -> None:
    with pytest.raises(ConfigError, match="boxes"):
        new_box_network(replace(config, **change), 4, weights=None, size_px=SIDE)


def test_an_image_without_proposals_is_named() -> None:
    with pytest.raises(InputError, match="1 of 2 images, 'b'"):
        boxes_of({"a": []}, ["a", "b"], limit=3)


def test_a_backbone_without_a_map_is_named(config: WordsConfig, tiny_net: Any) -> None:
    with pytest.raises(ConfigError, match="feature_map"):
        new_box_network(config, 4, weights=None, size_px=SIDE)


@pytest.mark.parametrize("change", [{"regions": "proposals"}, {"frozen": True}])
def test_a_grid_does_not_take_settings_for_boxes(
    change: dict[str, Any], toy_config: WordsConfig, tiny_net: Any
) -> None:
    with pytest.raises(ConfigError, match="proposals"):
        new_network(replace(toy_config, **change), 4, weights=None, size_px=SIDE)


def test_maps_of_the_papers_networks() -> None:
    backbone = build_backbone("alexnet", weights=None, size_px=565)
    assert backbone.feature_map(torch.zeros(1, 3, 565, 565)).shape == (1, 256, 35, 35)
