"""The baselines that need no model (Table 4): Shuffled Human and Human.

Shuffled Human gives each image a caption that a person wrote for another image; it measures how
much of a score the style of a dataset explains. Human holds out one caption of each image and
scores it against the others, once for every caption, and averages.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sightwords.corpus.splits import choose_references
from sightwords.errors import ScoreError
from sightwords.evaluate.captions import Report, choose_metrics, score_pairs
from sightwords.evaluate.references import References, load_references
from sightwords.metrics.score import Comparison, Score

BASELINES = ("human", "shuffled-human")
MOST_CHOICES = 10
"""Default limit on held-out captions: PASCAL-50S has 50, and ten already average well."""

Held = tuple[dict[str, str], dict[str, tuple[str, ...]]]


def evaluate_baseline(
    kind: str,
    references: References,
    *,
    references_per_image: int | None = None,
    choices: int | None = None,
    metrics: Iterable[str] | None = None,
    seed: int = 0,
) -> Report:
    """Score `human` or `shuffled-human` against the references of one dataset.

    `references_per_image` limits what each caption is compared with (the paper: 4); None takes
    all there are. `choices` limits how many captions of an image take their turn as the held-out
    one. A report of Human gives the means over choices, of the corpus scores and per image; its
    captions are those of the first choice.

    >>> report = evaluate_baseline(
    ...     "human", {"1": ["a dog", "a dog"], "2": ["a cat", "the cat"]}, metrics=["bleu_1"]
    ... )
    >>> round(report.values["bleu_1"], 2)
    0.75
    """
    chosen = choose_metrics(metrics)
    people = load_references(references)
    if kind == "shuffled-human":
        rounds = [shuffle_captions(people, references_per_image, seed=seed)]
        mark = f"|baseline:shuffled-human|seed:{seed}"
    elif kind == "human":
        turns = choices or min(usual_count(people), MOST_CHOICES)
        rounds = [hold_out_one(people, t, references_per_image, seed=seed) for t in range(turns)]
        mark = f"|baseline:human|choices:{turns}|seed:{seed}"
    else:
        raise ScoreError(f"there is no baseline {kind!r}; choose among {', '.join(BASELINES)}")
    pairs = [Comparison.of(*held) for held in rounds]
    scored = [score_pairs(each, chosen, optional=metrics is None) for each in pairs]
    means = _mean_scores([scores for scores, _ in scored], mark)
    return Report(kind, pairs[0], rounds[0][0], means, scored[0][1])


def shuffle_captions(
    people: Mapping[str, Sequence[str]], references_per_image: int | None, *, seed: int
) -> Held:
    """Each image with a random caption of another image, and its own references.

    >>> captions, _ = shuffle_captions({"1": ["a dog"], "2": ["a cat"]}, None, seed=0)
    >>> captions
    {'1': 'a cat', '2': 'a dog'}
    """
    ids = list(people)
    rng = random.Random(seed)
    others = [ids[i] for i in derangement(len(ids), rng)]
    captions = {mine: rng.choice(people[other]) for mine, other in zip(ids, others, strict=True)}
    return captions, _limit(people, references_per_image, seed=seed)


def derangement(count: int, rng: random.Random) -> list[int]:
    """A random order in which nothing stays in place, every such order equally likely.

    Shuffles until one comes out (2.7 tries on average, for any count).

    >>> derangement(2, random.Random(0))
    [1, 0]
    """
    if count < 2:
        raise ScoreError(
            "shuffled-human needs captions of another image, but there is only "
            f"{count} image; give at least 2"
        )
    order = list(range(count))
    while any(place == item for place, item in enumerate(order)):
        rng.shuffle(order)
    return order


def hold_out_one(
    people: Mapping[str, Sequence[str]], turn: int, references_per_image: int | None, *, seed: int
) -> Held:
    """In the given turn: one caption of each image, and its other captions as references.

    Every image goes through its captions in its own random order, and starts again when it has
    fewer than there are turns (a few PASCAL images have 4, not 5).
    """
    captions: dict[str, str] = {}
    others: dict[str, tuple[str, ...]] = {}
    for key, given in people.items():
        if len(given) < 2:
            raise ScoreError(
                f"image {key!r} has {len(given)} caption; the human baseline needs at least 2 per "
                "image, one to hold out and one to compare with"
            )
        order = random.Random(f"{seed}:{key}").sample(range(len(given)), len(given))
        held = order[turn % len(given)]
        captions[key] = given[held]
        others[key] = tuple(c for i, c in enumerate(given) if i != held)
    return captions, _limit(others, references_per_image, seed=seed)


def usual_count(people: Mapping[str, Sequence[str]]) -> int:
    """The most common number of captions per image; the smallest of equally common ones.

    >>> usual_count({"1": "abcde", "2": "abcde", "3": "abcdef"})
    5
    """
    if not people:
        raise ScoreError("no images with captions; give at least one")
    counts = Counter(len(given) for given in people.values())
    return min(counts, key=lambda count: (-counts[count], count))


def _limit(
    people: Mapping[str, Sequence[str]], count: int | None, *, seed: int
) -> dict[str, tuple[str, ...]]:
    if count is None:
        return {key: tuple(given) for key, given in people.items()}
    return choose_references(people, seed=seed, count=count)


def _mean_scores(rounds: Sequence[Sequence[Score]], mark: str) -> tuple[Score, ...]:
    """Means over rounds, of the corpus value and of each image."""
    return tuple(
        replace(
            same[0],
            value=float(np.mean([score.value for score in same])),
            per_image=np.mean([score.per_image for score in same], axis=0),
            signature=same[0].signature + mark,
            sums=None,  # a mean of rounds has none
        )
        for same in zip(*rounds, strict=True)
    )
