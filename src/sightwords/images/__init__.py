"""Photographs in, network inputs out (section 3.1): decode, orient, resize, place the regions.

    source -> decode -> upright RGB -> paper_input | square_input -> (3, height, width) float32
                                    -> paper_regions | patch_regions -> RegionBoxes

Training and serving call the same functions, so that a network sees the same pixels in both.
"""

from sightwords.images.decode import DEFAULT_MAX_PIXELS, ImageSource, decode, to_array
from sightwords.images.grid import RegionBoxes, paper_regions, patch_regions, region_boxes
from sightwords.images.resize import (
    CAFFE,
    PAPER_SIDE_PX,
    TORCHVISION,
    Normalization,
    fit_size,
    paper_input,
    resize,
    square_input,
)

__all__ = [
    "CAFFE",
    "DEFAULT_MAX_PIXELS",
    "PAPER_SIDE_PX",
    "TORCHVISION",
    "ImageSource",
    "Normalization",
    "RegionBoxes",
    "decode",
    "fit_size",
    "paper_input",
    "paper_regions",
    "patch_regions",
    "region_boxes",
    "resize",
    "square_input",
    "to_array",
]
