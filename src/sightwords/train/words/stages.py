"""The stages of `sightwords train all` that belong to section 3: words, detectors, calibration,
and what the detector says of every image for the stages after it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.errors import CorpusError
from sightwords.evaluate.word_scores import WordScoreTable, write_word_scores
from sightwords.files import write_text
from sightwords.text.vocabulary import Vocabulary, WordCounts
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
from sightwords.text.written import written_forms
from sightwords.train.data.sources import reported
from sightwords.train.dmsm.image_features import Described, detector_features
from sightwords.train.language.detected_words import TopWords, top_words_of
from sightwords.train.recipe import DataConfig, Network, Recipe
from sightwords.train.rerank.mert_data import refuse_test_splits
from sightwords.train.split import (
    Figures,
    Split,
    Work,
    content_key,
    detector_examples,
    folds_of,
    learning_examples,
    rerank_examples,
)
from sightwords.train.words.calibration import calibrate_detector
from sightwords.types import Example
from sightwords.words.artefact import InputSpec, Resize
from sightwords.words.detector import Detector

if TYPE_CHECKING:
    from sightwords.train.data.image_table import ImageTable
    from sightwords.train.words.network import WordNetwork

RERANK_SALT = "rerank"
FEWEST_IMAGES = 20
CROSS_FIT_IMAGES = 10_000
"""With this many images or more, `cross_fit = "auto"` trains two more detectors on halves."""


def vocabulary_stage(job: Work) -> Figures:
    """Count words, and decide which images serve what."""
    data, config = job.recipe.data, job.recipe.config
    examples = list(_without_images(job))
    captions = [caption for example in examples for caption in example.captions]
    main = [e for e in examples if data.dataset in ("", e.dataset)]
    ids = {example.id for example in examples}
    if len(ids) < FEWEST_IMAGES:
        raise CorpusError(
            f"{len(ids)} captioned images; a captioner needs at least {FEWEST_IMAGES}, "
            "better some hundreds"
        )
    _refuse_two_spellings(ids)
    if not main:
        raise CorpusError(f"dataset: no image of `train` is of {data.dataset!r}; check the name")
    further = _further_captions(data, ids)
    counts = WordCounts.of_captions([*captions, *further])
    shown = WordCounts.of_captions([c for e in main for c in e.captions])
    for name, counted, size in (
        ("words", shown, config.vocabulary.size),
        ("language", counts, data.language_words),
    ):
        vocabulary = Vocabulary.of_counts(counted, size=size)
        written = written_forms(captions, vocabulary.words) if data.keep_capitals else {}
        vocabulary = replace(vocabulary, closed_class=data.closed_class, written=written)
        save_vocabulary(vocabulary, job.folder / f"{name}.json")
    candidates = {example.id for example in main}
    share = int(data.held_out_share * len(candidates))
    held = hold_out(candidates, min(config.calibration.held_out_images, share))
    if data.validation:
        splits = {example.id: example.split for example in open_corpus(data.validation)}
        refuse_test_splits(list(splits), list(splits.values()))
        rerank = set(splits)
        _refuse_shared(rerank, ids, "train and in validation")
        calibration = set(held)
    else:
        rerank = {name for name in held if half_by_hash(name, salt=RERANK_SALT)}
        calibration = set(held) - rerank
    document = {
        "images": len(ids),
        "calibration": sorted(calibration),
        "rerank": sorted(rerank),
    }
    write_text(job.folder / "split.json", json.dumps(document, ensure_ascii=False))
    return {
        "images": len(ids),
        "captions": counts.captions,
        "calibration": len(calibration),
        "rerank": len(rerank),
    }


def _without_images(job: Work) -> Iterator[Example]:
    """The training corpus; images are not kept in memory."""
    for count, example in enumerate(reported(job.recipe.data.train), 1):
        job.say(count, None, "images")
        yield replace(example, image=None)


def _further_captions(data: DataConfig, ids: set[str]) -> list[str]:
    """Captions of `more`, whose images must be neither in train nor in validation."""
    if not data.more:
        return []
    # Of shards, an example holds the image's bytes: keep none of them.
    found = [(e.id, e.captions) for e in open_corpus(data.more, need_captions=False)]
    names = {name for name, _ in found}
    _refuse_shared(names, ids, "train and in more")
    if data.validation:
        judged = {example.id for example in open_corpus(data.validation)}
        _refuse_shared(names, judged, "validation and in more")
    return [caption for _, captions in found for caption in captions]


def _refuse_two_spellings(ids: Iterable[str]) -> None:
    """`7` and `000000000007` are one image: one could be held out and the other learned from."""
    written: dict[str, str] = {}
    for name in sorted(ids):
        if (other := written.setdefault(canonical_id(name), name)) != name:
            raise CorpusError(f"train has images {other!r} and {name!r}, "
                              "which are one id; rename one, or keep one")  # fmt: skip


def _refuse_shared(some: Iterable[str], others: Iterable[str], where: str) -> None:
    both = {canonical_id(name) for name in some} & {canonical_id(name) for name in others}
    if both:
        raise CorpusError(f"image {min(both)!r} is in {where}; keep one")


def network_stage(job: Work, wanted: Network) -> Figures:
    """Train one detector, taught by others or by captions alone; writes weights.safetensors."""
    from sightwords.train.weights import save_weights
    from sightwords.train.words.run import WEIGHTS_NAME, fit_detector
    from sightwords.train.words.training import CHECKPOINT_NAME

    recipe, config = job.recipe, job.recipe.config
    table = _training_table(job, wanted)
    network = fit_detector(
        table,
        load_vocabulary(job.inputs["vocabulary"] / "words.json"),
        wanted.words,
        weights=recipe.weights,
        size_px=config.images.size_px,
        device=recipe.device,
        folder=job.folder,
        captions_per_image=config.vocabulary.captions_per_image,
        compile_network=recipe.compile,
        teachers=[trained_network(job, name) for name in wanted.teachers],
        progress=lambda report: job.say(report.step, report.steps, "steps"),
    )
    save_weights(network, job.folder / WEIGHTS_NAME)
    (job.folder / CHECKPOINT_NAME).unlink(missing_ok=True)
    return {"images": len(table)}


def half_stage(job: Work, half: int) -> Figures:
    """Train a detector on one half of the images and score the other; writes top-words.npz."""
    if not is_cross_fitted(job):
        return {"enabled": False}
    from sightwords.train.words.run import fit_detector
    from sightwords.train.words.training import CHECKPOINT_NAME
    from sightwords.train.words.validation import score_images

    recipe, config = job.recipe, job.recipe.config
    vocabulary = load_vocabulary(job.inputs["vocabulary"] / "words.json")
    table = _training_table(job, Network("", config.words))
    fold = folds_of(table.ids)
    seen, unseen = np.flatnonzero(fold == half), np.flatnonzero(fold != half)
    network = fit_detector(
        table.select(seen.tolist()),
        vocabulary,
        config.words,
        weights=recipe.weights,
        size_px=config.images.size_px,
        device=recipe.device,
        folder=job.folder,
        captions_per_image=config.vocabulary.captions_per_image,
        compile_network=recipe.compile,
        progress=lambda report: job.say(report.step, report.steps, "steps"),
    )
    rest = table.select(unseen.tolist())
    scores = score_images(network, rest, device=recipe.device)
    top_words_of(rest.ids, scores, vocabulary.words).save(job.folder / "top-words.npz")
    (job.folder / CHECKPOINT_NAME).unlink(missing_ok=True)
    return {"images": len(seen), "scored": len(unseen)}


def is_cross_fitted(job: Work) -> bool:
    """Whether detections come from halves: see `DataConfig.cross_fit`."""
    data = job.recipe.data
    if data.cross_fit != "auto":
        return data.cross_fit == "on"
    if job.recipe.base is not None:
        return True
    return Split.load(job.inputs["vocabulary"]).images >= CROSS_FIT_IMAGES


def scores_of_more(job: Work) -> TopWords:
    """The captioned images of `more`, scored by the last detector that did not see them."""
    from sightwords.train.words.validation import score_images

    scorer = unseeing(job.recipe)
    network = trained_network(job, scorer.stage)
    table = _more_table(job, scorer)
    table = table.select([row for row, captions in enumerate(table.captions) if captions])
    scores = score_images(network, table, device=job.recipe.device)
    words = load_vocabulary(job.inputs["vocabulary"] / "words.json").words
    return top_words_of(table.ids, scores, words)


def unseeing(recipe: Recipe) -> Network:
    """The last detector that did not learn from `more`; there is one, since teachers do not."""
    return [network for network in recipe.networks if not network.more][-1]


def trained_network(job: Work, stage: str) -> WordNetwork:
    """The detector that an earlier stage trained, in torch."""
    from sightwords.train.words.run import WEIGHTS_NAME, load_weights, new_network

    recipe = job.recipe
    [words] = [network.words for network in recipe.networks if network.stage == stage]
    count = len(load_vocabulary(job.inputs["vocabulary"] / "words.json"))
    size_px = recipe.config.images.size_px
    network = new_network(words, count, weights=recipe.weights, size_px=size_px)
    return load_weights(network, job.inputs[stage] / WEIGHTS_NAME)


def _training_table(job: Work, wanted: Network) -> ImageTable:
    """The decoded images that one detector learns from."""
    from sightwords.train.data.image_table import gathered
    from sightwords.train.words.run import stored_px

    split, spec = Split.load(job.inputs["vocabulary"]), _input_of(job.recipe, wanted)
    table = _decoded(
        job,
        lambda: detector_examples(job.recipe, split),
        f"{content_key(job.recipe.data.train)}|without {sorted(split.held_out)}",
        side_px=stored_px(spec, wanted.words),
        resize=spec.resize,
    )
    if not wanted.more:
        return table
    return gathered([table, _more_table(job, wanted)], lambda _: True)


def _more_table(job: Work, wanted: Network) -> ImageTable:
    """The decoded images of `more`, with few captions or none."""
    from sightwords.train.words.run import stored_px

    sources, spec = job.recipe.data.more, _input_of(job.recipe, wanted)
    return _decoded(
        job,
        lambda: open_corpus(sources, need_captions=False),
        content_key(sources),
        side_px=stored_px(spec, wanted.words),
        resize=spec.resize,
    )


def _input_of(recipe: Recipe, wanted: Network) -> InputSpec:
    """What a network of these settings takes."""
    from sightwords.train.words.backbones import build_backbone

    return build_backbone(
        wanted.words.backbone,
        weights=None,
        size_px=recipe.config.images.size_px,
        drop_path=0.0,
        grid=wanted.words.grid,
    ).input


def _decoded(
    job: Work, examples: Callable[[], Iterable[Example]], key: str, *, side_px: int, resize: Resize
) -> ImageTable:
    """A table of these images in the cache; made once."""
    from sightwords.train.data.image_table import cached_table

    return cached_table(
        examples,
        job.cache,
        key=key,
        side_px=side_px,
        resize=resize,
        workers=job.recipe.threads,
        progress=lambda count: job.say(count, None, "images"),
    )


def detector_stage(job: Work) -> Figures:
    """Train the detector to keep, or a new last layer on the network of `base`; writes words/."""
    recipe = job.recipe
    vocabulary = load_vocabulary(job.inputs["vocabulary"] / "words.json")
    if recipe.base is not None:
        from sightwords.train.words.frozen.stages import frozen_detector

        split = Split.load(job.inputs["vocabulary"])
        return frozen_detector(job, recipe.base, vocabulary, split)
    from sightwords.train.words.export import export_detector
    from sightwords.train.words.quantise import quantise_detector

    figures = network_stage(job, recipe.kept)
    mine = replace(job, inputs={**job.inputs, recipe.kept.stage: job.folder})
    network = trained_network(mine, recipe.kept.stage)
    config = replace(recipe.config, words=recipe.kept.words)
    export = export_detector(network, vocabulary, config, job.folder / "float32")
    if recipe.data.form == "float32":
        shutil.copytree(job.folder / "float32", job.folder / "words", dirs_exist_ok=True)
    else:
        export = quantise_detector(job.folder / "float32", job.folder / "words")
    return {"words": len(vocabulary), **figures, "bytes": export.network_bytes}


def calibration_stage(job: Work) -> Figures:
    """Fit score -> precision on held-out images; writes words/ whole."""
    words = job.folder / "words"
    shutil.copytree(job.inputs["detector"] / "words", words, dirs_exist_ok=True)
    split = Split.load(job.inputs["vocabulary"])
    images = (e for e in open_corpus(job.recipe.data.train) if e.id in split.calibration)
    found = calibrate_detector(
        words,
        images,
        threads=job.recipe.threads,
        progress=lambda count: job.say(count, len(split.calibration), "images"),
    )
    return {"images": found.images}


def features_stage(job: Work) -> Figures:
    """Features and word scores of every image, by the finished detector.

    Images to learn from pass through the network as it was trained, each in a mirror too where
    training mirrored them; with a base, and for images to re-rank, through the exported one.
    """
    detector = Detector.load(job.inputs["calibration"] / "words", threads=job.recipe.threads)
    split = Split.load(job.inputs["vocabulary"])
    recipe = job.recipe
    if recipe.base is None:
        learned = _described_in_torch(job, split)
    else:
        learned = detector_features(
            detector,
            learning_examples(recipe, split),
            progress=lambda count: job.say(count, None, "images"),
            on_error=lambda _: None,  # named by the stages detector and calibration
        )
    judged = detector_features(
        detector,
        rerank_examples(recipe, split),
        progress=lambda count: job.say(count, len(split.rerank), "images to re-rank"),
    )
    for name, found in (("learned", learned), ("rerank", judged)):
        known = tuple(canonical_id(i) for i in found.features.ids)
        replace(found.features, ids=known).save(job.folder / f"{name}-features.npz")
    calibration = {canonical_id(name) for name in split.calibration}
    rows = [r for r, i in enumerate(learned.features.ids) if canonical_id(i) in calibration]
    held = [learned.features.ids[r] for r in rows]
    _save_scores(job, "calibration", held, learned.image_probs[rows])
    _save_scores(job, "rerank", judged.features.ids, judged.image_probs)
    return {"learned": len(learned.features), "rerank": len(judged.features)}


def _save_scores(job: Work, name: str, ids: Sequence[str], scores: np.ndarray) -> None:
    words = load_vocabulary(job.inputs["vocabulary"] / "words.json").words
    table = WordScoreTable(tuple(canonical_id(i) for i in ids), words, scores)
    write_word_scores(job.folder / f"{name}-scores.npz", table)


def _described_in_torch(job: Work, split: Split) -> Described:
    """The trained network over all images to learn from, resized as in captioning."""
    from sightwords.train.dmsm.image_features import describe_images

    recipe = job.recipe
    spec = _input_of(recipe, recipe.kept)
    table = _decoded(
        job,
        lambda: learning_examples(recipe, split),
        f"{content_key(recipe.sources)}|captioned without {sorted(split.rerank)}",
        side_px=spec.size_px,
        resize=spec.resize,
    )
    return describe_images(
        trained_network(job, recipe.kept.stage),
        table,
        device=recipe.device,
        mirrored=recipe.kept.words.flip,
        progress=lambda count: job.say(count, len(table), "images"),
    )
