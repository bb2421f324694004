"""Backbones: the paper's map, weights under torchvision's and transformers' names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.errors import ConfigError  # noqa: E402
from sightwords.train.words.backbones import build_backbone, convnets  # noqa: E402
from sightwords.train.words.backbones.convnets import AlexNet, Vgg16  # noqa: E402
from sightwords.train.words.network import WordNetwork  # noqa: E402
from sightwords.train.words.training import layer_groups  # noqa: E402

pytestmark = pytest.mark.torch

ALEX = ((0, 64, 3, 11), (3, 192, 64, 5), (6, 384, 192, 3), (8, 256, 384, 3), (10, 256, 256, 3))
VGG = (
    (0, 64, 3), (2, 64, 64), (5, 128, 64), (7, 128, 128), (10, 256, 128), (12, 256, 256),
    (14, 256, 256), (17, 512, 256), (19, 512, 512), (21, 512, 512), (24, 512, 512),
    (26, 512, 512), (28, 512, 512),
)  # fmt: skip
"""Number in `features`, filters, channels, side: torchvision's networks."""


def _torchvision_state(kind: type, *, whole: bool) -> dict[str, Any]:
    is_alex = kind is AlexNet
    state = {}
    for number, filters, channels, *side in ALEX if is_alex else VGG:
        shape = (filters, channels, *([side[0] if side else 3] * 2))
        state[f"features.{number}.weight"] = torch.randn(shape)
        state[f"features.{number}.bias"] = torch.randn(filters)
    if whole:
        inputs = 256 * 36 if is_alex else 512 * 49
        sizes = ((4096, inputs), (4096, 4096), (1000, 4096))
        for number, size in zip((1, 4, 6) if is_alex else (0, 3, 6), sizes, strict=True):
            state[f"classifier.{number}.weight"] = torch.randn(size)
            state[f"classifier.{number}.bias"] = torch.randn(size[0])
    return state


@pytest.fixture
def no_numbers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Networks without memory behind them: names and shapes are all there is to check."""

    def build(kind: type, *, whole: bool, size_px: int = 565) -> Any:
        with torch.device("meta"):
            state = _torchvision_state(kind, whole=whole)
            monkeypatch.setattr(convnets, "read_state", lambda path: state)
            return kind(weights="alexnet.pth", size_px=size_px)

    return build


@pytest.mark.filterwarnings("ignore:.*meta parameter.*:UserWarning")
@pytest.mark.parametrize("kind", [AlexNet, Vgg16])
class TestThePapersNetworks:
    def test_565_px_give_a_map_of_12_by_12(self, kind: type, no_numbers: Any) -> None:
        network = no_numbers(kind, whole=True)
        regions, features = network(torch.zeros(2, 3, 565, 565, device="meta"))
        assert regions.shape == (2, 12, 12, 4096)
        assert features.shape == (2, 1, 4096)
        assert (network.grid.rows, network.input.resize) == (12, "paper")

    def test_the_whole_image_is_one_window(self, kind: type, no_numbers: Any) -> None:
        network = no_numbers(kind, whole=True, size_px=224).eval()
        regions, image, _ = network.whole(torch.zeros(2, 3, 224, 224, device="meta"))
        assert regions.shape == (2, 12, 12, 4096)
        assert image.shape == (2, 4096)
        assert network.input.resize == "square"

    def test_a_whole_state_dict_leaves_nothing_new(self, kind: type, no_numbers: Any) -> None:
        network = no_numbers(kind, whole=True)
        assert network.new_parameters() == []
        assert len(network.layers()) == 2

    def test_convolutions_alone_leave_fc6_and_fc7_new(self, kind: type, no_numbers: Any) -> None:
        network = no_numbers(kind, whole=False)
        assert len(network.new_parameters()) == 4
        assert len(network.layers()) == 1

    def test_the_authors_rates(self, kind: type, no_numbers: Any) -> None:
        """conv1-2 frozen, conv3-5 and fc6-7 at 1 (bias 2), fc8 at 10 (bias 20)."""
        with torch.device("meta"):
            network = WordNetwork(no_numbers(kind, whole=True), 1000)
        frozen = {n for n, p in network.named_parameters() if not p.requires_grad}
        blocks = ("0", "3") if kind is AlexNet else ("0", "2", "5", "7")
        ends = ("weight", "bias")
        assert frozen == {f"backbone.features.{b}.{end}" for b in blocks for end in ends}
        groups = list(layer_groups(network, WordsConfig()))
        assert [round(g["lr"] / 1.5625e-5) for g in groups] == [1, 2, 1, 2, 10, 20]
        assert [g["weight_decay"] for g in groups] == [5e-4, 0] * 3
        assert sum(len(g["params"]) for g in groups) + len(frozen) == len([*network.parameters()])

    def test_dropout_is_that_of_the_settings(self, kind: type, no_numbers: Any) -> None:
        network = no_numbers(kind, whole=False)
        WordNetwork(network, 2, dropout=0.25)
        assert network.drop6.p == 0.25

    def test_other_sizes_and_grids_are_refused(self, kind: type) -> None:
        for options in ({"size_px": 400}, {"grid": 10}, {"drop_path": 0.1}):
            with pytest.raises(ConfigError):
                kind(weights=None, **options)


def test_fully_connected_layers_become_convolutions_of_the_same_numbers(tmp_path: Path) -> None:
    state = _torchvision_state(AlexNet, whole=True)
    torch.save(state, tmp_path / "alexnet.pth")
    network = AlexNet(weights=str(tmp_path / "alexnet.pth"))
    pooled = torch.randn(1, 256, 6, 6)
    with torch.no_grad():
        ours = network.fc6(pooled).flatten()
        theirs = state["classifier.1.weight"] @ pooled.flatten() + state["classifier.1.bias"]
    torch.testing.assert_close(ours, theirs, atol=1e-2, rtol=1e-4)
    assert torch.equal(network.features[3].weight, state["features.3.weight"])


def test_a_file_of_another_network_is_named(tmp_path: Path) -> None:
    torch.save({"features.0.weight": torch.zeros(64, 3, 11, 11)}, tmp_path / "odd.pth")
    with pytest.raises(ConfigError, match=r"odd\.pth: has no 'features\.0\.bias'"):
        AlexNet(weights=str(tmp_path / "odd.pth"))


@pytest.fixture(scope="module")
def small_vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer DINOv2 as transformers saves it."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, patch_size=14, image_size=70
    )
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    transformers.Dinov2Model(config).save_pretrained(folder)
    return folder


def test_a_vit_averages_windows_of_patches(small_vit: Path) -> None:
    vit: Any = build_backbone("dinov2-vits14", weights=str(small_vit), size_px=196).eval()
    images = torch.randn(2, 3, 196, 196)
    with torch.no_grad():
        regions, features = vit(images)
        tokens = vit.vit(pixel_values=images).last_hidden_state
    assert regions.shape == (2, 12, 12, 24)
    patches = tokens[:, 1:].view(2, 14, 14, 24)
    torch.testing.assert_close(regions[:, 4, 7], patches[:, 4:7, 7:10].mean(dim=(1, 2)))
    torch.testing.assert_close(features[:, 0], tokens[:, 0])
    torch.testing.assert_close(features[:, 1], patches.mean(dim=(1, 2)))
    assert features.shape == (2, 18, 24)
    torch.testing.assert_close(features[:, vit.whole_token], patches.mean(dim=(1, 2)))


def test_positions_are_resampled_once(small_vit: Path) -> None:
    """The same numbers as transformers' own resampling at every step."""
    transformers = pytest.importorskip("transformers")
    plain = transformers.Dinov2Model.from_pretrained(small_vit, dtype=torch.float32).eval()
    ours: Any = build_backbone("dinov2-vits14", weights=str(small_vit), size_px=168).eval()
    images = torch.randn(1, 3, 168, 168)
    with torch.no_grad():
        expected = plain(pixel_values=images).last_hidden_state
        found = ours.vit(pixel_values=images).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("newer", [True, False])
def test_weights_load_across_releases_of_transformers(small_vit: Path, newer: bool) -> None:
    from sightwords.train.words.backbones.vit import ALIASES

    vit = build_backbone("dinov2-vits14", weights=str(small_vit), size_px=168)
    state = {}
    for name, value in vit.state_dict().items():
        for old, new in ALIASES:
            found, wanted = (old, new) if newer else (new, old)
            name = name.replace(found, wanted)
        state[name] = value + 1
    vit.load_state_dict(state)
    assert set(vit.state_dict()) >= {n for n in state if "embeddings" in n}
    blocks = [n for n in vit.state_dict() if n.endswith("layer.0.norm1.weight")]
    assert torch.equal(vit.state_dict()[blocks[0]], state[blocks[0]])


def test_a_size_that_does_not_fit_is_refused(small_vit: Path) -> None:
    for size_px in (200, 154):
        with pytest.raises(ConfigError, match=r"multiple of the patch of 14 px with at least 12"):
            build_backbone("dinov2-vits14", weights=str(small_vit), size_px=size_px)
    with pytest.raises(ConfigError, match=r"backbone is 'resnet'; expected one of alexnet, "):
        build_backbone("resnet", weights=None, size_px=224)


def test_a_backbone_that_breaks_its_promise_is_named(tiny_net: Any) -> None:
    network = WordNetwork(tiny_net(size_px=48), 3)
    with pytest.raises(ConfigError, match=r"TinyNet gives regions of shape \(10, 10, 16\)"):
        network(torch.zeros(1, 3, 40, 40))
