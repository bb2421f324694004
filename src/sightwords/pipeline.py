"""START HERE. A photo -> a caption, in the order of the paper.

    photo
      | decode_apart   upright RGB pixels                                           section 3.1
      v detector       (12, 12, V) probability of each word in each region          Eq. 2
    RegionScores
      v pool           (V,) probability of each word in the image: noisy-OR         Eq. 1
    WordScores
      v selector       the likely words, each with its precision and its box        section 3.2
    DetectedWords
      v generator      beam search over the maximum entropy language model          section 4
    MBest
      v chooser        sentence features, DMSM, the weights of MERT                 section 5
    Caption

Each step is one line of `Captioner.from_regions`. `load` reads the four stages from a model bundle;
`docs/bundle.md` describes the bundle, `types.py` what the stages hand to each other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, overload

from PIL.Image import Image

from sightwords.bundle import open_bundle
from sightwords.errors import InputError
from sightwords.images import DEFAULT_LIMITS, ImageLimits, ImageSource, decode_apart
from sightwords.images.apart import prepare as start_decoder
from sightwords.types import Caption, DetectedWords, MBest, RegionScores, WordScores
from sightwords.words.noisy_or import pool

if TYPE_CHECKING:  # loaded only when they are needed: `import sightwords` stays quick
    from sightwords.language.generate import Backend, Generator
    from sightwords.rerank.chooser import Chooser
    from sightwords.words.detector import Detector
    from sightwords.words.selection import WordSelector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trace:
    """One photo with the result of every stage, on the way to its caption."""

    image: Image
    regions: RegionScores
    scores: WordScores
    words: DetectedWords
    candidates: MBest
    caption: Caption

    def __repr__(self) -> str:
        return f"Trace(caption={self.caption.text!r})"  # not its thousands of numbers


@dataclass(frozen=True, slots=True)
class Captioner:
    """The whole system, loaded: call it with a photo, or with a list of photos."""

    detector: Detector
    """Section 3.1, Eq. 2: image -> RegionScores."""
    selector: WordSelector
    """Section 3.2: WordScores -> DetectedWords, the words a caption may build on."""
    generator: Generator
    """Section 4: DetectedWords -> MBest."""
    chooser: Chooser
    """Section 5: MBest -> Caption."""
    fingerprint: str
    """Identifies the bundle: a SHA-256 sum over all its files."""
    limits: ImageLimits = DEFAULT_LIMITS
    """What decoding one photo may cost."""

    def __repr__(self) -> str:
        return f"Captioner(fingerprint={self.fingerprint[:12]!r})"  # not the whole model

    @overload
    def __call__(self, source: ImageSource) -> Caption: ...

    @overload
    def __call__(self, source: list[Any] | tuple[Any, ...]) -> list[Caption]: ...

    def __call__(
        self, source: ImageSource | list[Any] | tuple[Any, ...]
    ) -> Caption | list[Caption]:
        """Caption a photo (path, bytes, open file, PIL image or array), or each photo of a list."""
        if isinstance(source, (list, tuple)):
            return [self.trace(one).caption for one in source]
        return self.trace(source).caption

    def trace(self, source: ImageSource) -> Trace:
        """Caption one photo and keep the result of every stage."""
        seconds: dict[str, float] = {}
        with _timed("decode", seconds):
            image = decode_apart(source, limits=self.limits)
        with _timed("detect", seconds):
            regions = self.detector(image)
        return self.from_regions(image, regions, seconds=seconds)

    def from_regions(
        self, image: Image, regions: RegionScores, *, seconds: dict[str, float] | None = None
    ) -> Trace:
        """Caption an upright image whose regions have been scored already.

        `seconds` holds the times of earlier stages; the times of these are added to it.
        """
        seconds = {} if seconds is None else seconds
        with _timed("pool", seconds):
            scores = pool(regions)
        with _timed("calibrate", seconds):
            words = self.selector(scores, regions)
        with _timed("generate", seconds):
            candidates = self.generator(words)
        with _timed("choose", seconds):
            caption = self.chooser(candidates, words, scores, regions)
        return Trace(image, regions, scores, words, candidates, replace(caption, seconds=seconds))

    def again(self, trace: Trace) -> Trace:
        """Caption a photo again, for example with other options, without running the detector."""
        return self.from_regions(trace.image, trace.regions)

    def explain(self, source: ImageSource | Trace) -> Image:
        """Draw the photo with its caption and one heat map per content word."""
        from sightwords.explain import explain

        trace = source if isinstance(source, Trace) else self.trace(source)
        return explain(
            trace.image,
            trace.caption,
            trace.regions,
            self.vocabulary,
            closed_class=self.closed_class,
        )

    def with_options(
        self,
        *,
        require: str | Iterable[str] = (),
        forbid: str | Iterable[str] = (),
        min_precision: float = 0.0,
    ) -> Captioner:
        """The same system with other options, which replace those it had; nothing is loaded again.

        - `require`, `forbid`: words that every caption must or must not use.
        - `min_precision`: captions build only on detected words of at least this precision.

        A required word that the language model does not know is an error. A forbidden word that it
        does not know is logged as a warning, because it may be misspelt.
        """
        from sightwords.language.constraints import Constraints, split_words, unknown_words_warning

        if not 0 <= min_precision <= 1:
            raise InputError(f"min_precision is {min_precision}; expected 0 to 1")
        constraints = Constraints(required=split_words(require), forbidden=split_words(forbid))
        generator = self.generator.with_constraints(constraints)
        if warning := unknown_words_warning(constraints.forbidden, generator.model.vocabulary):
            log.warning("%s", warning)
        selector = replace(self.selector, minimum_precision=min_precision)
        return replace(self, selector=selector, generator=generator)

    @property
    def vocabulary(self) -> Sequence[str]:
        """The detector's words, in the order of the regions' probabilities."""
        return self.detector.vocabulary.words

    @property
    def closed_class(self) -> Collection[str]:
        """Words of its language that describe no image content ("the", "of"): no heat maps."""
        return self.generator.model.vocabulary.closed_class


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
    """Load a model bundle: the one inside the package unless another is named.

    - `bundle`: a directory, a zip file, or `hf://OWNER/NAME` (extra `hf`).
    - `threads`: CPU threads of the networks; all available cores unless given.
    - `n_best`: how many of the best sentences a caption keeps, with their scores.
    - `beam_width`: of the beam search; the bundle's own unless given.
    - `min_precision`, `require`, `forbid`: see `Captioner.with_options`.
    - `backend`: of the beam search; `auto` uses numba if it is installed, else numpy.
    - `limits`: what decoding one photo may cost, in bytes, pixels, memory and seconds.
    """
    from sightwords.words.selection import WordSelector

    start_decoder()
    with open_bundle(bundle) as opened, ThreadPoolExecutor(2) as workers:
        config = opened.config  # read once, before the threads ask for it
        detector_later = workers.submit(opened.detector, threads=threads)
        chooser_later = workers.submit(opened.chooser, threads=threads, n_best=n_best)
        generator = opened.generator(backend=backend, beam_width=beam_width)
        detector, chooser = detector_later.result(), chooser_later.result()
        opened.verify()  # the files that no stage has read, too
    selector = WordSelector(
        detector,
        known=frozenset(generator.model.vocabulary.words),
        minimum_prob=config.language.attribute_threshold,
    )
    captioner = Captioner(
        detector, selector, generator, chooser, opened.manifest.fingerprint, limits
    )
    return captioner.with_options(require=require, forbid=forbid, min_precision=min_precision)


@contextmanager
def _timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    start = perf_counter()
    yield
    seconds[stage] = perf_counter() - start
