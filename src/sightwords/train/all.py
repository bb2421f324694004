"""The whole system from captioned photos: the stages of `sightwords train all`.

    vocabulary -> teachers -> pupils -> detector -> calibration -> features
               -> two half-data detectors -> detections -> language
                                   -> dmsm, lists, grounded -> mert -> confidence -> bundle

Each line of the table names what a stage needs and which settings it depends on; `train.stages`
runs those that are not finished. The functions are in `stages.py` of each sub-package.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.errors import BundleError, ConfigError
from sightwords.sealed import sha256_of
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.train.grounded.stages import grounded_stage
from sightwords.train.language.stages import HALVES, detections_stage, language_stage
from sightwords.train.recipe import RANDOM, Network, Recipe
from sightwords.train.rerank.stages import (
    bundle_stage,
    confidence_stage,
    dmsm_stage,
    lists_stage,
    mert_stage,
)
from sightwords.train.split import content_key, data_key
from sightwords.train.stages import Finished, Progress, Stage, run_stages
from sightwords.train.words.stages import (
    calibration_stage,
    detector_stage,
    features_stage,
    half_stage,
    network_stage,
    unseeing,
    vocabulary_stage,
)
from sightwords.words.artefact import NETWORK_NAME


def stages_of(recipe: Recipe) -> tuple[Stage[Recipe], ...]:
    """The table: every stage of a recipe, in order."""
    return (
        Stage(
            "vocabulary", (),
            lambda r: (data_key(r), r.data.dataset, r.config.vocabulary, r.data.language_words,
                       r.data.held_out_share, r.config.calibration.held_out_images,
                       *_language_of(r)),
            vocabulary_stage,
        ),
        *(_half(number, name) for number, name in enumerate(_halves(recipe))),
        *(_network(network) for network in recipe.networks[:-1]),
        Stage(
            "detector", ("vocabulary", *recipe.kept.teachers),
            lambda r: (_network_key(r, r.kept), _base_key(r), r.data.form, r.data.base_words),
            detector_stage,
        ),
        Stage("calibration", ("vocabulary", "detector"), lambda r: "", calibration_stage),
        Stage("features", ("vocabulary", "detector", "calibration"), lambda r: "", features_stage),
        Stage(
            "detections", ("vocabulary", "detector", "features", *_halves(recipe),
                           *_scorer_of_more(recipe)),
            lambda r: (r.data.cross_fit, r.config.language.attribute_threshold,
                       r.config.language.seed),
            detections_stage,
        ),
        Stage(
            "language", ("vocabulary", "detections"),
            lambda r: (r.config.language, content_key(r.data.text), _language_key(r)),
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
            lambda r: (r.config.grounded, r.config.generation, r.data.form,
                       content_key(r.data.text)) if r.config.grounded.enabled else "",
            grounded_stage,
        ),
        Stage(
            "mert",
            ("vocabulary", "calibration", "features", "language", "dmsm", "lists", "grounded"),
            lambda r: r.config.mert,
            mert_stage,
        ),
        Stage(
            "confidence",
            ("vocabulary", "calibration", "features", "language", "dmsm", "lists", "grounded",
             "mert"),
            lambda r: r.config.mert,
            confidence_stage,
        ),
        Stage(
            "bundle", ("calibration", "language", "dmsm", "grounded", "confidence"),
            lambda r: (r.config, r.preset, r.data.name, r.data.licence, data_key(r)),
            bundle_stage,
        ),
    )  # fmt: skip


def train_all(
    recipe: Recipe,
    out: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    only: Collection[str] = (),
    until: str | None = None,
    max_seconds: float = math.inf,
    progress: Progress | None = None,
) -> Finished:
    """Train every stage that is not finished, and write the bundle directory `out`.

    Stages are kept in `work` (`out`.training unless given); the same call resumes where a killed
    one stopped. `only`, `until` and `max_seconds` are those of `run_stages`; if they leave out the
    last stage, no bundle is written.
    """
    target = Path(out)
    if target.exists() and not (target / "bundle.json").exists() and any(target.iterdir()):
        raise BundleError(
            f"{target}: this directory exists and is not a bundle; name another directory"
        )
    _check_inputs(recipe)
    folder = Path(work) if work is not None else target.with_name(f"{target.name}.training")
    found = run_stages(
        stages_of(recipe),
        _agreeing(recipe),
        folder,
        only=only,
        until=until,
        max_seconds=max_seconds,
        progress=progress,
    )
    if "bundle" in found.folders:
        partial_copy = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial_copy, ignore_errors=True)
        shutil.copytree(found.folders["bundle"] / "bundle", partial_copy)
        shutil.rmtree(target, ignore_errors=True)
        partial_copy.replace(target)
    return found


def _half(number: int, name: str) -> Stage[Recipe]:
    """A detector of half the images, for scores of the other half."""
    return Stage(
        name, ("vocabulary",),
        lambda r: (_network_key(r, Network(name, r.config.words)), r.data.cross_fit),
        partial(half_stage, half=number),
    )  # fmt: skip


def _network(network: Network) -> Stage[Recipe]:
    """A teacher, or a pupil that teaches the next one."""
    return Stage(
        network.stage, ("vocabulary", *network.teachers),
        lambda r: _network_key(r, network),
        partial(network_stage, wanted=network),
    )  # fmt: skip


def _halves(recipe: Recipe) -> tuple[str, ...]:
    """A base trains its two last layers within the stage `detections`, in seconds."""
    return HALVES if recipe.base is None and recipe.data.cross_fit != "off" else ()


def _scorer_of_more(recipe: Recipe) -> tuple[str, ...]:
    return (unseeing(recipe).stage,) if recipe.data.more else ()


def _network_key(recipe: Recipe, network: Network) -> tuple[object, ...]:
    return (network.words, network.more, recipe.config.images, _weights_key(recipe))


def _check_inputs(recipe: Recipe) -> None:
    """Find what is not there now, not when its stage comes an hour later."""
    _check_start(recipe)
    data = recipe.data
    for sources in (data.train, data.more, data.validation, data.text):
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
    """Training a network from random weights takes hours and must be asked for by name."""
    if recipe.base is not None or recipe.data.weights:
        return
    from sightwords.train.words.backbones import RANDOM_WITHOUT_WEIGHTS

    name = recipe.config.words.backbone
    if name in RANDOM_WITHOUT_WEIGHTS:
        raise ConfigError(
            f"data: names neither base nor weights, so {name} would start from random numbers "
            "and learn only from these photos: expect poor captions after hours; give "
            'base = "default" (the network inside the package; a CPU is enough; as an option: '
            "--set data.base=default) or weights = "
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
    from sightwords.train.weights import weights_sum  # needs torch, as such a training does

    return weights_sum(recipe.weights)


def _language_key(recipe: Recipe) -> str:
    """The language model to go on from, by the sum of its weights."""
    base = recipe.language_base
    return "" if base is None else sha256_of(base / "language.npz")
