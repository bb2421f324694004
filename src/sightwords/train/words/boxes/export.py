"""A trained network over boxes -> a detector directory (section 6.3)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from sightwords.config import Config
from sightwords.errors import BundleError
from sightwords.files import atomic_path
from sightwords.runtime import Network
from sightwords.settings import save_resolved
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.train.words.boxes.network import BoxNetwork
from sightwords.train.words.export import TOLERANCE, Export, write_program
from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME, DetectorSpec, GridSpec


def export_boxes(
    network: BoxNetwork,
    vocabulary: Vocabulary,
    config: Config,
    directory: str | os.PathLike[str],
    *,
    tolerance: float = TOLERANCE,
) -> Export:
    """Write a detector directory for `words.proposal_detector`, compared with torch."""
    folder, network = Path(directory), network.cpu().eval()
    side = network.backbone.input.size_px
    generator = torch.Generator().manual_seed(0)
    corners = torch.rand(2, 5, 2, 2, generator=generator).sort(dim=2).values
    inputs = {
        "image": torch.randn(2, 3, side, side, generator=generator),
        "boxes": corners.flatten(2),
    }
    batch = torch.export.Dim("batch")
    with atomic_path(folder / NETWORK_NAME) as temporary:
        write_program(
            _Served(network),
            inputs,
            ("region_logits", "features"),
            temporary,
            shapes=({0: batch}, {0: batch, 1: torch.export.Dim("boxes")}),
        )
        difference = _difference(network, Network(temporary), inputs)
        if not difference <= tolerance:
            raise BundleError(
                f"{folder / NETWORK_NAME}: probabilities differ from torch's by {difference:.2g}, "
                f"more than {tolerance:.2g}; the export is not written"
            )
    save_vocabulary(vocabulary, folder / VOCABULARY_NAME)
    save_resolved(config, folder)
    count = 1 + config.words.proposals
    DetectorSpec(
        backbone=config.words.backbone,
        pooling="noisy_or",
        input=network.backbone.input,
        # Boxes are a column of regions; where they lie, the proposals say.
        grid=GridSpec(rows=count, columns=1, window=1, stride=1, canvas=count),
        words=len(vocabulary),
        whole_token=0,  # of any backbone: `BoxNetwork` begins with the mean of its map
    ).save(folder)
    return Export(folder, (folder / NETWORK_NAME).stat().st_size, difference)


@torch.no_grad()
def _difference(network: BoxNetwork, exported: Network, inputs: Mapping[str, Tensor]) -> float:
    expected = network(inputs["image"], inputs["boxes"]).region_logits.sigmoid()
    found = exported.run({name: value.numpy() for name, value in inputs.items()})
    return float((expected - torch.from_numpy(found["region_logits"]).sigmoid()).abs().max())


class _Served(nn.Module):
    """The network with the outputs of a detector."""

    def __init__(self, network: BoxNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        output = self.network(image, boxes)
        return output.region_logits, output.features
