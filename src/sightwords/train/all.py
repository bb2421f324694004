"""The whole system from captioned photographs: the stages of `sightwords train all`.

    vocabulary -> detector -> calibration -> features -> detections -> language
                                   -> dmsm, grounded, lists -> mert -> confidence -> bundle

Each line of the table names what a stage needs and which settings it depends on; `train.stages`
runs those that are not finished.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.errors import BundleError, ConfigError
from sightwords.sealed import sha256_of
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.train.data.sources import source_key
from sightwords.train.grounded.stages import grounded_stage
from sightwords.train.language.stages import detections_stage, language_stage
from sightwords.train.recipe import RANDOM, Recipe
from sightwords.train.rerank.stages import (
    bundle_stage,
    confidence_stage,
    dmsm_stage,
    lists_stage,
    mert_stage,
)
from sightwords.train.split import data_key
from sightwords.train.stages import Finished, Progress, Stage, run_stages
from sightwords.train.words.stages import (
    calibration_stage,
    detector_stage,
    features_stage,
    vocabulary_stage,
)
from sightwords.words.artefact import NETWORK_NAME

STAGES: tuple[Stage[Recipe], ...] = (
    Stage(
        "vocabulary", (),
        lambda r: (data_key(r), r.config.vocabulary, r.data.language_words,
                   r.data.held_out_share, r.config.calibration.held_out_images,
                   *_language_of(r)),
        vocabulary_stage,
    ),
    Stage(
        "detector", ("vocabulary",),
        lambda r: (r.config.words, r.config.images, _base_key(r), _weights_key(r), r.data.form,
                   *([] if r.data.base_words else [r.data.base_words])),
        detector_stage,
    ),
    Stage("calibration", ("vocabulary", "detector"), lambda r: "", calibration_stage),
    Stage("features", ("vocabulary", "calibration"), lambda r: "", features_stage),
    Stage(
        "detections", ("vocabulary", "detector", "features"),
        lambda r: (r.data.cross_fit, r.config.language.attribute_threshold,
                   *([r.config.language.seed] if r.config.language.seed else [])),
        detections_stage,
    ),
    Stage(
        "language", ("vocabulary", "detections"),
        lambda r: (r.config.language, source_key(r.data.text), _language_key(r)),
        language_stage,
    ),
    Stage("dmsm", ("vocabulary", "features"), lambda r: r.config.dmsm, dmsm_stage),
    Stage(
        "lists", ("vocabulary", "calibration", "features", "language"),
        lambda r: (r.config.generation, r.config.language.attribute_threshold),
        lists_stage,
    ),
    Stage(
        "grounded", ("vocabulary", "features", "detections", "language"),
        lambda r: (r.config.grounded, r.config.generation, r.data.form, source_key(r.data.text))
        if r.config.grounded.enabled else "",
        grounded_stage,
    ),
    Stage(
        "mert", ("vocabulary", "features", "dmsm", "grounded", "lists"),
        lambda r: r.config.mert,
        mert_stage,
    ),
    Stage(
        "confidence",
        ("vocabulary", "calibration", "features", "language", "dmsm", "grounded", "lists", "mert"),
        lambda r: r.config.mert,
        confidence_stage,
    ),
    Stage(
        "bundle", ("calibration", "language", "dmsm", "grounded", "confidence"),
        lambda r: (r.config, r.preset, r.data),
        bundle_stage,
    ),
)  # fmt: skip


def train_all(
    recipe: Recipe,
    out: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Train every stage that is not finished, and write the bundle directory `out`.

    Stages are kept in `work` (`out`.training unless given); the same call goes on where a killed
    one stopped.
    """
    target = Path(out)
    if target.exists() and not (target / "bundle.json").exists() and any(target.iterdir()):
        raise BundleError(f"{target}: is there and is no bundle; name another directory")
    _check_inputs(recipe)
    folder = Path(work) if work is not None else target.with_name(f"{target.name}.training")
    found = run_stages(STAGES, _agreeing(recipe), folder, progress=progress)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(found.folders["bundle"] / "bundle", partial)
    shutil.rmtree(target, ignore_errors=True)
    partial.replace(target)
    return found


def _check_inputs(recipe: Recipe) -> None:
    """Find what is not there now, not when its stage comes an hour later."""
    _check_start(recipe)
    for sources in (recipe.data.train, recipe.data.validation, recipe.data.text):
        if sources:
            open_corpus(sources)
    _base_key(recipe)
    base = recipe.language_base
    if base is not None and not (base / "language.npz").is_file():
        raise ConfigError(
            f"language_base: {base} holds no language model (language.npz); name a directory of "
            "'sightwords train language', the language/ of a bundle, or \"default\""
        )


def _check_start(recipe: Recipe) -> None:
    """Hours on a network that starts from nothing must be asked for by name."""
    if recipe.base is not None or recipe.data.weights:
        return
    from sightwords.train.words.backbones import RANDOM_WITHOUT_WEIGHTS

    name = recipe.config.words.backbone
    if name in RANDOM_WITHOUT_WEIGHTS:
        raise ConfigError(
            f"data: names neither base nor weights, so that {name} would start from random numbers "
            "and learn to see from these photographs alone: expect poor captions after hours; give "
            'base = "default" (the network inside the package, a CPU will do) or weights = '
            f'"{_PRETRAINED.get(name, "FILE")}" (pretrained; on a GPU) or, if you mean it, '
            f'weights = "{RANDOM}"'
        )


_PRETRAINED = {"dinov2-vits14": "facebook/dinov2-small"}
"""A good start for a backbone, where the hub has one in its form."""


def _agreeing(recipe: Recipe) -> Recipe:
    """Re-ranking asks the grounded model if there is one: [grounded] and [mert] both say so."""
    config = recipe.config
    both = config.grounded.enabled and config.mert.grounded
    changed = dataclasses.replace(
        config,
        grounded=dataclasses.replace(config.grounded, enabled=both),
        mert=dataclasses.replace(config.mert, grounded=both),
    )
    return dataclasses.replace(recipe, config=changed)


def _language_of(recipe: Recipe) -> tuple[object, ...]:
    """What is not as in lower-case English."""
    data = recipe.data
    plain = data.closed_class == CLOSED_CLASS and not data.keep_capitals
    return () if plain else (data.closed_class, data.keep_capitals)


def _base_key(recipe: Recipe) -> str:
    """The network to build on, by its sum."""
    if recipe.base is None:
        return ""
    if recipe.config.words.pooling != "noisy_or":
        raise ConfigError('base: needs pooling = "noisy_or" in [words]')
    return sha256_of(Path(recipe.base) / NETWORK_NAME)


def _weights_key(recipe: Recipe) -> str:
    """The pretrained weights, by their sum."""
    if recipe.weights is None:
        return ""
    from sightwords.train.integrity import weights_sum  # needs torch, as such a training does

    return weights_sum(recipe.weights)


def _language_key(recipe: Recipe) -> str:
    """The language model to go on from, by the sum of its weights."""
    base = recipe.language_base
    return "" if base is None else sha256_of(base / "language.npz")
