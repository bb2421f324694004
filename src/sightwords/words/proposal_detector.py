"""A detector whose regions are object proposals (section 6.3): photo + boxes -> words.

    detector = ProposalDetector.over("my-boxes", "edge_boxes")
    regions = detector(decode("dog.jpg"))   # RegionScores: (R, 1, V), one row per box

The directory is that of any detector; its network has a second input, `boxes` (B, R, 4) in
fractions of the canvas. Everything after the regions, noisy-OR and calibration, is the grid
detector's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from sightwords.errors import BundleError, InputError
from sightwords.images import fit_size
from sightwords.types import Box, DetectedWords, FloatArray, RegionScores, WordScores
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import sigmoid
from sightwords.words.proposals import Method, propose, with_whole_image

Source = Method | Mapping[str, Sequence[Box]]
"""A search method of OpenCV, or the boxes of each image by its name (`read_proposals`)."""


class ProposalDetector(Detector):
    """`Detector` over boxes."""

    source: Source = "edge_boxes"

    @classmethod
    def over(
        cls,
        directory: str | os.PathLike[str],
        source: Source,
        *,
        threads: int | None = None,
        calibrated: bool = True,
    ) -> ProposalDetector:
        """Read a detector directory that `train words` with `run.proposals` has written."""
        loaded = cls.load(directory, threads=threads, calibrated=calibrated)
        assert isinstance(loaded, ProposalDetector)
        if "boxes" not in loaded.network.inputs:
            raise BundleError(
                f"{loaded.network.name}: takes no boxes; it is a detector over a grid: use Detector"
            )
        loaded.source = source
        return loaded

    def __call__(self, image: Image.Image, *, name: str = "") -> RegionScores:
        """As `Detector`, over the boxes of the image."""
        boxes = with_whole_image(self._boxes(image, name), limit=self.spec.grid.rows - 1)
        feed = {
            "image": self.spec.input.prepare(image)[None],
            "boxes": (boxes * self._shares(image))[None],
        }
        outputs = self.network.run(feed, about=name)
        return RegionScores(
            region_probs=sigmoid(outputs["region_logits"][0]),
            corners=boxes[:, None],
            features=outputs["features"][0],
            whole_token=self._whole_token(outputs["features"]),
        )

    def _boxes(self, image: Image.Image, name: str) -> Sequence[Box]:
        if isinstance(self.source, str):
            return propose(image, method=self.source, limit=self.spec.grid.rows - 1)
        if name not in self.source:
            raise InputError(f"{name or 'an image without a name'}: has no proposals")
        return self.source[name]

    def _shares(self, image: Image.Image) -> FloatArray:
        """Width, height, width, height of the photo over those of the canvas."""
        side = self.spec.input.size_px
        padded = self.spec.input.resize == "paper"
        width, height = fit_size(*image.size, side) if padded else (side, side)
        shares: FloatArray = np.array([width, height] * 2, dtype=np.float32) / np.float32(side)
        return shares

    def _described(
        self,
        scores: WordScores,
        precisions: FloatArray,
        regions: RegionScores,
        chosen: Sequence[int],
        threshold: float,
    ) -> DetectedWords:
        """A word's box is the one it is likeliest in."""
        plain = replace(regions, corners=None)
        described = super()._described(scores, precisions, plain, chosen, threshold)
        assert regions.corners is not None
        best = regions.region_probs[:, 0].argmax(axis=0)  # (V,)
        words = (
            replace(word, box=Box(*(float(c) for c in regions.corners[best[place], 0])))
            for word, place in zip(described.words, chosen, strict=True)
        )
        return replace(described, words=tuple(words))
