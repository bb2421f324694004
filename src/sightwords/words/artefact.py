"""A word detector on disk: what training writes and `Detector.load` reads.

A detector directory holds

    detector.json     this module: how an image is prepared, where the regions lie
    network.onnx      image (B, 3, S, S) -> region_logits (B, rows, columns, V), features (B, T, D),
                      for whole-image Classification also image_logits (B, V), and from a ViT
                      patch_logits (B, n, n, V) and attention (B, n, n), which locate words
    vocabulary.json   the V words, in the order of the network's output
    calibration.json  score -> precision of each word (section 3.2)
    sums.json         the SHA-256 sums of these files; in a bundle, `bundle.json` has them

`DetectorSpec.save` lists the first three, `Calibration.save` adds the last: a calibration that was
fitted for another network is not listed, so it is not loaded.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

from sightwords.errors import BundleError
from sightwords.files import write_text
from sightwords.images import (
    Normalization,
    RegionBoxes,
    fit_size,
    paper_input,
    region_boxes,
    square_input,
)
from sightwords.json_reader import Reader
from sightwords.sealed import Sealed, folder_of, write_sums
from sightwords.types import FloatArray

FORMAT = 1
DEFAULT_DETECTOR = Path(__file__).parents[1] / "default_bundle" / "words"
"""The detector inside the package."""
DETECTOR_NAME = "detector.json"
NETWORK_NAME = "network.onnx"
VOCABULARY_NAME = "vocabulary.json"
CALIBRATION_NAME = "calibration.json"
MOST_WORDS = 100_000
MOST_PIXELS = 4096
"""Along a side of the network's input; the paper's is 565."""
MOST_REGIONS = 128
"""Along a side of the response map; the paper's is 12."""

Resize = Literal["square", "paper"]
Resample = Literal["bilinear", "bicubic"]
Pooling = Literal["noisy_or", "whole_image"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """How a photo becomes the network's input (section 3.1)."""

    resize: Resize
    """`square` squashes; `paper` fits the longer side and pads at the right and below."""
    size_px: int
    resample: Resample
    normalization: Normalization

    def prepare(self, image: Image.Image) -> FloatArray:
        """Upright RGB -> (3, size_px, size_px) float32."""
        if self.resize == "paper":
            return paper_input(
                image,
                longer_side_px=self.size_px,
                normalization=self.normalization,
                resample=self.resample,
            )
        return square_input(
            image,
            side_px=self.size_px,
            normalization=self.normalization,
            resample=self.resample,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSpec:
    """The sliding window of the response map, in the units of `images.region_boxes`."""

    rows: int
    columns: int
    window: int
    stride: int
    canvas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorSpec:
    """The contents of `detector.json`."""

    backbone: str
    pooling: Pooling
    input: InputSpec
    grid: GridSpec
    words: int
    """The size V of the vocabulary and of the network's output."""
    whole_token: int | None = None
    """Which of the T tokens of `features` describes the image as a whole, as the mean of its
    parts. None in older files: see `usual_whole_token`."""

    def regions(self, width: int, height: int) -> RegionBoxes:
        """Where the regions lie in an upright image of this size."""
        return self._cells(self.grid, width, height)

    def patches(self, width: int, height: int) -> RegionBoxes:
        """Where the patches lie that the regions are windows of."""
        side = self.grid.canvas
        cells = GridSpec(rows=side, columns=side, window=1, stride=1, canvas=side)
        return self._cells(cells, width, height)

    def _cells(self, grid: GridSpec, width: int, height: int) -> RegionBoxes:
        padded = self.input.resize == "paper"
        return region_boxes(
            grid.rows,
            grid.columns,
            window=grid.window,
            stride=grid.stride,
            canvas=grid.canvas,
            content=fit_size(width, height, grid.canvas) if padded else None,
        )

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write `detector.json` beside the network and the vocabulary, and the sums of all three.

        An existing calibration is then no longer part of the detector: fit it again.
        """
        folder = Path(directory)
        known = {key: value for key, value in asdict(self).items() if value is not None}
        document = {"format": FORMAT, **known}
        write_text(folder / DETECTOR_NAME, json.dumps(document, indent=1) + "\n")
        write_sums(folder, (DETECTOR_NAME, NETWORK_NAME, VOCABULARY_NAME))

    @classmethod
    def load(cls, directory: str | os.PathLike[str] | Sealed) -> DetectorSpec:
        """Read and check `detector.json`."""
        reader = Reader.open(folder_of(directory) / DETECTOR_NAME, newest=FORMAT)
        return cls(
            backbone=reader.take("backbone", str),
            pooling=reader.choice("pooling", Pooling),
            input=_input(reader.table("input")),
            grid=_grid(reader.table("grid")),
            words=reader.count("words", MOST_WORDS),
            whole_token=reader.take("whole_token", int) if "whole_token" in reader.values else None,
        )


def usual_whole_token(tokens: int) -> int:
    """`whole_token` of older detectors of T tokens, whose `detector.json` does not have it.

    A ViT has its class token before the mean and 4 x 4 parts; networks with one token, or with a
    mean and its parts, begin with the mean.

    >>> [usual_whole_token(tokens) for tokens in (1, 17, 18)]
    [0, 0, 1]
    """
    return 0 if tokens in (1, 17) else 1


def _input(reader: Reader) -> InputSpec:
    inner = reader.table("normalization")
    normalization = Normalization(
        channels="BGR" if inner.choice("channels", Literal["RGB", "BGR"]) == "BGR" else "RGB",
        scale=inner.between("scale", 1e-6, 1e6),
        mean=inner.three("mean"),
        std=inner.three("std"),
    )
    if min(map(abs, normalization.std)) < 1e-6:
        raise BundleError(f"{inner.where}: std is {normalization.std}; expected no zero")
    return InputSpec(
        resize=reader.choice("resize", Resize),
        size_px=reader.count("size_px", MOST_PIXELS),
        resample=reader.choice("resample", Resample),
        normalization=normalization,
    )


def _grid(reader: Reader) -> GridSpec:
    return GridSpec(
        **{
            **{key: reader.count(key, MOST_REGIONS) for key in ("rows", "columns")},
            **{key: reader.count(key, MOST_PIXELS) for key in ("window", "stride", "canvas")},
        }
    )
