"""START HERE. A photograph -> a caption, in the order of the paper.

    photograph
      | images.decode_apart upright RGB                                          section 3.1
      v detect              (12, 12, V) probability of each word in each region  Eq. 2
    RegionScores
      v pool                (V,) probability of each word in the image: noisy-OR Eq. 1
    WordScores
      v calibrate           likely words, each with its held-out precision       section 3.2
    DetectedWords
      v generate            beam search over the maximum entropy language model  section 4
    MBest
      v choose              sentence features, DMSM, the weights of MERT         section 5
    Caption

Each arrow is one stage, loaded from a model bundle; this module only puts them in order.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, overload

from PIL.Image import Image

from sightwords.bundle import open_bundle
from sightwords.config import Config
from sightwords.errors import InputError
from sightwords.images import DEFAULT_LIMITS, ImageLimits, ImageSource, decode_apart
from sightwords.images.apart import prepare as prepare_decoder
from sightwords.types import Caption, DetectedWords, MBest, RegionScores, WordScores

if TYPE_CHECKING:
    from sightwords.language.generate import Backend

log = logging.getLogger(__name__)

T = TypeVar("T")

Detect = Callable[[Image], RegionScores]
"""Section 3.1, Eq. 2: the network over the grid of regions."""

Pool = Callable[[RegionScores], WordScores]
"""Section 3.1, Eq. 1: from regions to the image."""

Calibrate = Callable[[WordScores, RegionScores], DetectedWords]
"""Section 3.2: the words to offer, with their precisions; their boxes come from the regions."""

Generate = Callable[[DetectedWords], MBest]
"""Section 4: likely sentences of the detected words."""

Choose = Callable[[MBest, DetectedWords, WordScores, RegionScores], Caption]
"""Section 5: the sentence that fits this image."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What every stage said about one photograph, on the way to its caption."""

    image: Image
    regions: RegionScores
    scores: WordScores
    words: DetectedWords
    candidates: MBest
    caption: Caption


@dataclass(frozen=True, slots=True)
class Captioner:
    """The whole system: call it with a photograph, or with a list of them."""

    detect: Detect
    pool: Pool
    calibrate: Calibrate
    generate: Generate
    choose: Choose
    vocabulary: Sequence[str] = ()
    """The words of the detector, in the order of the regions' probabilities."""
    fingerprint: str = ""
    """Of the bundle: a sum over all its files."""
    closed_class: Collection[str] = ()
    """Words of its language that say nothing of an image; none of them gets a map."""
    limits: ImageLimits = DEFAULT_LIMITS
    """What one photo may cost to decode."""

    @overload
    def __call__(self, source: ImageSource) -> Caption: ...

    @overload
    def __call__(self, source: list[Any] | tuple[Any, ...]) -> list[Caption]: ...

    def __call__(
        self, source: ImageSource | list[Any] | tuple[Any, ...]
    ) -> Caption | list[Caption]:
        """Caption a photograph (path, bytes, open file, PIL image, array), or each of a list."""
        if isinstance(source, (list, tuple)):
            return [self.trace(one).caption for one in source]
        return self.trace(source).caption

    def trace(self, source: ImageSource) -> Trace:
        """Caption one photograph and keep what each stage said."""
        seconds: dict[str, float] = {}
        image = _timed(seconds, "decode", lambda: decode_apart(source, limits=self.limits))
        regions = _timed(seconds, "detect", lambda: self.detect(image))
        return self._from_regions(image, regions, seconds)

    def again(self, trace: Trace) -> Trace:
        """Caption a photograph that was looked at before, say with other wishes: no network runs
        over its pixels a second time.
        """
        return self.from_regions(trace.image, trace.regions)

    def from_regions(self, image: Image, regions: RegionScores) -> Trace:
        """Caption an upright image whose regions were scored already, together with others say."""
        return self._from_regions(image, regions, {})

    def explain(self, source: ImageSource | Trace) -> Image:
        """Draw the photograph with its caption and a heat map for each content word."""
        from sightwords.explain import explain

        trace = source if isinstance(source, Trace) else self.trace(source)
        return explain(
            trace.image,
            trace.caption,
            trace.regions,
            self.vocabulary,
            closed_class=self.closed_class,
        )

    def asking(
        self,
        *,
        require: str | Iterable[str] = (),
        forbid: str | Iterable[str] = (),
        min_precision: float = 0.0,
    ) -> Captioner:
        """The same system with other wishes: words a caption must or must not use, and the least
        precision of the detected words it may build on.

        A required word that the language model does not know is an error; a forbidden one is
        logged as a warning, since it may be misspelt.
        """
        from sightwords.language.constraints import Constraints, idle_wish, wished_words
        from sightwords.language.generate import Generator
        from sightwords.words.offered import Offer

        if not isinstance(self.calibrate, Offer) or not isinstance(self.generate, Generator):
            raise InputError("this captioner was put together by hand; make its stages anew")
        if not 0 <= min_precision <= 1:
            raise InputError(f"min_precision is {min_precision}; expected 0 to 1")
        constraints = Constraints(required=wished_words(require), forbidden=wished_words(forbid))
        generate = self.generate.asking(constraints)
        if idle := idle_wish(constraints.forbidden, generate.model.vocabulary):
            log.warning("%s", idle)
        return replace(
            self,
            calibrate=replace(self.calibrate, minimum_precision=min_precision),
            generate=generate,
        )

    def _from_regions(
        self, image: Image, regions: RegionScores, seconds: dict[str, float]
    ) -> Trace:
        scores = _timed(seconds, "pool", lambda: self.pool(regions))
        words = _timed(seconds, "calibrate", lambda: self.calibrate(scores, regions))
        candidates = _timed(seconds, "generate", lambda: self.generate(words))
        caption = _timed(seconds, "choose", lambda: self.choose(candidates, words, scores, regions))
        return Trace(image, regions, scores, words, candidates, replace(caption, seconds=seconds))


def load(
    bundle: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    n_best: int = 5,
    beam_width: int | None = None,
    min_precision: float = 0.0,
    require: str | Iterable[str] = (),
    forbid: str | Iterable[str] = (),
    backend: Backend = "auto",
    limits: ImageLimits = DEFAULT_LIMITS,
) -> Captioner:
    """Load a model bundle, the default one if none is named.

    - `bundle`: a directory, a zip, or `hf://OWNER/NAME` (extra `hf`).
    - `threads`: of the networks; all available cores unless given.
    - `n_best`: how many of the best sentences a caption keeps, with their scores.
    - `beam_width`: of the search; the bundle's own unless given.
    - `min_precision`: sentences build only on words of at least this precision.
    - `require`, `forbid`: words that every caption must or must not use.
    - `backend`: of the search; `auto` takes numba where it is installed, numpy otherwise.
    - `limits`: what one photo may cost to decode, in bytes, pixels, memory and seconds.
    """
    from sightwords.words.detector import pool
    from sightwords.words.offered import Offer

    prepare_decoder()
    with open_bundle(bundle) as opened, ThreadPoolExecutor(3) as workers:
        config = _searching(opened.config(), beam_width)
        detecting = workers.submit(opened.detector, threads=threads)
        choosing = workers.submit(opened.chooser, threads=threads, n_best=n_best)
        generator = opened.generator(config.generation, backend=backend)
        detector, chooser = detecting.result(), choosing.result()
        offer = Offer(
            detector,
            known=frozenset(generator.model.vocabulary.words),
            minimum_prob=config.language.attribute_threshold,
        )
        captioner = Captioner(
            detector,
            pool,
            offer,
            generator,
            chooser,
            vocabulary=detector.vocabulary.words,
            fingerprint=opened.manifest.fingerprint,
            closed_class=generator.model.vocabulary.closed_class,
            limits=limits,
        )
    return captioner.asking(require=require, forbid=forbid, min_precision=min_precision)


def _searching(config: Config, beam_width: int | None) -> Config:
    if beam_width is None:
        return config
    return replace(config, generation=replace(config.generation, beam_width=beam_width))


def _timed(seconds: dict[str, float], stage: str, run: Callable[[], T]) -> T:
    start = perf_counter()
    result = run()
    seconds[stage] = perf_counter() - start
    return result
