"""The stages of `sightwords train all` that belong to section 4: detections and language model."""

from __future__ import annotations

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.word_scores import WordScoreTable, read_word_scores
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.language.detected_words import TopWords, top_words_of
from sightwords.train.language.detection_noise import simulate_scores
from sightwords.train.language.run import LanguageSources, train_language
from sightwords.train.split import Figures, Split, Work, detector_examples, learning_examples
from sightwords.train.words.stages import is_cross_fitted, scores_of_more

HALVES = ("half-0", "half-1")
"""The stages that score the images of one half each."""


def detections_stage(job: Work) -> Figures:
    """Words of every image that the language model may learn from, by detectors that did not
    train on it; writes top-words.npz.
    """
    recipe = job.recipe
    vocabulary = load_vocabulary(job.inputs["vocabulary"] / "words.json")
    held = read_word_scores(job.inputs["features"] / "calibration-scores.npz")
    parts = [top_words_of(held.ids, held.scores.astype(np.float32), vocabulary.words)]
    way = "two detectors, each scoring the half it did not train on"
    if not is_cross_fitted(job):
        parts.append(_drawn(job, vocabulary, held))
        way = "drawn from held-out images"
    elif recipe.base is not None:
        from sightwords.train.words.frozen.stages import frozen_folds

        split = Split.load(job.inputs["vocabulary"])
        ids, scores = frozen_folds(job, recipe.base, vocabulary, split)
        parts.append(top_words_of(ids, scores, vocabulary.words))
    else:
        halves = (job.inputs[name] / "top-words.npz" for name in HALVES)
        parts += [TopWords.load(path) for path in halves]
    if recipe.data.more:
        parts.append(scores_of_more(job))
    found = TopWords.joined(parts)
    found.save(job.folder / "top-words.npz")
    likely = (found.probs >= recipe.config.language.attribute_threshold).sum()
    return {
        "images": len(found.ids),
        "detections": way,
        "words_an_image": float(likely / len(found.ids)),
    }


def _drawn(job: Work, vocabulary: Vocabulary, held: WordScoreTable) -> TopWords:
    """Detections that are as right and as wrong as those of held-out images."""
    split = Split.load(job.inputs["vocabulary"])
    every = {canonical_id(e.id): e.captions for e in open_corpus(job.recipe.data.train)}
    ids = [e.id for e in detector_examples(job.recipe, split)]
    mentions = vocabulary.mentions([every[canonical_id(i)] for i in ids])
    known = vocabulary.mentions([every[i] for i in held.ids])
    scores = held.scores.astype(np.float32)
    seed = job.recipe.config.language.seed
    return top_words_of(ids, simulate_scores(mentions, known, scores, seed=seed), vocabulary.words)


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
