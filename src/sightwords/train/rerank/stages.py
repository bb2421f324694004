"""The stages of `sightwords train all` that belong to section 5, and the bundle."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sightwords.bundle import seal
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash
from sightwords.errors import CorpusError, InputError
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.rerank.dmsm import Dmsm
from sightwords.rerank.grounded import Grounded
from sightwords.rerank.linear import Ranker
from sightwords.settings import save_resolved
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.dmsm.data import dmsm_data
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.language.data import Detections
from sightwords.train.rerank.confidence import fit_confidence
from sightwords.train.rerank.list_metrics import measure, references_of
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.make_lists import detected_words, make_lists, worth_keeping
from sightwords.train.rerank.mert_scores import (
    Remembered,
    dmsm_scores,
    grounded_scores,
    image_tokens,
)
from sightwords.train.rerank.mert_stages import Tuning, apply_ranker, tune_ranker, with_values
from sightwords.train.rerank.run import Models, tuning_of_nothing
from sightwords.train.split import Figures, Split, Work, learning_examples, rerank_examples
from sightwords.words.detector import Detector

log = logging.getLogger(__name__)
KEPT_PROB = 0.02
"""Words below the attribute threshold serve re-ranking down to this probability."""
ENOUGH_FOR_HALVES = 400
"""From so many images up, MERT and confidence are fitted on different ones."""


def dmsm_stage(job: Work) -> Figures:
    """Train the similarity of images and sentences; writes dmsm/."""
    from sightwords.train.dmsm.export import export_dmsm
    from sightwords.train.dmsm.training import CHECKPOINT_NAME, train_dmsm

    split = Split.load(job.inputs["vocabulary"])
    captions = {e.id: e.captions for e in learning_examples(job.recipe, split)}
    features = ImageFeatures.load(job.inputs["features"] / "learned-features.npz")
    config = job.recipe.config.dmsm
    data = dmsm_data(features, captions, config)
    network = train_dmsm(
        data,
        config,
        device=job.recipe.device,
        folder=job.folder,
        progress=lambda report: job.say(report.step, report.steps, "steps"),
    )
    export = export_dmsm(network, job.folder / "dmsm")
    (job.folder / CHECKPOINT_NAME).unlink(missing_ok=True)
    return {"images": len(data.features), "captions": len(data), "bytes": export.bytes}


def lists_stage(job: Work) -> Figures:
    """M-best lists of the images for re-ranking; writes lists.npz."""
    config = job.recipe.config
    detector = Detector.load(job.inputs["calibration"] / "words", threads=1)
    assert detector.calibration is not None
    table = read_word_scores(job.inputs["features"] / "rerank-scores.npz")
    scores = table.scores.astype(np.float32)
    precisions = detector.calibration.precision(scores)
    rows, columns = np.nonzero(worth_keeping(scores, KEPT_PROB))
    found = Detections(list(table.ids), list(table.words), rows, columns, scores[rows, columns])
    words = detected_words(
        found,
        load_vocabulary(job.inputs["language"] / "language" / "vocabulary.json"),
        minimum_prob=config.language.attribute_threshold,
        precisions=precisions[rows, columns],
    )
    usable = [i for i, image in enumerate(words) if image.offered.any()]
    if not usable:
        raise CorpusError("no image for re-ranking has a detected word that captions use")
    lists = make_lists(
        [table.ids[i] for i in usable],
        [words[i] for i in usable],
        job.inputs["language"] / "language",
        config.generation,
        minimum_prob=config.language.attribute_threshold,
        progress=lambda done, total: job.say(done, total, "images"),
    )
    lists.save(job.folder / "lists.npz")
    return {"images": len(lists), "sentences": lists.hypotheses}


def mert_stage(job: Work) -> Figures:
    """Tune the re-ranking weights; writes rerank/weights.json."""
    config = job.recipe.config.mert
    tuning = _tuning(job, half=0)
    job.say(0, config.restarts, "starts")
    ranker = tune_ranker(
        tuning, config, progress=lambda start, _: job.say(start + 1, config.restarts, "starts")
    )
    ranker = with_values(ranker, {"tuning": (tuning, apply_ranker(tuning, ranker))})
    ranker.save(job.folder / "rerank")
    return {name: dict(values) for name, values in ranker.values.items()}


def confidence_stage(job: Work) -> Figures:
    """Fit the probability that a caption is good; writes rerank/ whole."""
    shutil.copytree(job.inputs["mert"] / "rerank", job.folder / "rerank", dirs_exist_ok=True)
    ranker = Ranker.load(job.folder / "rerank")
    tuning = _tuning(job, half=1)
    choices = apply_ranker(tuning, ranker)
    cider = tuning.metrics.cider[choices.hypotheses]
    job.say(0, None, "images of nothing")
    config = job.recipe.config
    nothing = tuning_of_nothing(
        Models(
            job.inputs["calibration"] / "words",
            job.inputs["language"] / "language",
            job.inputs["dmsm"] / "dmsm" if config.mert.dmsm else None,
            job.inputs["grounded"] / "grounded" if config.mert.grounded else None,
        ),
        config,
        threads=job.recipe.threads,
    )
    bad = apply_ranker(nothing, ranker)
    figures = {"images": len(cider), "cider": round(float(cider.mean()), 4)}
    try:
        confidence = fit_confidence(choices, cider, bad=bad, seed=config.mert.seed)
    except InputError as error:  # few photographs, all captioned equally well
        log.warning("captions will have no confidence: %s", error)
        return figures
    confidence.save(job.folder / "rerank")
    return figures | {"good_from": confidence.threshold}


def bundle_stage(job: Work) -> Figures:
    """Put everything together; writes bundle/."""
    recipe, target = job.recipe, job.folder / "bundle"
    shutil.rmtree(target, ignore_errors=True)
    for stage, name in (
        ("calibration", "words"),
        ("language", "language"),
        ("confidence", "rerank"),
    ):
        shutil.copytree(job.inputs[stage] / name, target / name)
    if recipe.config.mert.dmsm:
        shutil.copytree(job.inputs["dmsm"] / "dmsm", target / "dmsm")
    if recipe.config.mert.grounded:
        shutil.copytree(job.inputs["grounded"] / "grounded", target / "grounded")
    save_resolved(recipe.config, target)
    provenance = {
        "command": "sightwords train all",
        "preset": recipe.preset,
        "data": dataclasses.asdict(recipe.data),
        "stages": {name: folder.name for name, folder in job.inputs.items()},
    }
    manifest = seal(
        target, name=recipe.data.name, licence=recipe.data.licence, provenance=provenance
    )
    return {"bytes": manifest.size_bytes, "fingerprint": manifest.fingerprint}


def _tuning(job: Work, *, half: int) -> Tuning:
    """Lists, metrics and similarities of one half of the images, of all where they are few."""
    split = Split.load(job.inputs["vocabulary"])
    captions = {canonical_id(e.id): e.captions for e in rerank_examples(job.recipe, split)}
    lists = Lists.load(job.inputs["lists"] / "lists.npz")
    config = job.recipe.config.mert
    features = ImageFeatures.load(job.inputs["features"] / "rerank-features.npz")
    metrics = measure(
        lists, references_of(lists, captions), with_meteor="meteor" in config.objective
    )
    similarity = None
    if config.dmsm:
        dmsm = Dmsm.load(job.inputs["dmsm"] / "dmsm", threads=job.recipe.threads)
        similarity = dmsm_scores(
            lists, features, dmsm, progress=lambda done: job.say(done, len(lists), "lists")
        )
    tuning = Tuning(
        lists, metrics, similarity, _asking(job, lists, features), image_tokens(lists, features)
    )
    if len(lists) < ENOUGH_FOR_HALVES:
        return tuning
    mine = [i for i, name in enumerate(lists.ids.tolist()) if half_by_hash(name) == half]
    return tuning.select(mine)


def _asking(
    job: Work, lists: Lists, features: ImageFeatures
) -> Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.float32]] | None:
    """Asks the grounded model, about no sentence twice; None where there is none."""
    if not job.recipe.config.mert.grounded:
        return None
    model = Grounded.load(job.inputs["grounded"] / "grounded", threads=job.recipe.threads)
    return Remembered(
        lambda fresh: grounded_scores(
            lists, features, model, fresh,
            progress=lambda done: job.say(done, len(lists), "shortlists"),
        ),
        lists.hypotheses,
    )  # fmt: skip
