"""`train all` on a detector that is there already: a new last layer, and its detections."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sightwords.corpus.splits import half_by_hash
from sightwords.errors import CorpusError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.sources import source_key, training_examples
from sightwords.train.recipe import Recipe
from sightwords.train.split import Figures, Split, Work
from sightwords.train.words.frozen.features import RegionTable, region_table
from sightwords.train.words.frozen.training import known_words, train_head, write_frozen
from sightwords.types import FloatArray

FOLD_SALT = "fold"


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
    fold = np.array([half_by_hash(name, salt=FOLD_SALT) for name in table.ids])
    if fold.all() or not fold.any():
        raise CorpusError(
            f"{len(table)} training images fall into one half, so that none can score the other; "
            'give more photographs, or set cross_fit = "off" in [data]'
        )
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
        lambda: training_examples(recipe.data.train, hold_out=split.held_out),
        job.cache,
        key=f"{source_key(recipe.data.train)}|{split.held_out}",
        threads=recipe.threads,
        progress=lambda count: job.say(count, None, "images"),
    )
