"""From captioned images to a word detector (section 3.1): the steps of `sightwords train words`.

table of images + captions -> targets -> trained network -> weights on disk, scores of images
"""

from __future__ import annotations

import os

import torch

from sightwords.config import WordsConfig
from sightwords.errors import require
from sightwords.files import atomic_path
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.backbones import build_backbone
from sightwords.train.labels import caption_targets
from sightwords.train.network import WordNetwork
from sightwords.train.table import ImageTable
from sightwords.train.words import Progress, train_words


def new_network(
    config: WordsConfig, words: int, *, weights: str | None, size_px: int
) -> WordNetwork:
    """An untrained detector on a pretrained backbone."""
    torch.manual_seed(config.seed)
    backbone = build_backbone(
        config.backbone,
        weights=weights,
        size_px=size_px,
        drop_path=config.drop_path,
        grid=config.grid,
    )
    return WordNetwork(
        backbone,
        words,
        pooling=config.pooling,
        dropout=config.dropout,
        initial_bias=config.initial_bias,
    )


def fit_detector(
    table: ImageTable,
    vocabulary: Vocabulary,
    config: WordsConfig,
    *,
    weights: str | None,
    size_px: int,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    compile_network: bool = False,
    progress: Progress | None = None,
) -> WordNetwork:
    """Train a detector of the vocabulary's words on every image of the table."""
    network = new_network(config, len(vocabulary), weights=weights, size_px=size_px)
    targets = caption_targets(table.captions, vocabulary, labels=config.labels)
    return train_words(
        network,
        table,
        targets,
        config,
        device=device,
        folder=folder,
        compile_network=compile_network,
        progress=progress,
    )


def save_weights(network: WordNetwork, path: str | os.PathLike[str]) -> None:
    """Half-precision weights as safetensors."""
    files = require("safetensors.torch", extra="train", purpose="saving weights")
    state = {k: v.detach().half().cpu().contiguous() for k, v in network.state_dict().items()}
    with atomic_path(path) as temporary:
        mode = temporary.stat().st_mode
        files.save_file(state, temporary)  # makes a new file that only its owner may read
        temporary.chmod(mode)


def load_weights(network: WordNetwork, path: str | os.PathLike[str]) -> WordNetwork:
    """Put saved weights into a network of the same kind."""
    files = require("safetensors.torch", extra="train", purpose="loading weights")
    network.load_state_dict({k: v.float() for k, v in files.load_file(path).items()})
    return network
