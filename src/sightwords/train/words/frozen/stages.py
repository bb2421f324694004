"""`train all` on an existing detector: a new last layer, and its detections."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sightwords.text.vocabulary import Vocabulary
from sightwords.train.recipe import Recipe
from sightwords.train.split import Figures, Split, Work, content_key, detector_examples, folds_of
from sightwords.train.words.frozen.features import RegionTable, region_table
from sightwords.train.words.frozen.training import known_words, train_head, write_frozen
from sightwords.types import FloatArray


def frozen_detector(job: Work, base: Path, vocabulary: Vocabulary, split: Split) -> Figures:
    """Train the last layer on all training images; writes words/."""
    table, known = regions_of(job, base, split), _known(job, base)
    head = train_head(
        table,
        vocabulary,
        known,
        job.recipe.config.words,
        captions_per_image=job.recipe.config.vocabulary.captions_per_image,
        progress=lambda report: job.say(report.step, report.steps, "steps"),
    )
    write_frozen(base, job.folder / "words", vocabulary, job.recipe.config, head=head)
    count = sum(word in known for word in vocabulary.words) if known else 0
    return {"words": len(vocabulary), "known": count}


def frozen_folds(
    job: Work, base: Path, vocabulary: Vocabulary, split: Split
) -> tuple[list[str], FloatArray]:
    """Ids and out-of-fold scores (N, V) of the training images: two heads, each on one half."""
    table, known = regions_of(job, base, split), _known(job, base)
    fold = folds_of(table.ids)
    scores = np.empty((len(table), len(vocabulary)), dtype=np.float32)
    for half in (0, 1):
        seen, unseen = np.flatnonzero(fold != half), np.flatnonzero(fold == half)
        head = train_head(
            table.select(seen.tolist()),
            vocabulary,
            known,
            job.recipe.config.words,
            captions_per_image=job.recipe.config.vocabulary.captions_per_image,
            progress=lambda report: job.say(report.step, report.steps, "steps of a half"),
        )
        scores[unseen] = table.select(unseen.tolist()).probs(*head)
    return list(table.ids), scores


def _known(job: Work, base: Path) -> Vocabulary | None:
    return known_words(base) if job.recipe.data.base_words else None


def regions_of(job: Work, base: Path, split: Split) -> RegionTable:
    """Features of the training images' regions, from the cache after the first time."""
    recipe: Recipe = job.recipe
    return region_table(
        base,
        lambda: detector_examples(recipe, split),
        job.cache,
        key=f"{content_key(recipe.data.train)}|without {sorted(split.held_out)}",
        threads=recipe.threads,
        progress=lambda count: job.say(count, None, "images"),
    )
