"""Vectors of many images and sentences by a DMSM still in torch: for retrieval while it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from sightwords.evaluate.ids import canonical_id
from sightwords.evaluate.retrieval import Retrieval, retrieval
from sightwords.text.ptb import tokenize_all
from sightwords.train.dmsm_data import word_rows
from sightwords.train.dmsm_network import DmsmNetwork
from sightwords.train.image_features import ImageFeatures
from sightwords.types import FloatArray


@torch.no_grad()
def image_vectors(
    network: DmsmNetwork, features: ImageFeatures, *, batch_size: int = 1024
) -> FloatArray:
    """(N, S) of every image, in the order of the features."""
    network.eval()
    device = network.log_gamma.device
    parts = [
        network.image(torch.from_numpy(features.features[start : start + batch_size]).to(device))
        for start in range(0, len(features), batch_size)
    ]
    found: FloatArray = torch.cat(parts).cpu().numpy()
    return found


@torch.no_grad()
def text_vectors(
    network: DmsmNetwork, sentences: Sequence[Sequence[str]], *, batch_size: int = 2048
) -> FloatArray:
    """(M, S) of sentences of tokens."""
    network.eval()
    device = network.log_gamma.device
    parts = []
    for start in range(0, len(sentences), batch_size):
        group = sentences[start : start + batch_size]
        words = ("", *sorted({word for tokens in group for word in tokens}))
        own, trigrams = (torch.from_numpy(a).to(device) for a in network.index.rows(words))
        rows = torch.from_numpy(word_rows(group, words)).to(device)
        parts.append(network.text(own, trigrams, rows))
    found: FloatArray = torch.cat(parts).cpu().numpy()
    return found


def evaluate_network(
    network: DmsmNetwork,
    features: ImageFeatures,
    captions: Mapping[str, Sequence[str]],
    *,
    images: int = 1000,
    captions_per_image: int = 5,
) -> Retrieval:
    """Retrieval among the first `images` images and their first five captions."""
    known = {canonical_id(name): texts for name, texts in captions.items()}
    ids = [name for name in features.ids if known.get(canonical_id(name))][:images]
    groups = [list(known[canonical_id(name)])[:captions_per_image] for name in ids]
    sentences = tokenize_all([caption for group in groups for caption in group])
    owners = np.repeat(np.arange(len(ids)), [len(group) for group in groups])
    return retrieval(
        image_vectors(network, features.select(ids)), text_vectors(network, sentences), owners
    )
