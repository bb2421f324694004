"""A new last layer on a network that stays: the old one measured, new words learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnx")

from sightwords.config import Config, WordsConfig
from sightwords.errors import BundleError, InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.words.frozen.features import old_head, region_table
from sightwords.train.words.frozen.graft import open_model, under_head, with_head
from sightwords.train.words.frozen.training import known_words, train_head, write_frozen
from sightwords.types import Example, ImageRef
from sightwords.words.artefact import DetectorSpec
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool

pytestmark = pytest.mark.torch
NEW = Vocabulary(("red", "blue"), (21, 20), 60)
CONFIG = WordsConfig(
    epochs=40, batch_size=10, optimizer="adamw", schedule="cosine", learning_rate=0.02,
    head_rate=10.0, dropout=0.0, initial_bias=-4.0,
)  # fmt: skip


@pytest.fixture
def photographs(colour_base: Any, tmp_path: Path) -> list[Example]:
    rng = np.random.default_rng(0)
    found = []
    for number in range(40):
        red = number % 2 == 0
        path = colour_base.photograph(tmp_path / f"{number}.png", rng, red=red)
        captions = ("red" if red else "blue",)
        found.append(Example(str(number), ImageRef(str(path)), captions, "", ""))
    return found


@pytest.fixture
def base(colour_base: Any, tmp_path: Path) -> Path:
    folder: Path = colour_base.write_base(tmp_path / "base")
    return folder


def test_regions_are_computed_once(base: Path, photographs: list[Example], tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"not an image")
    made: list[int] = []
    table = region_table(base, lambda: photographs, tmp_path, key="x", progress=made.append)
    assert made == list(range(1, 40))
    assert table.regions.shape == (39, 16, 8)
    assert "1" not in table.ids
    cell = table.regions[0].reshape(4, 4, 8)[1, 2]  # the red square: channels r, g, b
    assert cell[:3].astype(float) == pytest.approx([230 / 255, 10 / 255, 10 / 255], abs=0.01)

    def never() -> list[Example]:
        raise AssertionError("read twice")

    again = region_table(base, never, tmp_path, key="x")
    assert (again.regions == table.regions).all()
    assert again.captions[0] == ("red",)


def test_the_old_last_layer_is_measured(
    base: Path, photographs: list[Example], tmp_path: Path
) -> None:
    table = region_table(base, lambda: photographs, tmp_path, key="x")
    detector = Detector.load(base, calibrated=False)
    scores = pool(detector(Image.open(tmp_path / "0.png").convert("RGB"))).image_probs
    # Mixtures of colours repeat each other, so other weights may do the same: compare outputs.
    assert table.probs(table.old_weight, table.old_bias)[0] == pytest.approx(scores, abs=2e-3)


def test_new_words_are_learned_and_known_ones_kept(
    base: Path, photographs: list[Example], tmp_path: Path
) -> None:
    table = region_table(base, lambda: photographs, tmp_path, key="x")
    head = train_head(table, NEW, known_words(base), CONFIG)
    again = train_head(table, NEW, known_words(base), CONFIG)
    assert (head[0] == again[0]).all()  # reproducible
    folder = write_frozen(base, tmp_path / "new", NEW, Config(words=CONFIG), head=head)
    detector = Detector.load(folder, calibrated=False)
    assert detector.vocabulary.words == ("red", "blue")
    for number in range(4):
        regions = detector(Image.open(tmp_path / f"{number}.png").convert("RGB"))
        red, blue = pool(regions).image_probs
        assert (red > 0.5) == (number % 2 == 0)
        assert (blue > 0.5) == (number % 2 == 1)
        peak = np.unravel_index(regions.region_probs[..., number % 2].argmax(), (4, 4))
        assert tuple(map(int, peak)) == (1, 2)  # and it knows where
    exported = pool(detector(Image.open(tmp_path / "0.png").convert("RGB"))).image_probs
    assert table.probs(*head)[0] == pytest.approx(exported, abs=2e-3)


def test_known_words_move_a_tenth_as_fast(
    base: Path, photographs: list[Example], tmp_path: Path
) -> None:
    table = region_table(base, lambda: photographs, tmp_path, key="x")
    short = WordsConfig(
        epochs=1, batch_size=40, optimizer="adamw", learning_rate=0.01, head_rate=1.0,
        dropout=0.0, weight_decay=0.0,
    )  # fmt: skip
    new = Vocabulary(("red", "blue"), (21, 20), 60)
    weight, bias = train_head(table, new, known_words(base), short)
    # The first step of AdamW is as long as the rate, whatever the gradient.
    assert abs(bias[0] - table.old_bias[1]) == pytest.approx(0.001, rel=0.02)
    assert abs(bias[1] - short.initial_bias) == pytest.approx(0.01, rel=0.02)
    assert weight.shape == (8, 2)


def test_ridge_regression_by_hand() -> None:
    regions = np.array([[0.0], [1.0], [2.0]], dtype=np.float32)
    weight, bias = old_head(regions, np.array([[1.0], [3.0], [5.0]]))
    assert weight.ravel().tolist() == pytest.approx([2.0], abs=1e-4)
    assert bias.tolist() == pytest.approx([1.0], abs=1e-4)


def test_networks_without_a_last_layer_are_refused(tmp_path: Path) -> None:
    colours = Path(__file__).parents[2] / "words" / "data" / "colours.onnx"
    with pytest.raises(BundleError, match="region_logits"):
        under_head(open_model(colours))


def test_what_the_old_layer_alone_needed_is_gone(base: Path) -> None:
    model = open_model(base / "network.onnx")
    new = type(model)()
    new.ParseFromString(with_head(model, np.ones((8, 2), np.float32), np.zeros(2, np.float32)))
    names = {tensor.name for tensor in new.graph.initializer}
    assert names == {"kernel", "tokens", "grafted", "grafted_bias"}
    assert [output.name for output in new.graph.output] == ["region_logits", "features"]
    assert len(model.graph.initializer) == 4  # the model given is left alone


def test_a_detector_of_whole_images_is_refused(base: Path, tmp_path: Path) -> None:
    import dataclasses

    spec = dataclasses.replace(DetectorSpec.load(base), pooling="whole_image")
    spec.save(base)
    with pytest.raises(InputError, match="whole_image"):
        region_table(base, list, tmp_path, key="x")


def test_int8_networks_give_their_unrounded_features() -> None:
    from sightwords.words.artefact import DEFAULT_DETECTOR, NETWORK_NAME

    model = open_model(DEFAULT_DETECTOR / NETWORK_NAME)
    name = under_head(model)
    [maker] = [node for node in model.graph.node if name in node.output]
    assert maker.op_type != "DynamicQuantizeLinear"


def test_patches_get_the_new_layer_too() -> None:
    from sightwords.runtime import Network
    from sightwords.words.artefact import DEFAULT_DETECTOR, NETWORK_NAME

    spec = DetectorSpec.load(DEFAULT_DETECTOR)
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((384, 5)).astype(np.float32)
    network = Network(
        with_head(open_model(DEFAULT_DETECTOR / NETWORK_NAME), weight, np.ones(5, np.float32)),
        threads=1,
    )
    side = spec.input.size_px
    found = network.run({"image": rng.standard_normal((1, 3, side, side)).astype(np.float32)})
    assert found["patch_logits"].shape == (1, spec.grid.canvas, spec.grid.canvas, 5)
    window = found["patch_logits"][0, 2 : 2 + spec.grid.window, 3 : 3 + spec.grid.window]
    # A region is the mean of its patches, and the layer is linear.
    assert found["region_logits"][0, 2, 3] == pytest.approx(window.mean(axis=(0, 1)), abs=1e-3)
