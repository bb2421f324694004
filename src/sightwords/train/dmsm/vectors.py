"""Vectors of many images and sentences by a DMSM still in torch: what it is worth so far.

Retrieval tells captions of different images apart; in the pipeline the DMSM tells sentences of one
image's list apart, which `list_agreement` looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sightwords.corpus.ids import canonical_id
from sightwords.metrics.retrieval import Retrieval, retrieval
from sightwords.text.ptb import tokenize_all
from sightwords.train.dmsm.data import word_rows
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.rerank.lists import Lists
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


@dataclass(frozen=True, slots=True)
class ListAgreement:
    """How the cosines of a list's sentences go with what the sentences are worth."""

    correlation: float
    """Mean over images of the correlation within the list."""
    best: float
    """Mean worth of the sentence with the largest cosine."""
    chance: float
    """Mean worth of all sentences."""
    oracle: float
    """Mean worth of the best sentence."""


def list_agreement(
    network: DmsmNetwork, features: ImageFeatures, lists: Lists, values: npt.NDArray[np.float32]
) -> ListAgreement:
    """Judge the model on M-best lists; `values` (H,) is each sentence's CIDEr, say."""
    known = {canonical_id(name): row for row, name in enumerate(features.ids)}
    rows = np.array([known[name] for name in lists.ids.tolist()])
    images = image_vectors(network, features)[rows]
    texts = text_vectors(network, [lists.sentence(h) for h in range(lists.hypotheses)])
    cosines = np.einsum("hs,hs->h", texts, images[lists.images])
    found = []
    for first, last in zip(lists.offsets, lists.offsets[1:], strict=False):
        mine, worth = cosines[first:last].astype(np.float64), values[first:last].astype(np.float64)
        spread = mine.std() * worth.std()
        product = ((mine - mine.mean()) * (worth - worth.mean())).mean()
        correlation = product / spread if spread > 0 else 0.0
        found.append((correlation, worth[mine.argmax()], worth.mean(), worth.max()))
    return ListAgreement(*map(float, np.mean(found, axis=0)))
