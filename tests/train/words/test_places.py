"""Outputs that tell places: they are what torch says of patches, and change nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
transformers = pytest.importorskip("transformers")

from sightwords.cli.main import main  # noqa: E402
from sightwords.config import Config, WordsConfig  # noqa: E402
from sightwords.errors import BundleError  # noqa: E402
from sightwords.runtime import Network  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.train.words.export import export_detector  # noqa: E402
from sightwords.train.words.places import add_places, place_detector  # noqa: E402
from sightwords.train.words.quantise import quantise_detector  # noqa: E402
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.words.artefact import DetectorSpec, GridSpec  # noqa: E402
from sightwords.words.calibration_fit import fit_calibration  # noqa: E402
from sightwords.words.detector import Detector  # noqa: E402

pytestmark = pytest.mark.torch

WORDS = Vocabulary(("a", "dog", "red"), (3, 2, 1), 9)
SIDE = 16


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny ViT of 16 x 16 patches, whose head says something."""
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    config = transformers.Dinov2Config(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=2, patch_size=14, image_size=70
    )
    transformers.Dinov2Model(config).save_pretrained(folder)
    words = WordsConfig(backbone="dinov2-vits14")
    made = new_network(words, len(WORDS), weights=str(folder), size_px=224).eval()
    torch.nn.init.normal_(made.head.weight, 0, 48**-0.5)
    return made


@pytest.fixture(scope="module")
def detector(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("detector")
    config = replace(Config(), words=WordsConfig(backbone="dinov2-vits14"))
    export_detector(network, WORDS, config, folder)
    return folder


def _inputs() -> Any:
    return np.random.default_rng(0).standard_normal((2, 3, 224, 224)).astype(np.float32)


def test_patches_are_what_torch_says_of_them(network: Any, detector: Path) -> None:
    exported = Network(detector / "network.onnx", threads=1)
    assert exported.outputs["patch_logits"] == (None, SIDE, SIDE, 3)
    assert exported.outputs["attention"] == (None, SIDE, SIDE)
    found = exported.run({"image": _inputs()})
    with torch.no_grad():
        patches = network.backbone.feature_map(torch.from_numpy(_inputs())).permute(0, 2, 3, 1)
        expected = network.head(patches)
    np.testing.assert_allclose(found["patch_logits"], expected, atol=1e-4)
    # a region is the mean of its patches, and so is its logit
    windows = np.lib.stride_tricks.sliding_window_view(found["patch_logits"], (5, 5), axis=(1, 2))
    np.testing.assert_allclose(windows.mean(axis=(-2, -1)), found["region_logits"], atol=1e-4)


def test_attention_is_the_class_tokens_in_the_last_layer(network: Any, detector: Path) -> None:
    found = Network(detector / "network.onnx", threads=1).run({"image": _inputs()})["attention"]
    vit = network.backbone.vit
    vit.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            out = vit(pixel_values=torch.from_numpy(_inputs()), output_attentions=True)
    finally:
        vit.set_attn_implementation("sdpa")
    expected = out.attentions[-1][:, :, 0, 1:].mean(dim=1).unflatten(1, (SIDE, SIDE))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-7)


def _without_places(detector: Path, folder: Path) -> Path:
    """The same detector as an earlier release exported it."""
    onnx = pytest.importorskip("onnx")
    folder.mkdir()
    model = onnx.load(detector / "network.onnx")
    kept = [o for o in model.graph.output if o.name in {"region_logits", "features"}]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    added = [n for n in model.graph.node if n.name.startswith("place_")]
    added += [n for n in model.graph.node if n.name.endswith("_of_patches")]
    for node in added:
        model.graph.node.remove(node)
    for value in [i for i in model.graph.initializer if i.name.startswith("place_")]:
        model.graph.initializer.remove(value)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "network.onnx")
    (folder / "vocabulary.json").write_bytes((detector / "vocabulary.json").read_bytes())
    DetectorSpec.load(detector).save(folder)
    return folder


@pytest.mark.parametrize("form", ["whole", "int8"])
def test_an_older_detector_keeps_every_word_to_the_bit(
    form: str, detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = _without_places(detector, tmp_path / "old")
    if form == "int8":
        old = quantise_detector(old, tmp_path / "small").directory
    rng = np.random.default_rng(0)
    scores = rng.random((500, len(WORDS)))
    fit_calibration(scores, rng.random(scores.shape) < scores).save(old)
    assert main(["train", "places", str(old), "--out", str(tmp_path / "new")]) == 0
    assert json.loads(capsys.readouterr().out)["detector"] == str(tmp_path / "new")
    before, after = Detector.load(old, threads=1), Detector.load(tmp_path / "new", threads=1)
    photograph = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8))
    one, other = before(photograph), after(photograph)
    np.testing.assert_array_equal(one.region_probs, other.region_probs)
    np.testing.assert_array_equal(one.features, other.features)
    assert one.patches is None
    assert other.patches is not None
    assert other.patches.corners[3, 5].tolist() == pytest.approx([5 / 16, 3 / 16, 6 / 16, 4 / 16])
    words = [d.words(photograph).words for d in (before, after)]
    told = [[(w.word, w.prob, w.precision, w.raw_score) for w in found] for found in words]
    assert told[0] == told[1]


def test_quantised_from_one_with_places_it_still_has_them(detector: Path, tmp_path: Path) -> None:
    quantise_detector(detector, tmp_path / "int8")
    found = Network(tmp_path / "int8" / "network.onnx", threads=1).run({"image": _inputs()})
    windows = np.lib.stride_tricks.sliding_window_view(found["patch_logits"], (5, 5), axis=(1, 2))
    gap = np.abs(windows.mean(axis=(-2, -1)) - found["region_logits"]).max()
    assert gap < 0.2 * found["region_logits"].std()


def test_tokens_of_another_kind_are_left_alone(detector: Path, tmp_path: Path) -> None:
    old = _without_places(detector, tmp_path / "old")
    more = GridSpec(rows=12, columns=12, window=5, stride=1, canvas=17)  # as if 33 were registers
    assert not add_places(old / "network.onnx", tmp_path / "new.onnx", more)
    other = GridSpec(rows=12, columns=12, window=4, stride=1, canvas=SIDE)
    assert not add_places(old / "network.onnx", tmp_path / "new.onnx", other)
    assert not (tmp_path / "new.onnx").exists()


def test_what_has_no_patches_or_has_places_already_is_refused(
    detector: Path, tmp_path: Path
) -> None:
    with pytest.raises(BundleError, match="patch_logits"):
        place_detector(detector, tmp_path / "again")
    assert not (tmp_path / "again" / "network.onnx").exists()
    with pytest.raises(BundleError, match="itself"):
        place_detector(detector, detector)
