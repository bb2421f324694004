"""A trained grounded model -> a directory that `rerank.grounded` runs without torch.

GroundedNetwork + Vocabulary -> network.onnx, vocabulary.json, grounded.json
"""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sightwords.config import GroundedConfig
from sightwords.errors import BundleError, VocabularyError
from sightwords.files import atomic_path
from sightwords.rerank.grounded import NETWORK_NAME, VOCABULARY_NAME, Grounded, GroundedSpec
from sightwords.rerank.prefix_tree import PrefixTree
from sightwords.runtime import Network
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.train.grounded.network import GroundedNetwork
from sightwords.train.words.export import write_program
from sightwords.train.words.quantise import to_int8

log = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""Largest difference of a log-probability between torch and ONNX Runtime in float32."""
HIDDEN = -1e9
"""Added to attention scores of hidden nodes."""
Form = Literal["float32", "int8"]


@dataclass(frozen=True, slots=True)
class GroundedExport:
    """What was written."""

    directory: Path
    total_bytes: int
    difference: float
    """Largest difference of a sentence's score from torch's, on artificial sentences."""


def new_grounded(
    config: GroundedConfig, vocabulary: Vocabulary, image_shape: tuple[int, int]
) -> GroundedNetwork:
    """A network of fresh weights; the same ones for the same seed."""
    torch.manual_seed(config.seed)
    tokens, features = image_shape
    return GroundedNetwork(config, outcomes=len(vocabulary) + 2, tokens=tokens, features=features)


def export_grounded(
    network: GroundedNetwork,
    vocabulary: Vocabulary,
    directory: str | os.PathLike[str],
    *,
    form: Form = "int8",
    tolerance: float = TOLERANCE,
) -> GroundedExport:
    """Write the directory; an export that differs from torch is refused.

    `int8`: matrix products with weights in int8, one scale per column, activations scaled at run
    time, and word vectors in int8, one scale each; a quarter of the bytes.
    """
    if len(vocabulary) + 2 != network.outcomes:
        raise VocabularyError(
            f"{len(vocabulary)} words for a network of {network.outcomes - 2}; export with the "
            "vocabulary it was trained on"
        )
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    network = network.cpu().eval()
    with tempfile.TemporaryDirectory() as scratch:
        exact = Path(scratch) / NETWORK_NAME
        write_onnx(network, exact, form="float32")
        difference = parity(network, Network(exact))
        if not difference <= tolerance:
            raise BundleError(
                f"{folder / NETWORK_NAME}: log-probabilities differ from torch's by "
                f"{difference:.2g}, more than {tolerance:.2g}; the export is not written"
            )
        with atomic_path(folder / NETWORK_NAME) as temporary:
            if form == "int8":
                write_onnx(network, exact, form="int8")
                to_int8(exact, temporary, [])
                difference = parity(network, Network(temporary))
            else:
                temporary.write_bytes(exact.read_bytes())
    save_vocabulary(vocabulary, folder / VOCABULARY_NAME)
    spec_of(network, vocabulary).save(folder)
    Grounded.load(folder, threads=1)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    log.info("%s: %.1f MB, differs by %.2g from torch", folder, size / 1e6, difference)
    return GroundedExport(folder, size, difference)


def spec_of(network: GroundedNetwork, vocabulary: Vocabulary) -> GroundedSpec:
    """The content of `grounded.json`."""
    config = network.config
    return GroundedSpec(
        tokens=network.image_shape[0],
        features=network.image_shape[1],
        vocabulary=len(vocabulary),
        words=config.words,
        word_threshold=config.word_threshold,
        maximum_length=config.maximum_length,
        length_power=config.length_power,
    )


class Served(nn.Module):
    """The network with the inputs and outputs that `rerank/grounded.py` names."""

    def __init__(self, network: GroundedNetwork, form: Form) -> None:
        super().__init__()
        self.network, self.small = network, form == "int8"
        table = network.embedding.weight.detach()
        # A separate matrix, which the quantiser needs.
        self.register_buffer("output", table[: network.outcomes].T.contiguous())
        if self.small:
            scale = table.abs().amax(dim=1, keepdim=True).clamp_min(1e-8) / 127
            self.register_buffer("table", (table / scale).round().to(torch.int8))
            self.register_buffer("scale", scale)

    def forward(  # noqa: PLR0917  # the exporter calls by place
        self,
        tokens: Tensor,
        positions: Tensor,
        parents: Tensor,
        seen: Tensor,
        image: Tensor,
        word_ids: Tensor,
        word_probs: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of each node's token after its parent, of the end after it, value."""
        network = self.network
        words = self._vectors(word_ids)[None]
        memory = network.remember(image[None], words, word_probs[None])
        x = self._vectors(tokens) + network.position(positions)
        # Converted once: booleans would be converted in every layer.
        hidden_by = torch.where(seen, 0.0, HIDDEN)[None, None]
        hidden = network.decode(x[None, None], memory, None, hidden_by)[0, 0]
        logits = hidden @ self.get_buffer("output") + network.bias
        log_probs = logits.log_softmax(dim=-1)  # (N, outcomes)
        own = log_probs[parents, tokens.clamp_max(network.end_id)]
        values = network.values(hidden)
        if not network.config.value_head:
            values = values * 0
        return own, log_probs[:, network.end_id], values

    def _vectors(self, ids: Tensor) -> Tensor:
        if not self.small:
            vectors: Tensor = self.network.embedding(ids)
            return vectors
        table, scale = self.get_buffer("table"), self.get_buffer("scale")
        return table[ids].float() * scale[ids]


def write_onnx(
    network: GroundedNetwork, path: str | os.PathLike[str], *, form: Form = "float32"
) -> None:
    """Export; any number of nodes and of detected words, none included."""
    nodes, words = torch.export.Dim("nodes"), torch.export.Dim("words")
    shapes: tuple[dict[int, Any], ...] = (
        {0: nodes},
        {0: nodes},
        {0: nodes},
        {0: nodes, 1: nodes},
        {},
        {0: words},
        {0: words},
    )
    outputs = ("log_probs", "end_log_probs", "values")
    write_program(Served(network, form), example_inputs(network), outputs, path, shapes=shapes)


@torch.no_grad()
def parity(network: GroundedNetwork, exported: Network) -> float:
    """Largest difference of any output between torch and an exported network."""
    inputs = example_inputs(network)
    expected = Served(network, "float32")(*inputs.values())
    found = exported.run({name: value.numpy() for name, value in inputs.items()})
    pairs = zip(("log_probs", "end_log_probs", "values"), expected, strict=True)
    return max(float(np.abs(found[name] - value.numpy()).max()) for name, value in pairs)


def example_inputs(network: GroundedNetwork) -> dict[str, Tensor]:
    """An artificial image, five words and six sentences, the same every time."""
    random = np.random.default_rng(0)
    words = network.outcomes - 2
    sentences = [random.integers(0, words, size=n).tolist() for n in (3, 5, 2, 4)]
    sentences += [[*sentences[0], 0], sentences[1][:2]]
    tree = PrefixTree.of(sentences, start=network.start_id)
    image = random.standard_normal(network.image_shape).astype(np.float32)
    arrays = {
        "tokens": tree.tokens,
        "positions": np.minimum(tree.depths, network.config.maximum_length),
        "parents": tree.parents,
        "seen": tree.seen(),
        "image": image,
        "word_ids": random.integers(0, words, size=5),
        "word_probs": random.uniform(0.2, 1, size=5).astype(np.float32),
    }
    return {name: torch.from_numpy(value) for name, value in arrays.items()}
