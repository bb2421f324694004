"""Figure 2: the response map of a word, drawn over the photo.

Input: the photo, one word's map `(rows, columns)` and its cells' corners: the map of
`words.maps`, or the regions themselves. Output: a picture with the word, its numbers and a scale
below.

A cell's value belongs to all of its window, mostly to the middle: each pixel is the mean of the
cells that cover it, weighted by a smooth bump (Hann) over each window. Colours run in equal
steps of OKLab (Ottosson 2020) from dark blue to light yellow, straight through grey: lightness
alone tells the values apart, so they read in print and to every kind of colour-blindness.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from sightwords.errors import InputError
from sightwords.images import fit_size
from sightwords.types import Box, DetectedWord, FloatArray, RegionScores
from sightwords.words.boxes import region_is_inside
from sightwords.words.maps import word_maps

Bytes = npt.NDArray[np.uint8]

DARK_BLUE = (0.28, -0.01, -0.13)
LIGHT_YELLOW = (0.95, -0.04, 0.16)
"""Ends of the scale in OKLab: lightness, green to red, blue to yellow."""

LONGER_SIDE_PX = 640
"""Longer side of the photo in a picture."""

STRENGTH = 0.6
"""Share of the colours in the picture; the rest is the photo in grey."""

_LMS_OF_LAB = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.2914855480],
    ]
)
_RGB_OF_LMS = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
"""OKLab -> cube roots of cone responses; cone responses -> linear sRGB (Ottosson 2020)."""


@cache
def colour_scale(steps: int = 256) -> Bytes:
    """(steps, 3) RGB, from the lowest to the highest value.

    >>> colour_scale()[[0, -1]].tolist()  # dark blue, light yellow
    [[10, 30, 104], [255, 243, 96]]
    """
    share = np.linspace(0, 1, steps)[:, None]
    lab = (1 - share) * np.array(DARK_BLUE) + share * np.array(LIGHT_YELLOW)
    linear = np.clip((lab @ _LMS_OF_LAB.T) ** 3 @ _RGB_OF_LMS.T, 0, 1)
    gamma = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    scale: Bytes = np.round(255 * gamma).astype(np.uint8)
    return scale


def spread(region_map: FloatArray, corners: FloatArray, size: tuple[int, int]) -> FloatArray:
    """One word's map (rows, columns) -> (height, width) over a photo of `size` (w, h).

    >>> halves = np.array([[[0, 0, 0.5, 1], [0.5, 0, 1, 1]]], dtype=np.float32)
    >>> spread(np.array([[0.0, 1.0]], dtype=np.float32), halves, (4, 1)).round(2)
    array([[0.  , 0.15, 0.85, 1.  ]], dtype=float32)
    """
    width, height = size
    across = _bumps(corners[0, :, 0], corners[0, :, 2], width)  # (columns, width)
    down = _bumps(corners[:, 0, 1], corners[:, 0, 3], height)
    values: FloatArray = down.T @ region_map.astype(np.float32) @ across
    return values


def draw_heatmap(
    image: Image.Image,
    word_map: FloatArray,
    corners: FloatArray,
    *,
    label: str,
    peak: float | None = None,
    box: Box | None = None,
    longer_side_px: int = LONGER_SIDE_PX,
) -> Image.Image:
    """Draw one word: its map over the grey photo, its box, its label and the scale.

    The scale runs from 0 to the map's own peak, which is labelled with `peak`, the probability of
    the word's best region, or with the map's largest value.
    """
    if word_map.shape != corners.shape[:2]:
        raise InputError(
            f"a map of shape {word_map.shape} with corners of shape {corners.shape}; expected "
            "(rows, columns) and (rows, columns, 4)"
        )
    size = fit_size(*image.size, longer_side_px)
    values = spread(word_map, corners, size)
    levels = np.round(255 * values / max(float(values.max()), 1e-30)).astype(np.intp)
    colours = Image.fromarray(colour_scale()[levels])
    grey = image.resize(size, Image.Resampling.BICUBIC).convert("L").convert("RGB")
    picture = Image.blend(grey, colours, STRENGTH)
    if box is not None:
        _draw_box(picture, box)
    highest = float(word_map[region_is_inside(corners)].max()) if peak is None else peak
    return _with_footer(picture, label, highest)


def word_heatmap(
    image: Image.Image,
    regions: RegionScores,
    index: int,
    label: str,
    *,
    box: Box | None = None,
    longer_side_px: int = LONGER_SIDE_PX,
) -> Image.Image:
    """The map of the word with this index, with the probability of its best region."""
    place = word_maps(regions, [index])
    return draw_heatmap(
        image,
        place.maps[..., 0],
        place.corners,
        label=label,
        peak=best_region(regions, index),
        box=box,
        longer_side_px=longer_side_px,
    )


def best_region(regions: RegionScores, index: int) -> float:
    """The largest probability of the word with this index in any region of the photo."""
    if regions.corners is None:
        raise InputError("these region scores have no corners; take them from a Detector")
    return float(regions.region_probs[..., index][region_is_inside(regions.corners)].max())


def detected_heatmap(
    image: Image.Image, regions: RegionScores, index: int, detected: DetectedWord
) -> Image.Image:
    """The map of a detected word, with its box, probability and precision."""
    label = (
        f"{detected.word}   probability {detected.prob:.2f}   precision {detected.precision:.2f}"
    )
    return word_heatmap(image, regions, index, label, box=detected.box)


def _bumps(starts: FloatArray, ends: FloatArray, pixels: int) -> FloatArray:
    """(regions, pixels) weights that add up to 1 in each pixel; 0 for regions without extent."""
    inside = ends > starts
    middles = (starts + ends) / 2
    gaps = np.diff(middles[inside])
    half = np.maximum((ends - starts) / 2, gaps.max() if len(gaps) else 1.0)
    places = (np.arange(pixels) + 0.5) / pixels
    distance = np.abs(places[None, :] - middles[:, None]) / half[:, None]
    # The small term decides where no bump reaches: the nearest region then has the pixel.
    weights = np.cos(np.pi / 2 * np.minimum(distance, 1)) ** 2 + 1e-9 / (1 + distance) ** 8
    weights[~inside] = 0
    normalised: FloatArray = (weights / weights.sum(axis=0)).astype(np.float32)
    return normalised


def _draw_box(picture: Image.Image, box: Box) -> None:
    width, height = picture.size
    left, top = box.x0 * width, box.y0 * height
    right, bottom = max(left, box.x1 * width - 1), max(top, box.y1 * height - 1)
    draw = ImageDraw.Draw(picture)
    # White inside black: visible on every background.
    draw.rectangle((left, top, right, bottom), outline="black", width=4)
    if min(right - left, bottom - top) >= 2:  # a photo may be one pixel high
        draw.rectangle((left + 1, top + 1, right - 1, bottom - 1), outline="white", width=2)


def _with_footer(picture: Image.Image, label: str, peak: float) -> Image.Image:
    """The picture on a white page, below it the label and the scale with its numbers."""
    font, small = ImageFont.load_default(18), ImageFont.load_default(13)
    highest = f"{peak:.2g} in its best region"
    bar = max(80, picture.width // 3)
    # An upright photo may be narrower than the text below it.
    texts = (8 + font.getlength(label) + 8, 30 + bar + small.getlength(highest) + 8)
    width = max(picture.width, 240, *map(math.ceil, texts))
    page = Image.new("RGB", (width, picture.height + 62), "white")
    page.paste(picture, ((width - picture.width) // 2, 0))
    draw = ImageDraw.Draw(page)
    draw.text((8, picture.height + 6), label, fill="black", font=font)
    top = picture.height + 36
    strip = np.repeat(colour_scale(bar)[None], 14, axis=0)
    page.paste(Image.fromarray(strip), (24, top))
    draw.text((8, top - 1), "0", fill="black", font=small)
    draw.text((30 + bar, top - 1), highest, fill="black", font=small)
    return page
