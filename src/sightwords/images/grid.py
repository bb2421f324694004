"""Where each region of the response map is in the photo (section 3.1).

Input: the geometry of the sliding window and the image's size. Output: boxes in fractions of the
upright image, which is how word evidence is shown to people. Parts of a window that hang over the
image's edge (or over the canvas: the last of the paper's windows ends at 11 x 32 + 224 = 576 on a
canvas of 565, the price of ceil-mode pooling) are cut off; a window that sees padding only has no
box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.images.resize import PAPER_SIDE_PX
from sightwords.types import Box


@dataclass(frozen=True, slots=True)
class RegionBoxes:
    """A box for each region of the grid, in the order of `RegionScores.region_probs`."""

    corners: npt.NDArray[np.float64]
    """(rows, columns, 4): x0, y0, x1, y1 in 0..1 of the upright image; zeros where `inside` is
    false."""
    inside: npt.NDArray[np.bool_]
    """(rows, columns): false where the window covers padding only."""

    def box(self, row: int, column: int) -> Box | None:
        """The region's box, or None where it covers padding only."""
        if not self.inside[row, column]:
            return None
        return Box(*(float(corner) for corner in self.corners[row, column]))


def region_boxes(
    rows: int = 12,
    columns: int = 12,
    *,
    window: int = 224,
    stride: int = 32,
    canvas: int = PAPER_SIDE_PX,
    content: tuple[int, int] | None = None,
) -> RegionBoxes:
    """Boxes of windows slid over the top-left `content` (width, height) of a square canvas.

    Lengths are in any one unit: pixels for a convolutional network, patches for a ViT.
    `content` is the whole canvas unless given. The defaults are the paper's 12 x 12 regions of an
    image that fills its canvas; a ViT with 16 x 16 patches has `window=5, stride=1, canvas=16`.

    >>> grid = region_boxes(2, 2, window=2, stride=1, canvas=4, content=(4, 1))
    >>> grid.box(0, 1)
    Box(x0=0.25, y0=0.0, x1=0.75, y1=1.0)
    >>> grid.box(1, 0) is None
    True
    """
    width, height = content or (canvas, canvas)
    if min(rows, columns, window, stride, width, height) < 1 or max(width, height) > canvas:
        raise InputError(
            f"a {rows} x {columns} grid of {window} windows, stride {stride}, over {width} x "
            f"{height} of a canvas of {canvas}: all must be at least 1, the content within the "
            "canvas"
        )
    x0, x1 = _spans(columns, window, stride, width)
    y0, y1 = _spans(rows, window, stride, height)
    corners = np.zeros((rows, columns, 4))
    corners[..., 0], corners[..., 2] = x0[None, :], x1[None, :]
    corners[..., 1], corners[..., 3] = y0[:, None], y1[:, None]
    inside = (y0 < y1)[:, None] & (x0 < x1)[None, :]
    corners[~inside] = 0
    return RegionBoxes(corners, inside)


def _spans(
    count: int, window: int, stride: int, length: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Start and end of each window as fractions of `length`, cut off at its end."""
    start = np.arange(count) * stride
    return (
        np.minimum(start, length) / length,
        np.minimum(start + window, length) / length,
    )
