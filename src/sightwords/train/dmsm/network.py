"""The two networks of the DMSM in torch (section 5.1); `train.dmsm.export` writes them as ONNX.

Deviation: image features are standardised. The preset `default` also shares one layer among the
image's tokens, projects trigrams to `word_units` numbers before the convolution (a third of
the weights) and gives common words a vector of their own; `paper` does none of these.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.config import DmsmConfig
from sightwords.rerank.dmsm import TextIndex
from sightwords.train.data.sampler import RowDropout, normal_rows, rand_rows


class ImageEncoder(nn.Module):
    """(B, T, D) tokens -> (B, S) vectors of length 1: tanh layers over all tokens side by side."""

    mean: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, int], config: DmsmConfig) -> None:
        super().__init__()
        tokens, units = shape
        self.config = config
        # Standardised by the training images: networks differ in the scale of features by a factor
        # of 100, which tanh layers cannot take.
        self.register_buffer("mean", torch.zeros(units))
        self.register_buffer("scale", torch.ones(units))
        self.token = nn.Linear(units, config.token_units) if config.token_units else None
        widths = [
            tokens * (config.token_units or units),
            *[config.hidden_units] * (config.image_layers - 1),
            config.semantic_units,
        ]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = RowDropout(config.dropout)

    @torch.no_grad()
    def standardise(self, features: Tensor) -> None:
        """Take mean and spread of each unit from (N, T, D) features."""
        flat = features.float().flatten(0, 1)
        self.mean.copy_(flat.mean(0))
        self.scale.copy_(1 / flat.std(0, correction=0).clamp(min=1e-3))

    def forward(self, features: Tensor) -> Tensor:
        """Tanh layers after the optional layer that all tokens share."""
        hidden = self._disturbed((features.float() - self.mean) * self.scale)
        if self.token is not None:
            hidden = torch.tanh(self.token(hidden))
        hidden = self.dropout(hidden.flatten(1))
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return functional.normalize(hidden.float(), dim=1)

    def _disturbed(self, tokens: Tensor) -> Tensor:
        if not self.training:
            return tokens
        if self.config.feature_noise:
            noise = normal_rows(*tokens.shape, device=tokens.device)
            tokens = tokens + self.config.feature_noise * noise
        if self.config.token_dropout:
            drawn = rand_rows(*tokens.shape[:2], device=tokens.device)
            kept = drawn >= self.config.token_dropout
            tokens = tokens * kept[..., None] / (1 - self.config.token_dropout)
        return tokens


class TextEncoder(nn.Module):
    """Sentences -> (B, S) vectors of length 1: trigrams, convolution, maximum, tanh layer.

    A convolution over a window of words is the sum of one projection of each, so that each
    different word is projected once, however often the batch has it.
    """

    def __init__(self, index: TextIndex, config: DmsmConfig) -> None:
        super().__init__()
        self.window, self.hidden = index.window, config.hidden_units
        self.config = config
        width = config.word_units or self.window * self.hidden
        self.trigrams = nn.Parameter(_table(len(index.trigrams), width))
        self.own = nn.Parameter(_table(len(index.words), width)) if index.words else None
        self.projection = (
            nn.Linear(width, self.window * self.hidden, bias=False) if config.word_units else None
        )
        self.bias = nn.Parameter(torch.zeros(self.hidden))
        self.semantic = nn.Linear(self.hidden, config.semantic_units)
        self.dropout = RowDropout(config.dropout)

    def forward(self, own: Tensor, trigrams: Tensor, sentences: Tensor) -> Tensor:
        """Words (W,) and (W, K) as of `TextIndex.rows`; sentences (B, L) of their rows, 0 after.

        Or (B, K, L), several of each image -> (B, K, S).
        """
        projected = self._projected(own, trigrams)  # (W, window, H)
        said = sentences != 0
        read = self._hidden_words(sentences)
        length, margin = sentences.shape[-1], self.window // 2
        padded = functional.pad(read, (margin, margin))
        total = sum(
            functional.embedding(padded[..., place : place + length], projected[:, place])
            for place in range(self.window)
        )
        assert isinstance(total, Tensor)
        local = torch.tanh(total + self.bias)
        pooled = local.masked_fill(~said[..., None], -2.0).max(dim=-2).values  # tanh is above -1
        return functional.normalize(torch.tanh(self.semantic(self.dropout(pooled))).float(), dim=-1)

    def _projected(self, own: Tensor, trigrams: Tensor) -> Tensor:
        vectors = _bag(trigrams, self.trigrams)
        if self.own is not None:
            vectors = vectors + _bag(own[:, None], self.own)
        if self.projection is not None:
            vectors = self.projection(vectors)
        return vectors.view(len(trigrams), self.window, self.hidden)

    def _hidden_words(self, sentences: Tensor) -> Tensor:
        if not self.training or not self.config.word_dropout:
            return sentences
        hidden = rand_rows(*sentences.shape, device=sentences.device) < self.config.word_dropout
        return sentences.masked_fill(hidden, 0)


class DmsmNetwork(nn.Module):
    """Both encoders and gamma."""

    def __init__(self, shape: tuple[int, int], index: TextIndex, config: DmsmConfig) -> None:
        super().__init__()
        self.shape, self.index, self.config = shape, index, config
        self.image = ImageEncoder(shape, config)
        self.text = TextEncoder(index, config)
        self.log_gamma = nn.Parameter(
            torch.tensor(math.log(config.gamma)), requires_grad=config.learned_gamma
        )
        # Takes the place of the log of Eq. 5's denominator under noise-contrastive estimation.
        others = config.negatives or config.batch_size - 1
        self.log_norm = nn.Parameter(
            torch.tensor(math.log(others)), requires_grad=config.objective == "nce"
        )

    def forward(
        self, features: Tensor, own: Tensor, trigrams: Tensor, sentences: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Vectors of images (B, S) and of their sentences (B, K, S)."""
        return self.image(features), self.text(own, trigrams, sentences)

    @property
    def gamma(self) -> Tensor:
        """The smoothing factor; at most 100, beyond which the gradient vanishes."""
        return self.log_gamma.exp().clamp(max=100.0)

    @property
    def gamma_value(self) -> float:
        """The same as a number."""
        return float(self.gamma.detach())


def _table(rows: int, width: int) -> Tensor:
    return 0.1 * torch.randn(rows, width)


def _bag(places: Tensor, table: Tensor) -> Tensor:
    """(W, K) places from 1, 0 for none -> (W, width) sums of the table's rows."""
    padded = functional.pad(table, (0, 0, 1, 0))
    return functional.embedding_bag(places, padded, mode="sum", padding_idx=0)
