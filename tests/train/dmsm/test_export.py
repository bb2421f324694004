"""Exports of the similarity model: ONNX beside torch, weights in one file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

import torch

from sightwords.config import DmsmConfig
from sightwords.errors import BundleError, InputError
from sightwords.rerank.dmsm import Dmsm, TextIndex
from sightwords.text.trigrams import TrigramIndex
from sightwords.train.dmsm.export import export_dmsm, load_dmsm, parity, save_dmsm
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.dmsm.vectors import text_vectors

WORDS = ("a", "the", "dog", "cat", "runs", "on", "grass", "surfboard")
DEFAULT = DmsmConfig(token_units=8, hidden_units=64, semantic_units=48, word_units=24, own_words=5)
PAPER = DmsmConfig(hidden_units=40, semantic_units=16)


def _network(config: DmsmConfig, shape: tuple[int, int] = (3, 10)) -> DmsmNetwork:
    torch.manual_seed(0)
    own = WORDS[: config.own_words]
    index = TextIndex(own, TrigramIndex.of_words(WORDS), config.word_window)
    network = DmsmNetwork(shape, index, config)
    network.image.standardise(3 + 2 * torch.randn(50, *shape))
    return network.eval()


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        DEFAULT,
        PAPER,
        replace(DEFAULT, word_window=1, own_words=0, image_layers=1),
        replace(PAPER, word_window=5, own_words=8, token_units=4),
    ],
    ids=["default", "paper", "one-word", "five-words"],
)
def test_the_export_gives_torchs_cosines(config: DmsmConfig, int8: bool, tmp_path: Path) -> None:
    network = _network(config)
    export = export_dmsm(network, tmp_path, int8=int8)
    assert export.difference < (0.02 if int8 else 1e-5)
    found = Dmsm.load(tmp_path, threads=1)
    assert found.gamma == pytest.approx(config.gamma)
    sentences = [("a", "dog", "runs"), ("unseen", "catdog"), ("qqq",)]
    np.testing.assert_allclose(
        found.texts(sentences), text_vectors(network, sentences), atol=0.02 if int8 else 1e-5
    )


def test_int8_is_a_quarter(tmp_path: Path) -> None:
    network = _network(replace(DEFAULT, hidden_units=256))
    small = export_dmsm(network, tmp_path / "int8")
    large = export_dmsm(network, tmp_path / "float32", int8=False)
    assert small.bytes < 0.35 * large.bytes


def test_weights_survive_the_file(tmp_path: Path) -> None:
    network = _network(replace(DEFAULT, objective="nce", learned_gamma=True))
    path = tmp_path / "dmsm.safetensors"
    save_dmsm(network, path)
    found = load_dmsm(path)
    assert found.config == network.config
    assert found.index == network.index
    assert found.shape == network.shape
    for (name, a), b in zip(network.state_dict().items(), found.state_dict().values(), strict=True):
        torch.testing.assert_close(a.half().float(), b, msg=name)


def test_other_files_are_no_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "x.safetensors"
    for write in (
        lambda: path.write_bytes(b"nothing"),
        lambda: save_file({"a": torch.zeros(1)}, path),
    ):
        write()
        with pytest.raises(InputError, match=r"x\.safetensors"):
            load_dmsm(path)
    with pytest.raises(InputError, match=r"absent\.safetensors"):
        load_dmsm(tmp_path / "absent.safetensors")


def test_an_export_that_differs_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cosines differ from torch's by"):
        export_dmsm(_network(DEFAULT), tmp_path, tolerance=1e-12)
    with pytest.raises(BundleError, match=r"holds no dmsm\.json"):
        Dmsm.load(tmp_path)


def test_parity_sees_other_weights(tmp_path: Path) -> None:
    network = _network(DEFAULT)
    export_dmsm(network, tmp_path, int8=False)
    with torch.no_grad():
        network.text.bias.add_(1.0)
    assert parity(network, Dmsm.load(tmp_path, threads=1)) > 0.01


def test_nothing_of_this_machine_is_in_the_files(tmp_path: Path) -> None:
    export_dmsm(_network(DEFAULT), tmp_path)
    for file in tmp_path.iterdir():
        assert str(Path.cwd()).encode() not in file.read_bytes()
    document = json.loads((tmp_path / "dmsm.json").read_text("utf-8"))
    assert document["words"] == list(WORDS[:5])
