"""The stages of `sightwords train all` that belong to section 5, and the bundle."""

from __future__ import annotations

import dataclasses
import logging
import shutil

import numpy as np

from sightwords.bundle import seal
from sightwords.corpus.ids import canonical_id
from sightwords.errors import InputError
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.rerank.linear import Ranker
from sightwords.settings import save_resolved
from sightwords.train.dmsm.data import dmsm_data
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.recipe import Network, Recipe
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.mert_stages import Tuning
from sightwords.train.rerank.run import (
    Models,
    fitted_confidence,
    tuned_weights,
    tuning_lists,
    tuning_of,
)
from sightwords.train.split import Figures, Split, Work, learning_examples, rerank_examples
from sightwords.words.detector import Detector

log = logging.getLogger(__name__)


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
    table = read_word_scores(job.inputs["features"] / "rerank-scores.npz")
    lists = tuning_lists(
        list(table.ids),
        table.scores.astype(np.float32),
        Detector.load(job.inputs["calibration"] / "words", threads=1),
        job.inputs["language"] / "language",
        job.recipe.config,
        processes=job.recipe.processes,
        progress=job.say,
    )
    lists.save(job.folder / "lists.npz")
    return {"images": len(lists), "sentences": lists.hypotheses}


def mert_stage(job: Work) -> Figures:
    """Tune the re-ranking weights; writes rerank/weights.json."""
    ranker = tuned_weights(_tuning(job), job.recipe.config.mert, progress=job.say)
    ranker.save(job.folder / "rerank")
    return {name: dict(values) for name, values in ranker.values.items()}


def confidence_stage(job: Work) -> Figures:
    """Fit the probability that a caption is good; writes rerank/ whole."""
    shutil.copytree(job.inputs["mert"] / "rerank", job.folder / "rerank", dirs_exist_ok=True)
    recipe = job.recipe
    try:
        confidence = fitted_confidence(
            _tuning(job),
            Ranker.load(job.folder / "rerank"),
            _models(job),
            recipe.config,
            threads=recipe.threads,
        )
    except InputError as error:  # few photos, all captioned equally well
        log.warning("captions will have no confidence: %s", error)
        return {"good_from": None}
    confidence.save(job.folder / "rerank")
    return {"good_from": confidence.threshold, **confidence.reliability}


def _models(job: Work) -> Models:
    """Those that the settings ask for."""
    config = job.recipe.config.mert
    return Models(
        job.inputs["calibration"] / "words",
        job.inputs["language"] / "language",
        job.inputs["dmsm"] / "dmsm" if config.dmsm else None,
        job.inputs["grounded"] / "grounded" if config.grounded else None,
    )


def _tuning(job: Work) -> Tuning:
    """All that MERT asks about the images for re-ranking."""
    split = Split.load(job.inputs["vocabulary"])
    return tuning_of(
        Lists.load(job.inputs["lists"] / "lists.npz"),
        {canonical_id(e.id): e.captions for e in rerank_examples(job.recipe, split)},
        ImageFeatures.load(job.inputs["features"] / "rerank-features.npz"),
        _models(job),
        job.recipe.config.mert,
        threads=job.recipe.threads,
        processes=job.recipe.processes,
        progress=job.say,
    )


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
    save_resolved(dataclasses.replace(recipe.config, words=recipe.kept.words), target)
    provenance = {
        "command": "sightwords train all",
        "preset": recipe.preset,
        "data": dataclasses.asdict(recipe.data),
        "networks": [_told(recipe, network) for network in recipe.networks],
        "stages": {name: folder.name for name, folder in job.inputs.items()},
    }
    manifest = seal(
        target, name=recipe.data.name, licence=recipe.data.licence, provenance=provenance
    )
    return {"bytes": manifest.size_bytes, "fingerprint": manifest.fingerprint}


def _told(recipe: Recipe, network: Network) -> dict[str, object]:
    """Who taught a detector, and which of its settings are its own."""
    common = dataclasses.asdict(recipe.config.words)
    own = {k: v for k, v in dataclasses.asdict(network.words).items() if v != common[k]}
    return {
        "stage": network.stage,
        "teachers": list(network.teachers),
        "more": network.more,
        "words": own,
    }
