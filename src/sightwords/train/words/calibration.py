"""Section 3.2: held-out images -> the calibration of a detector directory.

The detector runs on ONNX Runtime, as in use; torch is not needed.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from PIL import Image

from sightwords.errors import CorpusError, ImageError
from sightwords.images import decode
from sightwords.parallel import ordered_map
from sightwords.train.words.labels import CAPTIONS
from sightwords.types import Example, FloatArray
from sightwords.words.calibration import Calibration
from sightwords.words.calibration_fit import Method, fit_calibration
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool
from sightwords.words.proposal_detector import ProposalDetector, Source

log = logging.getLogger(__name__)


def calibrate_detector(
    directory: str | os.PathLike[str],
    examples: Iterable[Example],
    *,
    method: Method = "shrunk",
    threads: int | None = None,
    proposals: Source | None = None,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Score images the detector was not trained on, fit and save `calibration.json`.

    Each image counts with as many captions as most images have, at most five. Images with fewer
    are left out: a missing caption makes right words look wrong. `proposals` are for
    a detector over boxes.
    """
    detector = (
        Detector.load(directory, threads=threads, calibrated=False)
        if proposals is None
        else ProposalDetector.over(directory, proposals, threads=threads, calibrated=False)
    )
    captions: list[tuple[str, ...]] = []
    scores: list[FloatArray] = []
    for example, image_probs in scored_images(detector, examples):
        captions.append(example.captions)
        scores.append(image_probs)
        if progress:
            progress(len(scores))
    if not scores:
        raise CorpusError("none of the images to calibrate on could be read; see the warnings")
    count, rows = equally_captioned([len(group) for group in captions])
    if len(rows) < len(scores):
        log.warning(
            "%d images with fewer than %d captions left out", len(scores) - len(rows), count
        )
    labels = detector.vocabulary.labels([captions[r] for r in rows], captions_per_image=count)
    calibration = fit_calibration(np.stack([scores[r] for r in rows]), labels, method=method)
    calibration.save(directory)
    return calibration


def equally_captioned(numbers: list[int]) -> tuple[int, list[int]]:
    """How many captions most images have (at most five), and the rows of images with that many.

    >>> equally_captioned([5, 7, 5, 1])
    (5, [0, 1, 2])
    """
    common = Counter(min(number, CAPTIONS) for number in numbers).most_common()
    count = max(number for number, images in common if images == common[0][1])
    return count, [row for row, number in enumerate(numbers) if number >= count]


def scored_images(
    detector: Detector, examples: Iterable[Example]
) -> Iterator[tuple[Example, FloatArray]]:
    """Each example whose image can be read with the probability (V,) of every word in it."""
    with_image = (example for example in examples if example.image is not None)
    for example, image in ordered_map(_decoded, with_image, workers=1):
        if isinstance(image, ImageError):
            log.warning("left out %s: %s", example.id, image)
        else:
            yield example, pool(detector(image, name=example.id)).image_probs


def _decoded(example: Example) -> Image.Image | ImageError:
    assert example.image is not None
    try:
        return decode(example.image)
    except ImageError as error:
        return error
