"""The early system's regions (section 6.3): object proposals instead of dense scanning.

Input: a proposal file, or a photo and a method of OpenCV. Output: boxes in fractions of the
upright image, best first, for a network that pools features in each of them; the noisy-OR of
Eq. 1 then runs over the boxes (`noisy_or(..., axis=-2)`) as it does over the grid.

OpenCV is the optional extra `proposals` (opencv-contrib-python-headless: it has both methods in its
wheel, and no GUI). Its edge boxes need a structured forest, which the wheel does not contain; image
gradients replace it here.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightwords.errors import InputError, require
from sightwords.images import fit_size, resize, to_array
from sightwords.strict_json import loads
from sightwords.types import Box, FloatArray

Method = Literal["selective_search", "edge_boxes"]

WORK_SIDE_PX = 300
"""Photos are reduced to this longer side before the search: both methods slow down with size."""
SMALLEST = 0.05
"""Boxes narrower or lower than this share of the photo are left out."""


def read_proposals(
    path: str | os.PathLike[str], *, limit: int | None = None
) -> Mapping[str, tuple[Box, ...]]:
    """Read JSON lines `{"id": "9", "boxes": [[x0, y0, x1, y1], ...]}`, fractions, best first.

    The content tells whether the file is gzipped.
    """
    found: dict[str, tuple[Box, ...]] = {}
    try:
        raw = Path(path).read_bytes()
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        lines = text.decode("utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a proposal file") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            key, boxes = _proposal(line, f"{path}:{number}")
            if key in found:
                raise InputError(f"{path}:{number}: id {key!r} again; give each image once")
            found[key] = boxes[:limit]
    return found


def propose(
    image: Image.Image,
    *,
    method: Method = "selective_search",
    limit: int = 200,
    side_px: int = WORK_SIDE_PX,
) -> tuple[Box, ...]:
    """At most `limit` boxes of an upright RGB image, best first."""
    cv2 = require("cv2", extra="proposals", purpose="searching object proposals")
    size = fit_size(*image.size, side_px)
    pixels = np.ascontiguousarray(to_array(resize(image, size, resample="bilinear"))[:, :, ::-1])
    if method == "selective_search":
        rectangles = _selective_search(cv2, pixels)
    elif method == "edge_boxes":
        rectangles = _edge_boxes(cv2, pixels, limit)
    else:
        raise InputError(f"proposals by {method!r}; expected selective_search or edge_boxes")
    return tuple(_boxes(rectangles, size, limit))


def with_whole_image(boxes: Sequence[Box], *, limit: int) -> FloatArray:
    """(R, 4) corners: the whole image, then at most `limit` boxes, best first.

    >>> with_whole_image([Box(0, 0, 0.5, 1), Box(0, 0, 1, 0.5)], limit=1).tolist()
    [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0]]
    """
    corners = [(b.x0, b.y0, b.x1, b.y1) for b in boxes[:limit]]
    return np.array([(0.0, 0.0, 1.0, 1.0), *corners], dtype=np.float32)


def _selective_search(cv2: ModuleType, bgr: npt.NDArray[np.uint8]) -> Sequence[Sequence[int]]:
    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(bgr)
    search.switchToSelectiveSearchFast()
    # Its own order is partly random, by the C library's generator; the boxes are not. Large ones,
    # which stand high in its hierarchy, come first here; ties by place.
    found: list[list[int]] = search.process().tolist()
    return sorted(found, key=lambda r: (-r[2] * r[3], r))


def _edge_boxes(cv2: ModuleType, bgr: npt.NDArray[np.uint8], limit: int) -> Sequence[Sequence[int]]:
    grey = cv2.GaussianBlur(cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY), (5, 5), 0)
    across, down = (cv2.Sobel(grey, cv2.CV_32F, *order) for order in ((1, 0), (0, 1)))
    strength = np.hypot(across, down)
    edges = _thin(cv2, strength / max(float(strength.max()), 1e-6), across, down)
    # Edges run at right angles to the gradient; only the direction counts, not its sign.
    orientation = np.mod(np.arctan2(down, across) + np.pi / 2, np.pi).astype(np.float32)
    search = cv2.ximgproc.createEdgeBoxes()
    search.setMaxBoxes(4 * limit)  # some will be too small
    found: list[list[int]] = search.getBoundingBoxes(edges, orientation)[0].tolist()
    return found


def _thin(cv2: ModuleType, edges: FloatArray, across: FloatArray, down: FloatArray) -> FloatArray:
    """Keep an edge where it is strongest along its gradient, one pixel to either side.

    A structured forest's edges are thin; the search takes ten times as long over thick ones.
    """
    length = np.maximum(np.hypot(across, down), 1e-6)
    y, x = np.mgrid[: edges.shape[0], : edges.shape[1]].astype(np.float32)
    kept = edges
    for sign in (1, -1):
        beside = cv2.remap(
            edges,
            x + sign * across / length,
            y + sign * down / length,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
        kept = np.where(edges >= beside, kept, np.float32(0))
    return kept


def _boxes(rectangles: Sequence[Sequence[int]], size: tuple[int, int], limit: int) -> list[Box]:
    """x, y, width, height in pixels -> distinct boxes that are large enough."""
    width, height = size
    boxes: dict[Box, None] = {}
    for x, y, w, h in rectangles:
        if w >= SMALLEST * width and h >= SMALLEST * height:
            box = Box(x / width, y / height, min(1.0, (x + w) / width), min(1.0, (y + h) / height))
            boxes[box] = None
        if len(boxes) == limit:
            break
    return list(boxes)


def _proposal(line: str, where: str) -> tuple[str, tuple[Box, ...]]:
    try:
        record: Any = loads(line)
        boxes = tuple(Box(*map(float, box)) for box in record["boxes"])
        key = str(record["id"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{where}: {line[:60]!r} ({type(error).__name__}: {error}); expected "
            '{"id": "9", "boxes": [[x0, y0, x1, y1], ...]}'
        ) from error
    for box in boxes:
        if not (0 <= box.x0 < box.x1 <= 1 and 0 <= box.y0 < box.y1 <= 1):
            raise InputError(
                f"{where}: {box}; expected fractions of the image, 0 <= x0 < x1 <= 1, same for y"
            )
    return key, boxes
