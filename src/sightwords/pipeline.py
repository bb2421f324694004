"""START HERE. A photograph -> a caption, in the order of the paper.

    photograph
      | images.decode       upright RGB                                          section 3.1
      v detect              (12, 12, V) probability of each word in each region  Eq. 2
    RegionScores
      v pool                (V,) probability of each word in the image: noisy-OR Eq. 1
    WordScores
      v calibrate           words whose held-out precision reaches tau           section 3.2
    DetectedWords
      v generate            beam search over the maximum entropy language model  section 4
    MBest
      v choose              sentence features, DMSM, the weights of MERT         section 5
    Caption

Each arrow is one stage, loaded from a model bundle; this module only puts them in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypeVar

from PIL.Image import Image

from sightwords._version import __version__
from sightwords.errors import BundleError
from sightwords.images import ImageSource, decode
from sightwords.types import Caption, DetectedWords, MBest, RegionScores, WordScores

T = TypeVar("T")


Detect = Callable[[Image], RegionScores]
"""Section 3.1, Eq. 2: the network over the grid of regions."""

Pool = Callable[[RegionScores], WordScores]
"""Section 3.1, Eq. 1: from regions to the image."""

Calibrate = Callable[[WordScores, RegionScores], DetectedWords]
"""Section 3.2: the words to stand for; their boxes come from the regions."""

Generate = Callable[[DetectedWords], MBest]
"""Section 4: likely sentences of the detected words."""

Choose = Callable[[MBest, DetectedWords, WordScores, RegionScores], Caption]
"""Section 5: the sentence that fits this image."""


@dataclass(frozen=True, slots=True)
class Captioner:
    """The whole system: call it with a photograph."""

    detect: Detect
    pool: Pool
    calibrate: Calibrate
    generate: Generate
    choose: Choose

    def __call__(self, source: ImageSource) -> Caption:
        """Caption one photograph: a path, bytes, a PIL image or an array."""
        seconds: dict[str, float] = {}
        image = _timed(seconds, "decode", lambda: decode(source))
        regions = _timed(seconds, "detect", lambda: self.detect(image))
        scores = _timed(seconds, "pool", lambda: self.pool(regions))
        words = _timed(seconds, "calibrate", lambda: self.calibrate(scores, regions))
        candidates = _timed(seconds, "generate", lambda: self.generate(words))
        caption = _timed(seconds, "choose", lambda: self.choose(candidates, words, scores, regions))
        return replace(caption, seconds=seconds)


def load(bundle: str | os.PathLike[str] | None = None) -> Captioner:
    """Load a model bundle, the default one if none is named.

    This version ships no whole model and cannot read one: it says so, and captions nothing.
    """
    asked = f"cannot load {os.fspath(bundle)!r}: " if bundle is not None else ""
    raise BundleError(
        f"{asked}sightwords {__version__} carries no trained model yet that writes sentences, so "
        "it cannot caption; what works today: 'sightwords words PHOTOGRAPH' says what it shows, "
        "'sightwords evaluate' scores captions, 'sightwords data inspect' looks into a corpus"
    )


def _timed(seconds: dict[str, float], stage: str, run: Callable[[], T]) -> T:
    start = perf_counter()
    result = run()
    seconds[stage] = perf_counter() - start
    return result
