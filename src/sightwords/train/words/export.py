"""A trained network -> a detector directory that runs without torch (section 3.1).

    WordNetwork + Vocabulary + Config -> network.onnx, vocabulary.json, detector.json,
                                         config.resolved.toml

Every export is compared with the network; one with other probabilities is refused.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.config import Config
from sightwords.errors import BundleError, VocabularyError, require
from sightwords.files import atomic_path
from sightwords.runtime import Network
from sightwords.settings import save_resolved
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import image_prob
from sightwords.train.words.places import add_places
from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME, DetectorSpec

log = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""Largest difference of a probability between torch and ONNX Runtime; 1e-5 is usual."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    directory: Path
    network_bytes: int
    difference: float
    """Largest difference of any probability, of regions and of images, from what was exported."""


def export_detector(
    network: WordNetwork,
    vocabulary: Vocabulary,
    config: Config,
    directory: str | os.PathLike[str],
    *,
    tolerance: float = TOLERANCE,
) -> Export:
    """Write the detector; it has no calibration yet (`train.words.calibration` fits one)."""
    if len(vocabulary) != network.head.out_features:
        raise VocabularyError(
            f"{len(vocabulary)} words for a network of {network.head.out_features} outputs; "
            "export with the vocabulary it was trained on"
        )
    folder = Path(directory)
    network = network.cpu().eval()
    with atomic_path(folder / NETWORK_NAME) as temporary:
        write_onnx(network, temporary)
        if network.pooling == "noisy_or":
            add_places(temporary, temporary, network.backbone.grid)
        difference = parity(network, Network(temporary))
        if not difference <= tolerance:
            raise BundleError(
                f"{folder / NETWORK_NAME}: probabilities differ from torch's by {difference:.2g}, "
                f"more than {tolerance:.2g}; the export is not written: ONNX computes an "
                f"operation of the backbone {config.words.backbone!r} differently"
            )
    save_vocabulary(vocabulary, folder / VOCABULARY_NAME)
    spec = network.backbone.input
    images = replace(config.images, size_px=spec.size_px)
    save_resolved(replace(config, images=images), folder)
    detector_spec(network, config).save(folder)
    size = (folder / NETWORK_NAME).stat().st_size
    log.info("%s: %.1f MB, differs by %.2g from torch", folder, size / 1e6, difference)
    return Export(folder, size, difference)


def detector_spec(network: WordNetwork, config: Config) -> DetectorSpec:
    """The content of `detector.json`."""
    return DetectorSpec(
        backbone=config.words.backbone,
        pooling=network.pooling,
        input=network.backbone.input,
        grid=network.backbone.grid,
        words=network.head.out_features,
        whole_token=network.backbone.whole_token,
    )


def write_onnx(network: WordNetwork, path: str | os.PathLike[str]) -> None:
    """`image` (B, 3, S, S) -> `region_logits`, `features` and, from the whole image, its logits."""
    names = ["region_logits", "features"]
    if network.pooling == "whole_image":
        names.append("image_logits")
    write_program(
        _Served(network),
        {"image": _images(network, count=2)},
        names,
        path,
        shapes=({0: torch.export.Dim("batch")},),
    )


def write_program(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    path: str | os.PathLike[str],
    *,
    shapes: tuple[dict[int, Any], ...],
) -> None:
    """Trace a module on named inputs; `shapes` has the dimensions that may vary."""
    require("onnxscript", extra="train", purpose="ONNX export")
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        model = program.model_proto
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.output):
        part.ClearField("doc_string")  # here the exporter writes paths of this machine
        part.ClearField("metadata_props")
    Path(path).write_bytes(model.SerializeToString())


@torch.no_grad()
def parity(network: WordNetwork, exported: Network, *, images: int = 3) -> float:
    """Largest difference of any probability between torch and an exported network."""
    inputs = _images(network, count=images)
    output = network(inputs)
    found = exported.run({"image": inputs.numpy()})
    pairs = [(output.region_logits.sigmoid(), torch.from_numpy(found["region_logits"]).sigmoid())]
    image_logits = found.get("image_logits")
    pooled = found["region_logits"] if image_logits is None else image_logits[:, None, None]
    pairs.append((image_prob(output.bag_logits), image_prob(torch.from_numpy(pooled))))
    return max(float((a - b).abs().max()) for a, b in pairs)


class _Served(nn.Module):
    """The network with the outputs that `words/artefact.py` names, in that order."""

    def __init__(self, network: WordNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        output = self.network(image)
        if self.network.pooling == "whole_image":
            return output.region_logits, output.features, output.bag_logits[:, 0, 0]
        return output.region_logits, output.features


def _images(network: WordNetwork, *, count: int) -> Tensor:
    """Artificial images: coloured blotches, the same every time."""
    generator = torch.Generator().manual_seed(0)
    blotches = torch.randn(count, 3, 16, 16, generator=generator)
    side = network.backbone.input.size_px
    return functional.interpolate(blotches, size=(side, side), mode="bicubic")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages about torchvision and its own deprecations."""
    chatter = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in chatter]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in chatter:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(chatter, levels, strict=True):
                logger.setLevel(level)
