"""The grounded language model as a torch network: image tokens and words -> p(sentence).

Stage: re-ranking (section 5), beyond the paper. A transformer decoder (Vaswani et al. 2017, layers
normalised first) reads sentences and attends to a memory of one empty place, the T image tokens
and the detected words with their probabilities. Ids are those of `language.maxent`: words, `<unk>`,
the end of sentence V, the start symbol V + 1. `rerank.grounded` runs what
`train.grounded.export` writes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.config import GroundedConfig


class Attention(nn.Module):
    """Queries from one sequence, keys and values from another, several heads."""

    def __init__(self, units: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(units, units)
        self.key_value = nn.Linear(units, 2 * units)
        self.out = nn.Linear(units, units)

    def forward(
        self, x: Tensor, source: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Of (B, N, d) and (B, S, d); the mask is spread to (B, heads, N, S).

        It is boolean, True where a place is seen, or numbers that are added to the scores.
        """
        query = self._split(self.query(x))
        key, value = (self._split(part) for part in self.key_value(source).chunk(2, dim=-1))
        found = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal
        )
        out: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        heads = x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads)
        return heads.transpose(1, 2)  # (B, heads, N, d / heads)


class Layer(nn.Module):
    """Attention among places, attention to the memory where there is one, feed-forward."""

    def __init__(self, config: GroundedConfig, *, crosses: bool) -> None:
        super().__init__()
        units = config.units
        self.norm = nn.LayerNorm(units)
        self.attention = Attention(units, config.heads)
        self.cross_norm = nn.LayerNorm(units) if crosses else None
        self.cross = Attention(units, config.heads) if crosses else None
        self.last_norm = nn.LayerNorm(units)
        self.up = nn.Linear(units, config.feed_forward)
        self.down = nn.Linear(config.feed_forward, units)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, memory: Tensor | None, kept: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """Of (B, H, L, d), H sentences per image; without `mask` each place sees those before it.

        Sentences of one image share its memory: they attend to it as one long sequence.
        """
        inner = self.norm(x).flatten(0, 1)
        found = self.attention(inner, inner, mask=mask, causal=mask is None)
        x = x + self.dropout(found.view_as(x))
        if self.cross is not None and self.cross_norm is not None:
            assert memory is not None
            found = self.cross(self.cross_norm(x).flatten(1, 2), memory, mask=kept)
            x = x + self.dropout(found.view_as(x))
        change = self.down(functional.gelu(self.up(self.last_norm(x)), approximate="tanh"))
        out: Tensor = x + self.dropout(change)
        return out


class GroundedNetwork(nn.Module):
    """p(word | words before, image tokens, detected words), and a score of the sentence."""

    def __init__(
        self, config: GroundedConfig, *, outcomes: int, tokens: int, features: int
    ) -> None:
        """`outcomes` counts words, `<unk>` and the end; images have `tokens` of `features`."""
        super().__init__()
        units = config.units
        self.config, self.outcomes, self.image_shape = config, outcomes, (tokens, features)
        self.embedding = nn.Embedding(outcomes + 1, units)
        self.bias = nn.Parameter(torch.zeros(outcomes))
        self.position = nn.Embedding(config.maximum_length + 1, units)
        self.image_norm = nn.LayerNorm(features)
        self.image = nn.Linear(features, units)
        self.place = nn.Parameter(torch.zeros(tokens, units))
        self.prob = nn.Linear(2, units)
        self.empty = nn.Parameter(torch.zeros(1, 1, units))
        memory = [Layer(config, crosses=False) for _ in range(config.memory_layers)]
        self.memory_layers = nn.ModuleList(memory)
        self.memory_norm = nn.LayerNorm(units)
        self.layers = nn.ModuleList(Layer(config, crosses=True) for _ in range(config.layers))
        self.norm = nn.LayerNorm(units)
        self.value = nn.Linear(units, units)
        self.value_out = nn.Linear(units, 1)
        self.dropout = nn.Dropout(config.dropout)
        self._initialise()

    @property
    def end_id(self) -> int:
        """V."""
        return self.outcomes - 1

    @property
    def start_id(self) -> int:
        """V + 1."""
        return self.outcomes

    def memory(
        self, features: Tensor, word_ids: Tensor, word_probs: Tensor, kept: Tensor | None = None
    ) -> Tensor:
        """(B, T, D), (B, W), (B, W) -> (B, 1 + T + W, d); `kept` (B, 1 + T + W) hides places."""
        return self.remember(features, self.embedding(word_ids), word_probs, kept)

    def remember(
        self, features: Tensor, word_vectors: Tensor, word_probs: Tensor, kept: Tensor | None = None
    ) -> Tensor:
        """As `memory`, with the vectors (B, W, d) of the words."""
        normal = self.image_norm(features)
        if self.training and self.config.feature_noise:
            normal = normal + self.config.feature_noise * torch.randn_like(normal)
        image = self.image(normal) + self.place
        numbers = torch.stack([word_probs, word_probs.clamp_min(1e-4).log()], dim=-1)
        words = word_vectors + self.prob(numbers)
        empty = self.empty.expand(len(features), -1, -1)
        x = self.dropout(torch.cat([empty, image, words], dim=1))[:, None]
        mask = None if kept is None else kept[:, None, None]
        for layer in self.memory_layers:
            seen = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=x.device)
            x = layer(x, None, None, seen if mask is None else mask)
        found: Tensor = self.memory_norm(x[:, 0])
        return found

    def read(self, sentences: Tensor, memory: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, H, L) tokens, the start symbol first -> (B, H, L, d) for the next words."""
        positions = torch.arange(sentences.shape[-1], device=sentences.device)
        positions = positions.clamp_max(self.config.maximum_length)
        return self.decode(self.embedding(sentences) + self.position(positions), memory, kept)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> (..., outcomes); the vectors of words are shared with the input."""
        return functional.linear(hidden, self.embedding.weight[: self.outcomes], self.bias)

    def values(self, last: Tensor) -> Tensor:
        """(..., d) at the last words -> (...) a score per sentence, added to its words'."""
        inner = functional.gelu(self.value(last), approximate="tanh")
        found: Tensor = self.value_out(inner)[..., 0]
        return found

    def decode(
        self, x: Tensor, memory: Tensor, kept: Tensor | None, mask: Tensor | None = None
    ) -> Tensor:
        """Vectors of tokens and positions (B, H, L, d) -> (B, H, L, d) what follows them."""
        x = self.dropout(x)
        hidden = None if kept is None else kept[:, None, None]
        for layer in self.layers:
            x = layer(x, memory, hidden, mask)
        found: Tensor = self.norm(x)
        return found

    def _initialise(self) -> None:
        depth = len(self.layers) + len(self.memory_layers)
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2 and "norm" not in name:
                # The output of a layer starts small, so that the sum does not grow with depth.
                ends = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if ends else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        # The sentence's own score starts at 0: before training on lists, only words count.
        nn.init.zeros_(self.value_out.weight)
