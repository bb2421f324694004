"""Captioned images and the earlier stages -> re-ranking weights and confidence.

    images --detector--> words, features --language model--> Lists --DMSM, grounded--> Tuning
    half of Tuning --MERT--> weights;  the other half --> what they are worth, and the confidence

The other half fits the confidence because captions of the tuning half look too good. Images that
show nothing are made on the way, as examples of captions that cannot be good. `train mert` does all
of it in one call; the stages of `train all` call the same functions one by one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from sightwords.config import Config, MertConfig
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import coco_half
from sightwords.errors import CorpusError, ImageError
from sightwords.images import decode
from sightwords.parallel import ordered_map
from sightwords.rerank.confidence import Confidence
from sightwords.rerank.dmsm import Dmsm
from sightwords.rerank.features import DOUBT
from sightwords.rerank.grounded import Grounded
from sightwords.rerank.linear import Ranker
from sightwords.text.vocabulary_file import load_vocabulary
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
from sightwords.train.rerank.mert_stages import Tuning, apply_ranker, tune_ranker, with_values
from sightwords.types import Example, FloatArray
from sightwords.words.artefact import VOCABULARY_NAME
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool

log = logging.getLogger(__name__)
Say = Callable[[int, int | None, str], None]
"""Told how much is done, of how much, in which unit."""
BAD_IMAGES = 60
TUNE_HALF = 1
"""Half 0 of the validation images is for choosing between designs."""


def silent(done: int, total: int | None, unit: str) -> None:
    """Where nobody listens."""
    del done, total, unit


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
    progress: Say = silent,
) -> tuple[Ranker, Confidence]:
    """Tune, judge, and write `weights.json` and `confidence.json`."""
    images = ((e, e.image) for e in _tunable(examples) if e.image is not None)
    whole = tuning_of_images(
        images, models, config, threads=threads, processes=processes, progress=progress
    )
    ranker = tuned_weights(whole, config.mert, progress=progress)
    ranker.save(out)
    confidence = fitted_confidence(whole, ranker, models, config, threads=threads)
    confidence.save(out)
    return ranker, confidence


def tuning_of_images(
    images: Iterable[tuple[Example, object]],
    models: Models,
    config: Config,
    *,
    threads: int | None = None,
    processes: int = 1,
    progress: Say = silent,
) -> Tuning:
    """From images, each with its example, to all that MERT asks about their lists."""
    detector = Detector.load(models.detector, threads=threads)
    seen = _looked_at(images, detector, progress)
    lists = tuning_lists(
        seen.names,
        seen.image_probs,
        detector,
        models.language,
        config,
        splits=seen.splits,
        processes=processes,
        progress=progress,
    )
    return tuning_of(
        lists,
        seen.captions,
        seen.features,
        models,
        config.mert,
        threads=threads,
        processes=processes,
        progress=progress,
    )


def tuning_lists(
    names: Sequence[str],
    image_probs: FloatArray,
    detector: Detector,
    language: str | os.PathLike[str],
    config: Config,
    *,
    splits: Sequence[str] | None = None,
    processes: int = 1,
    progress: Say = silent,
) -> Lists:
    """M-best lists of the images in which any word was found, as the captioner would make them.

    `image_probs` is (N, V). Words below `attribute_threshold` are not offered to the language
    model; down to DOUBT they are kept for the features of re-ranking.
    """
    assert detector.calibration is not None
    rows, columns = np.nonzero(worth_keeping(image_probs, DOUBT))
    minimum = config.language.attribute_threshold
    probs = image_probs[rows, columns]
    precisions = detector.calibration.precision(image_probs)[rows, columns]
    offered = detected_words(
        Detections(list(names), list(detector.vocabulary.words), rows, columns, probs),
        load_vocabulary(Path(language) / VOCABULARY_NAME),
        minimum_prob=minimum,
        precisions=precisions,
    )
    usable = [i for i, image in enumerate(offered) if image.offered.any()]
    if not usable:
        raise CorpusError("no image for re-ranking has a detected word that captions use")
    return make_lists(
        [names[i] for i in usable],
        [offered[i] for i in usable],
        language,
        config.generation,
        splits="" if splits is None else [splits[i] for i in usable],
        minimum_prob=minimum,
        processes=processes,
        progress=lambda done, total: progress(done, total, "lists"),
    )


def tuning_of(
    lists: Lists,
    captions: Mapping[str, Sequence[str]],
    features: ImageFeatures,
    models: Models,
    config: MertConfig,
    *,
    threads: int | None = None,
    processes: int = 1,
    progress: Say = silent,
) -> Tuning:
    """All that MERT asks about these lists; without captions, metrics of 0."""
    if any(captions.values()):
        metrics = measure(
            lists,
            references_of(lists, captions),
            with_meteor="meteor" in config.objective,
            processes=processes,
        )
    else:
        count = lists.hypotheses
        metrics = ListMetrics(np.zeros(count, np.float32), np.zeros((count, 10), np.int16))
    similarities = ask = None
    if models.dmsm is not None and config.dmsm:
        similarities = dmsm_scores(
            lists,
            features,
            Dmsm.load(models.dmsm, threads=threads),
            progress=lambda done: progress(done, len(lists), "lists compared"),
        )
    if models.grounded is not None and config.grounded:
        grounded = Grounded.load(models.grounded, threads=threads)
        ask = Remembered(
            lambda fresh: grounded_scores(
                lists,
                features,
                grounded,
                fresh,
                progress=lambda done: progress(done, len(lists), "shortlists"),
            ),
            lists.hypotheses,
        )
    return Tuning(lists, metrics, similarities, ask, image_tokens(lists, features))


def halves_of(whole: Tuning, config: MertConfig) -> tuple[Tuning, Tuning]:
    """Images to tune on and images to judge by: two halves, or twice all where they are few."""
    if len(whole.lists) < config.halves_from:
        return whole, whole
    half = np.array([coco_half(name) for name in whole.lists.ids.tolist()])
    if len(set(half.tolist())) < 2:
        raise CorpusError(f"{len(half)} images are too few to tune on; give hundreds")
    tune, judged = (np.flatnonzero(half == which) for which in (TUNE_HALF, 1 - TUNE_HALF))
    return whole.select(tune), whole.select(judged)


def tuned_weights(whole: Tuning, config: MertConfig, *, progress: Say = silent) -> Ranker:
    """MERT on one half, with what the weights are worth there and on the other half."""
    tune, judged = halves_of(whole, config)
    progress(0, config.restarts, "starts")
    ranker = tune_ranker(
        tune, config, progress=lambda start, _: progress(start + 1, config.restarts, "starts")
    )
    sets = {"tuning": tune} | ({"held_out": judged} if judged is not tune else {})
    chosen = {name: (some, apply_ranker(some, ranker)) for name, some in sets.items()}
    return with_values(ranker, chosen)


def fitted_confidence(
    whole: Tuning, ranker: Ranker, models: Models, config: Config, *, threads: int | None = None
) -> Confidence:
    """Confidence from captions of the half that MERT did not see, and blank and noise images."""
    judged = halves_of(whole, config.mert)[1]
    choices = apply_ranker(judged, ranker)
    nothing = apply_ranker(tuning_of_blank_images(models, config, threads=threads), ranker)
    cider = judged.metrics.cider[choices.hypotheses]
    return fit_confidence(choices, cider, bad=nothing, seed=config.mert.seed)


def tuning_of_blank_images(
    models: Models, config: Config, *, threads: int | None = None, seed: int = 0
) -> Tuning:
    """Lists of blank and noise images, for `fit_confidence`."""
    return tuning_of_images(_blank(BAD_IMAGES, seed=seed), models, config, threads=threads)


def blank_and_noise_images(count: int, *, seed: int = 0) -> Iterator[Image.Image]:
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


def _blank(count: int, *, seed: int) -> Iterator[tuple[Example, Image.Image]]:
    for number, image in enumerate(blank_and_noise_images(count, seed=seed)):
        yield Example(f"nothing-{number}", None, (), "train", "nothing"), image


def _decoded(pair: tuple[Example, object]) -> Image.Image | ImageError:
    source = pair[1]
    if isinstance(source, Image.Image):
        return source
    try:
        return decode(source)  # type: ignore[arg-type]
    except ImageError as error:
        return error


def _looked_at(images: Iterable[tuple[Example, object]], detector: Detector, progress: Say) -> Seen:
    """The detector over every image that can be read."""
    names, splits, probs, features = [], [], [], []
    captions: dict[str, tuple[str, ...]] = {}
    for (example, _), image in ordered_map(_decoded, images, workers=1):
        if isinstance(image, ImageError):
            log.warning("left out %s: %s", example.id, image)
            continue
        regions = detector(image, name=example.id)
        assert regions.features is not None
        name = canonical_id(example.id)
        names.append(name)
        splits.append(example.split)
        captions[name] = example.captions
        probs.append(pool(regions).image_probs)
        features.append(np.atleast_2d(regions.features).astype(np.float16))
        progress(len(names), None, "images")
    if not names:
        raise CorpusError("no image to tune on could be read; see the warnings")
    found = ImageFeatures(tuple(names), np.stack(features), whole_token=regions.whole_token)
    return Seen(names, splits, captions, np.stack(probs), found)
