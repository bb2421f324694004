"""The stages of `sightwords train all` that belong to section 4: detections and language model."""

from __future__ import annotations

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.files import atomic_path
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.data.sources import training_examples
from sightwords.train.language.detected_words import TOP, top_words
from sightwords.train.language.detection_noise import simulate_scores
from sightwords.train.language.run import LanguageSources, train_language
from sightwords.train.split import Figures, Split, Work, learning_examples
from sightwords.types import FloatArray

CROSS_FIT_IMAGES = 10_000
"""From so many images up, `auto` trains two more detectors on halves."""


def detections_stage(job: Work) -> Figures:
    """Words of every image that the language model may learn from, by detectors that did not
    train on it; writes top-words.npz.
    """
    recipe = job.recipe
    split = Split.load(job.inputs["vocabulary"])
    vocabulary = load_vocabulary(job.inputs["vocabulary"] / "words.json")
    held = read_word_scores(job.inputs["features"] / "calibration-scores.npz")
    held_scores = held.scores.astype(np.float32)
    if is_cross_fitted(job):
        ids, scores = _folds(job, vocabulary, split)
        way = "two detectors, each scoring the half it did not train on"
    else:
        ids, scores = _drawn(job, vocabulary, split, held.ids, held_scores)
        way = "drawn from held-out images"
    found = [top_words(row, min(TOP, len(vocabulary))) for row in (*scores, *held_scores)]
    with atomic_path(job.folder / "top-words.npz") as temporary, temporary.open("wb") as stream:
        np.savez_compressed(
            stream,
            ids=np.array([*map(canonical_id, ids), *held.ids], dtype=np.str_),
            words=np.array(vocabulary.words, dtype=np.str_),
            indices=np.stack([places for places, _ in found]),
            probs=np.stack([probs for _, probs in found]),
        )
    likely = sum((probs >= recipe.config.language.attribute_threshold).sum() for _, probs in found)
    return {"images": len(found), "detections": way, "words_an_image": float(likely / len(found))}


def is_cross_fitted(job: Work) -> bool:
    """Whether detections come from halves: see `DataConfig.cross_fit`."""
    data = job.recipe.data
    if data.cross_fit != "auto":
        return data.cross_fit == "on"
    if job.recipe.base is not None:
        return True
    return sum(1 for _ in open_corpus(data.train)) >= CROSS_FIT_IMAGES


def _folds(job: Work, vocabulary: Vocabulary, split: Split) -> tuple[list[str], FloatArray]:
    recipe = job.recipe
    if recipe.base is not None:
        from sightwords.train.words.frozen.stages import frozen_folds

        return frozen_folds(job, recipe.base, vocabulary, split)
    from sightwords.train.data.sources import corpus_table
    from sightwords.train.words.frozen.stages import FOLD_SALT
    from sightwords.train.words.run import fit_detector, stored_px
    from sightwords.train.words.validation import score_images
    from sightwords.words.artefact import DetectorSpec

    config = recipe.config
    spec = DetectorSpec.load(job.inputs["detector"] / "words").input
    table = corpus_table(
        recipe.data.train,
        job.cache,
        side_px=stored_px(spec, config.words),
        resize=spec.resize,
        hold_out=split.held_out,
    )
    fold = np.array([half_by_hash(name, salt=FOLD_SALT) for name in table.ids])
    scores = np.empty((len(table), len(vocabulary)), dtype=np.float32)
    for half in (0, 1):
        seen, unseen = np.flatnonzero(fold != half), np.flatnonzero(fold == half)
        network = fit_detector(
            table.select(seen.tolist()),
            vocabulary,
            config.words,
            weights=recipe.weights,
            size_px=config.images.size_px,
            device=recipe.device,
            folder=job.folder / f"half-{half}",
            captions_per_image=config.vocabulary.captions_per_image,
            progress=lambda report: job.say(report.step, report.steps, "steps of a half"),
        )
        rest = table.select(unseen.tolist())
        scores[unseen] = score_images(network, rest, device=recipe.device)
    return list(table.ids), scores


def _drawn(
    job: Work,
    vocabulary: Vocabulary,
    split: Split,
    held_ids: tuple[str, ...],
    held_scores: FloatArray,
) -> tuple[list[str], FloatArray]:
    every = {canonical_id(e.id): e.captions for e in open_corpus(job.recipe.data.train)}
    ids = [e.id for e in training_examples(job.recipe.data.train, hold_out=split.held_out)]
    mentions = vocabulary.mentions([every[canonical_id(i)] for i in ids])
    held = vocabulary.mentions([every[i] for i in held_ids])
    return ids, simulate_scores(mentions, held, held_scores, seed=job.recipe.config.language.seed)


def language_stage(job: Work) -> Figures:
    """Train the language model; writes language/."""
    recipe = job.recipe
    split = Split.load(job.inputs["vocabulary"])
    start = MaxEnt.load(recipe.language_base) if recipe.language_base else None
    counted = load_vocabulary(job.inputs["vocabulary"] / "language.json")
    vocabulary = counted if start is None else start.vocabulary
    model = train_language(
        LanguageSources(
            captions=[lambda: learning_examples(recipe, split)],
            text=[lambda: open_corpus(recipe.data.text)] if recipe.data.text else [],
            word_scores=[job.inputs["detections"] / "top-words.npz"],
        ),
        vocabulary,
        recipe.config.language,
        start=start,
        checkpoint=job.folder / "checkpoint.npz",
        on_tokens=lambda done, total: job.say(done, total, "tokens"),
    )
    model.quantised().save(job.folder / "language")
    (job.folder / "checkpoint.npz").unlink(missing_ok=True)
    known = sum(n for w, n in zip(counted.words, counted.counts, strict=True) if w in vocabulary)
    return {"words": len(vocabulary), "coverage": round(known / counted.total_tokens, 4)}
