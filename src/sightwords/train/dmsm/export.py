"""A trained DMSM -> a directory that runs without torch, or one file of weights.

    DmsmNetwork -> dmsm.safetensors (float16, everything that rebuilds it)
    DmsmNetwork -> image.onnx, text.onnx, dmsm.json, config.resolved.toml

The graphs are small and written by hand, so that they store int8 weights with a float32 scale per
column (made float32 when the file is loaded) and take the deduplicated batches of
`rerank.dmsm.TextBatch`. Each export is run beside the network it came from.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightwords.config import DmsmConfig
from sightwords.errors import BundleError, InputError
from sightwords.files import write_bytes, write_text
from sightwords.rerank.dmsm import DMSM_NAME, FORMAT, IMAGE_NAME, TEXT_NAME, Dmsm, TextIndex
from sightwords.sealed import SUMS_NAME, write_sums
from sightwords.settings import from_mapping, save_resolved
from sightwords.strict_json import loads
from sightwords.text.ptb import TOKENIZER
from sightwords.text.trigrams import TrigramIndex
from sightwords.train.dmsm.graphs import image_graph, text_graph
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.dmsm.vectors import text_vectors
from sightwords.train.weights import read_weights, save_weights
from sightwords.types import FloatArray

log = logging.getLogger(__name__)

WEIGHTS_NAME = "dmsm.safetensors"
TOLERANCE = 0.05
"""Largest difference of a cosine between torch and the export; 0.01 is usual with int8 weights."""


@dataclass(frozen=True, slots=True)
class DmsmExport:
    """What was written."""

    directory: Path
    bytes: int
    """Of all files together."""
    difference: float
    """Largest difference of any cosine from what torch gives."""


def save_dmsm(network: DmsmNetwork, path: str | os.PathLike[str]) -> None:
    """Weights in float16, with words, trigrams and settings in the header."""
    about = {
        "config": json.dumps(asdict(network.config)),
        "shape": json.dumps(network.shape),
        "words": json.dumps(network.index.words),
        "trigrams": json.dumps(network.index.trigrams.trigrams),
    }
    save_weights(network, path, about)


def load_dmsm(path: str | os.PathLike[str]) -> DmsmNetwork:
    """The network that `save_dmsm` wrote."""
    state, about = read_weights(path)
    try:
        header = {key: loads(value) for key, value in about.items()}
        config = from_mapping(DmsmConfig, header["config"], where=str(path))
        trigrams = TrigramIndex(tuple(header["trigrams"]))
        tokens, units = header["shape"]
        index = TextIndex(tuple(header["words"]), trigrams, config.word_window)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{path}: not the weights of a DMSM ({error}); give a file that its training wrote"
        ) from error
    network = DmsmNetwork((tokens, units), index, config)
    network.load_state_dict(state)
    return network.eval()


def export_dmsm(
    network: DmsmNetwork,
    directory: str | os.PathLike[str],
    *,
    int8: bool = True,
    tolerance: float = TOLERANCE,
) -> DmsmExport:
    """Write the directory; with `int8=False` weights are kept in float32."""
    folder = Path(directory)
    network = network.cpu().eval()
    write_bytes(folder / IMAGE_NAME, image_graph(network.image, network.shape, int8=int8))
    write_bytes(folder / TEXT_NAME, text_graph(network.text, network.index, int8=int8))
    write_text(folder / DMSM_NAME, _document(network))
    write_sums(folder, (DMSM_NAME, IMAGE_NAME, TEXT_NAME))
    save_resolved(network.config, folder)
    difference = parity(network, Dmsm.load(folder, threads=1))
    if not difference <= tolerance:
        for name in (DMSM_NAME, SUMS_NAME):  # without them nothing here can be loaded
            (folder / name).unlink()
        raise BundleError(
            f"{folder}: cosines differ from torch's by {difference:.2g}, more than "
            f"{tolerance:.2g}; export with int8=False, or raise the tolerance"
        )
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    log.info("%s: %.1f MB, cosines differ by %.2g from torch", folder, size / 1e6, difference)
    return DmsmExport(folder, size, difference)


@torch.no_grad()
def parity(network: DmsmNetwork, exported: Dmsm, *, features: FloatArray | None = None) -> float:
    """Largest difference of any cosine between torch and an export, on artificial input."""
    if features is None:
        noise = np.random.default_rng(0).standard_normal((8, *network.shape))
        mean, scale = network.image.mean.numpy(), network.image.scale.numpy()
        features = (noise / scale + mean).astype(np.float32)
    sentences = _sentences(network.index)
    images = network.image(torch.from_numpy(features)).numpy()
    expected = images @ text_vectors(network, sentences).T
    found = exported.images(features) @ exported.texts(sentences).T
    return float(np.abs(expected - found).max())


def _sentences(index: TextIndex) -> Sequence[tuple[str, ...]]:
    """Artificial sentences: common words, and new words made of trigrams."""
    rng = np.random.default_rng(1)
    pieces = [t.strip("#") for t in index.trigrams.trigrams]
    words = [*index.words[:500], *(a + b for a, b in pairwise(pieces) if a)]
    lengths = rng.integers(1, 14, size=32)
    return [tuple(words[i] for i in rng.integers(len(words), size=n)) for n in lengths]


def _document(network: DmsmNetwork) -> str:
    tokens, units = network.shape
    document: dict[str, Any] = {
        "format": FORMAT,
        "tokenizer": TOKENIZER,
        "tokens": tokens,
        "units": units,
        "semantic_units": network.config.semantic_units,
        "word_window": network.index.window,
        "gamma": round(network.gamma_value, 6),
        "words": network.index.words,
        "trigrams": network.index.trigrams.trigrams,
    }
    lines = (f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
