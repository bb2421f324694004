"""Captioned images and the earlier stages -> re-ranking weights and confidence, in one call.

    images --detector--> words, features --language model--> Lists --DMSM, grounded--> MERT

Half of the images, by the hash of their ids, tune the weights; the other half says what they are
worth, and its captions fit the confidence, since those of the first half look too good. Images that
show nothing are made on the way, as examples of captions that cannot be good.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from sightwords.config import Config
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash
from sightwords.errors import CorpusError, ImageError
from sightwords.images import decode
from sightwords.language.maxent import MaxEnt
from sightwords.parallel import ordered_map
from sightwords.rerank.confidence import Confidence
from sightwords.rerank.dmsm import Dmsm
from sightwords.rerank.features import DOUBT
from sightwords.rerank.grounded import Grounded
from sightwords.rerank.linear import Ranker
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.language.data import Detections
from sightwords.train.rerank.confidence import fit_confidence
from sightwords.train.rerank.list_metrics import ListMetrics, measure, references_of
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.make_lists import detected_words, make_lists, worth_keeping
from sightwords.train.rerank.mert_data import refuse_test_splits
from sightwords.train.rerank.mert_scores import (
    Remembered,
    dmsm_scores,
    grounded_scores,
    image_tokens,
)
from sightwords.train.rerank.mert_stages import (
    Mask,
    Tuning,
    Values,
    apply_ranker,
    tune_ranker,
    with_values,
)
from sightwords.types import Example, FloatArray
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool

log = logging.getLogger(__name__)
Progress = Callable[[str, int], None]
"""Called with what is being done and the number of images done."""
BAD_IMAGES = 60
TUNE_HALF = 1


@dataclass(frozen=True)
class Models:
    """The directories of the earlier stages."""

    detector: Path
    language: Path
    dmsm: Path | None = None
    grounded: Path | None = None


@dataclass(frozen=True)
class Seen:
    """What the detector said of some images."""

    names: list[str]
    splits: list[str]
    captions: dict[str, tuple[str, ...]]
    image_probs: FloatArray
    """(N, V)"""
    features: ImageFeatures


def train_rerank(
    examples: Iterable[Example],
    models: Models,
    config: Config,
    out: str | os.PathLike[str],
    *,
    threads: int | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[Ranker, Confidence]:
    """Tune, judge, and write `weights.json` and `confidence.json`."""
    report = progress or (lambda _what, _done: None)
    detector = Detector.load(models.detector, threads=threads)
    run = _Run(detector, models, config, threads, processes, report)
    whole = run.tuning((e, e.image) for e in _tunable(examples) if e.image is not None)
    half = np.array([half_by_hash(name) for name in whole.lists.ids.tolist()])
    if len(set(half.tolist())) < 2:
        raise CorpusError(f"{len(half)} images are too few to tune on; give hundreds")
    tune, held = (whole.select(np.flatnonzero(half == h)) for h in (TUNE_HALF, 1 - TUNE_HALF))
    ranker = tune_ranker(tune, config.mert, progress=lambda n, _: report("starts", n + 1))
    chosen = {"tuning": (tune, apply_ranker(tune, ranker))}
    chosen["held_out"] = (held, apply_ranker(held, ranker))
    ranker = with_values(ranker, chosen)
    nothing = apply_ranker(run.tuning(_nothing(BAD_IMAGES, seed=0)), ranker)
    choices = chosen["held_out"][1]
    confidence = fit_confidence(choices, held.metrics.cider[choices.hypotheses], bad=nothing)
    ranker.save(out)
    confidence.save(out)
    return ranker, confidence


def tuning_of_nothing(
    models: Models, config: Config, *, threads: int | None = None, seed: int = 0
) -> Tuning:
    """Lists of images that show nothing, for `fit_confidence`."""
    detector = Detector.load(models.detector, threads=threads)
    run = _Run(detector, models, config, threads, 1, lambda _what, _done: None)
    return run.tuning(_nothing(BAD_IMAGES, seed=seed))


def images_of_nothing(count: int, *, seed: int = 0) -> Iterator[Image.Image]:
    """Blank images, gradients, noise, and noise out of focus, in turn."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        kind = number % 4
        if kind == 0:
            colour = rng.integers(0, 256, 3)
            pixels = np.broadcast_to(colour, (240, 320, 3))
        elif kind == 1:
            ends = rng.integers(0, 256, (2, 3))
            share = np.linspace(0, 1, 320)[None, :, None]
            pixels = np.broadcast_to(ends[0] * (1 - share) + ends[1] * share, (240, 320, 3))
        else:
            pixels = rng.integers(0, 256, (240, 320, 3))
        image = Image.fromarray(pixels.astype(np.uint8))
        yield image.filter(ImageFilter.GaussianBlur(8)) if kind == 3 else image


def _tunable(examples: Iterable[Example]) -> Iterator[Example]:
    """Stop at the first test image, before hours are spent on it."""
    for example in examples:
        refuse_test_splits([example.id], [example.split])
        yield example


def _nothing(count: int, *, seed: int) -> Iterator[tuple[Example, Image.Image]]:
    for number, image in enumerate(images_of_nothing(count, seed=seed)):
        yield Example(f"nothing-{number}", None, (), "train", "nothing"), image


def _decoded(pair: tuple[Example, object]) -> Image.Image | ImageError:
    source = pair[1]
    if isinstance(source, Image.Image):
        return source
    try:
        return decode(source)  # type: ignore[arg-type]
    except ImageError as error:
        return error


@dataclass(frozen=True)
class _Run:
    """The earlier stages, loaded, and how to run them."""

    detector: Detector
    models: Models
    config: Config
    threads: int | None
    processes: int
    report: Progress

    def tuning(self, images: Iterable[tuple[Example, object]]) -> Tuning:
        """Everything that MERT asks about some images; without captions, metrics of 0."""
        seen = self.look(images)
        lists = self.lists(seen)
        if any(seen.captions.values()):
            metrics = measure(
                lists,
                references_of(lists, seen.captions),
                with_meteor="meteor" in self.config.mert.objective,
                processes=self.processes,
            )
        else:
            count = lists.hypotheses
            metrics = ListMetrics(np.zeros(count, np.float32), np.zeros((count, 10), np.int16))
        return Tuning(
            lists,
            metrics,
            self.similarities(lists, seen),
            self.asking(lists, seen),
            image_tokens(lists, seen.features),
        )

    def look(self, images: Iterable[tuple[Example, object]]) -> Seen:
        """The detector over every image that can be read."""
        names, splits, probs, features = [], [], [], []
        captions: dict[str, tuple[str, ...]] = {}
        for (example, _), image in ordered_map(_decoded, images, workers=1):
            if isinstance(image, ImageError):
                log.warning("left out %s: %s", example.id, image)
                continue
            regions = self.detector(image, name=example.id)
            assert regions.features is not None
            name = canonical_id(example.id)
            names.append(name)
            splits.append(example.split)
            captions[name] = example.captions
            probs.append(pool(regions).image_probs)
            features.append(np.atleast_2d(regions.features).astype(np.float16))
            self.report("images", len(names))
        if not names:
            raise CorpusError("no image to tune on could be read; see the warnings")
        found = ImageFeatures(tuple(names), np.stack(features), whole_token=regions.whole_token)
        return Seen(names, splits, captions, np.stack(probs), found)

    def lists(self, seen: Seen) -> Lists:
        """The M-best lists of the images, of those in which any word was found."""
        vocabulary = MaxEnt.load(self.models.language).vocabulary
        rows, columns = np.nonzero(worth_keeping(seen.image_probs, DOUBT))
        words = list(self.detector.vocabulary.words)
        probs = seen.image_probs[rows, columns]
        assert self.detector.calibration is not None
        minimum = self.config.language.attribute_threshold
        offered = detected_words(
            Detections(seen.names, words, rows, columns, probs),
            vocabulary,
            minimum_prob=minimum,
            precisions=self.detector.calibration.precision(seen.image_probs)[rows, columns],
        )
        usable = [i for i, image in enumerate(offered) if image.offered.any()]
        return make_lists(
            [seen.names[i] for i in usable],
            [offered[i] for i in usable],
            self.models.language,
            self.config.generation,
            splits=[seen.splits[i] for i in usable],
            minimum_prob=minimum,
            processes=self.processes,
            progress=lambda done, _: self.report("lists", done),
        )

    def similarities(self, lists: Lists, seen: Seen) -> Values | None:
        """The DMSM's, where there is one and the settings ask for it."""
        if self.models.dmsm is None or not self.config.mert.dmsm:
            return None
        dmsm = Dmsm.load(self.models.dmsm, threads=self.threads)
        return dmsm_scores(
            lists, seen.features, dmsm, progress=lambda done: self.report("similarities", done)
        )

    def asking(self, lists: Lists, seen: Seen) -> Callable[[Mask], Values] | None:
        """Asks the grounded model, about no sentence twice; None where there is no such model."""
        if self.models.grounded is None or not self.config.mert.grounded:
            return None
        grounded = Grounded.load(self.models.grounded, threads=self.threads)
        return Remembered(
            lambda fresh: grounded_scores(
                lists, seen.features, grounded, fresh, progress=lambda n: self.report("grounded", n)
            ),
            lists.hypotheses,
        )
