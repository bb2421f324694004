"""The stages of `sightwords train all` that belong to section 3: words, detector, calibration,
and what the detector says of every image for the stages after it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.errors import CorpusError
from sightwords.files import write_text
from sightwords.text.vocabulary import Vocabulary, WordCounts
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
from sightwords.text.written import written_forms
from sightwords.train.data.sources import reported
from sightwords.train.dmsm.image_features import detector_features
from sightwords.train.split import Figures, Split, Work, learning_examples, rerank_examples
from sightwords.train.words.calibration import calibrate_detector
from sightwords.words.detector import Detector

RERANK_SALT = "rerank"
FEWEST_IMAGES = 20


def vocabulary_stage(job: Work) -> Figures:
    """Count words, and decide which images serve what."""
    data, config = job.recipe.data, job.recipe.config
    ids: list[str] = []
    captions: list[str] = []
    for example in reported(data.train):
        ids.append(example.id)
        captions += example.captions
        job.say(len(ids), None, "images")
    if len(set(ids)) < FEWEST_IMAGES:
        raise CorpusError(
            f"{len(set(ids))} captioned images; a captioner needs at least {FEWEST_IMAGES}, "
            "better some hundreds"
        )
    counts = WordCounts.of_captions(captions)
    for name, size in (("words", config.vocabulary.size), ("language", data.language_words)):
        vocabulary = Vocabulary.of_counts(counts, size=size)
        written = written_forms(captions, vocabulary.words) if data.keep_capitals else {}
        vocabulary = replace(vocabulary, closed_class=data.closed_class, written=written)
        save_vocabulary(vocabulary, job.folder / f"{name}.json")
    count = min(config.calibration.held_out_images, int(data.held_out_share * len(set(ids))))
    held = hold_out(ids, count)
    if data.validation:
        rerank = {example.id for example in open_corpus(data.validation)}
        both = rerank.intersection(ids)
        if both:
            raise CorpusError(f"image {min(both)!r} is in train and in validation; keep one")
        calibration = set(held)
    else:
        rerank = {name for name in held if half_by_hash(name, salt=RERANK_SALT)}
        calibration = set(held) - rerank
    document = {
        "held_out": count,
        "calibration": sorted(calibration),
        "rerank": sorted(rerank),
    }
    write_text(job.folder / "split.json", json.dumps(document, ensure_ascii=False))
    return {
        "images": len(set(ids)),
        "captions": counts.captions,
        "calibration": len(calibration),
        "rerank": len(rerank),
    }


def detector_stage(job: Work) -> Figures:
    """Train the network, or a new last layer on the network of `base`; writes words/."""
    recipe = job.recipe
    vocabulary = load_vocabulary(job.inputs["vocabulary"] / "words.json")
    split = Split.load(job.inputs["vocabulary"])
    if recipe.base is not None:
        from sightwords.train.words.frozen.stages import frozen_detector

        return frozen_detector(job, recipe.base, vocabulary, split)
    from sightwords.train.words.quantise import quantise_detector
    from sightwords.train.words.run import train_detector

    export = train_detector(
        recipe.data.train,
        recipe.config,
        job.folder / "float32",
        weights=recipe.weights,
        vocabulary=vocabulary,
        device=recipe.device,
        cache=job.cache,
        hold_out=split.held_out,
        table_progress=lambda count: job.say(count, None, "images"),
        progress=lambda report: job.say(report.step, report.steps, "steps"),
    )[2]
    assert export is not None
    if recipe.data.form == "float32":
        shutil.copytree(job.folder / "float32", job.folder / "words", dirs_exist_ok=True)
    else:
        export = quantise_detector(job.folder / "float32", job.folder / "words")
    return {"words": len(vocabulary), "bytes": export.network_bytes}


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
    """One pass of the finished detector over every image: features, and scores of held-out ones."""
    detector = Detector.load(job.inputs["calibration"] / "words", threads=job.recipe.threads)
    split = Split.load(job.inputs["vocabulary"])
    recipe = job.recipe
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
        ids = tuple(canonical_id(i) for i in found.features.ids)
        replace(found.features, ids=ids).save(job.folder / f"{name}-features.npz")
    calibration = {canonical_id(name) for name in split.calibration}
    rows = [r for r, i in enumerate(learned.features.ids) if canonical_id(i) in calibration]
    _save_scores(
        job.folder / "calibration-scores.npz",
        [canonical_id(learned.features.ids[r]) for r in rows],
        detector,
        learned.image_probs[rows],
    )
    names = [canonical_id(i) for i in judged.features.ids]
    _save_scores(job.folder / "rerank-scores.npz", names, detector, judged.image_probs)
    return {"learned": len(learned.features), "rerank": len(names)}


def _save_scores(path: Path, ids: list[str], detector: Detector, scores: np.ndarray) -> None:
    from sightwords.evaluate.word_scores import WordScoreTable, write_word_scores

    write_word_scores(path, WordScoreTable(tuple(ids), detector.vocabulary.words, scores))
