"""Photos in, network inputs out (section 3.1): decode, orient, resize, locate the regions.

    source -> decode -> upright RGB -> paper_input | square_input -> (3, height, width) float32
                                    -> region_boxes -> RegionBoxes

Training and serving call the same functions, so that a network sees the same pixels in both.
"""

from sightwords.images.apart import decode_apart
from sightwords.images.decode import REDUCED_ABOVE, ImageSource, decode, to_array
from sightwords.images.grid import RegionBoxes, region_boxes
from sightwords.images.limits import DEFAULT_LIMITS, ImageLimits
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
    "DEFAULT_LIMITS",
    "PAPER_SIDE_PX",
    "REDUCED_ABOVE",
    "TORCHVISION",
    "ImageLimits",
    "ImageSource",
    "Normalization",
    "RegionBoxes",
    "decode",
    "decode_apart",
    "fit_size",
    "paper_input",
    "region_boxes",
    "resize",
    "square_input",
    "to_array",
]
