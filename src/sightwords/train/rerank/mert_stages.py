"""M-best lists with their metrics -> a `Ranker`: MERT for one or two stages (section 5).

The second stage is tuned on what the first one leaves: the grounded model is asked only about the
shortlists, here as in the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sightwords.config import MertConfig
from sightwords.errors import InputError
from sightwords.metrics.bleu import from_columns
from sightwords.rerank.features import COVERAGE, MENTIONED, PROBABILITIES, TABLE_2
from sightwords.rerank.linear import Ranker, Stage
from sightwords.train.rerank.confidence import Choices, choose_all
from sightwords.train.rerank.list_metrics import ListMetrics
from sightwords.train.rerank.lists import Lists, starts_of
from sightwords.train.rerank.mert import mert, within_deviation
from sightwords.train.rerank.mert_data import list_features, refuse_test_images
from sightwords.train.rerank.mert_objective import Objective
from sightwords.types import FloatArray

Values = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tuning:
    """Lists with all that MERT asks about them."""

    lists: Lists
    metrics: ListMetrics
    dmsm: Values | None = None
    """(H,) similarities; None where there is no model."""
    grounded: Callable[[Mask], Values] | None = None
    """Which hypotheses (H,) to score -> (H,), whatever elsewhere; None where there is no model."""
    tokens: Values | None = None
    """(N, D) what describes each image as a whole, for confidence; None where it is not known."""

    def select(self, images: Sequence[int] | npt.NDArray[np.int64]) -> Tuning:
        """Some images of it. The grounded model is then asked through the whole."""
        chosen = np.asarray(images, dtype=np.int64)
        lists = self.lists
        counts = np.diff(lists.offsets)[chosen]
        starts = starts_of(counts)
        rows = np.arange(starts[-1]) + np.repeat(lists.offsets[chosen] - starts[:-1], counts)
        ask = self.grounded

        def asked(mask: Mask) -> Values:
            assert ask is not None
            whole = np.zeros(lists.hypotheses, dtype=np.bool_)
            whole[rows[mask]] = True
            found: Values = ask(whole)[rows]
            return found

        meteor = self.metrics.meteor
        return Tuning(
            lists.select(chosen),
            ListMetrics(
                self.metrics.cider[rows],
                self.metrics.bleu[rows],
                None if meteor is None else meteor[rows],
            ),
            None if self.dmsm is None else self.dmsm[rows],
            None if ask is None else asked,
            None if self.tokens is None else self.tokens[chosen],
        )


def first_stage_features(config: MertConfig) -> tuple[str, ...]:
    """Table 2, and what the settings add to it.

    >>> first_stage_features(MertConfig(mentioned_objects=0, dmsm=False))
    ('log_likelihood', 'length', 'log_prob_per_word', 'log_rank', 'mentioned_0')
    """
    left_out = MENTIONED[config.mentioned_objects + 1 :]
    names = [name for name in TABLE_2 if name not in left_out]
    names += ["dmsm"] if config.dmsm else []
    names += PROBABILITIES if config.probabilities else ()
    names += COVERAGE if config.coverage else ()
    names += ["consensus"] if config.consensus else []
    return tuple(names)


def tune_ranker(
    tuning: Tuning,
    config: MertConfig,
    *,
    start: Ranker | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Ranker:
    """MERT of the first stage and, with `config.grounded`, of the second; `start` helps."""
    lists = tuning.lists
    refuse_test_images(lists)
    names = first_stage_features(config)
    features = list_features(lists, names, _given(tuning, config))
    weights = _tuned(
        features, names, lists.offsets, tuning.metrics, config, start=start, progress=progress
    )
    stages = [Stage(weights)]
    if config.grounded:
        mask, offsets = shortlisted(lists, stages[0].scores(features), config.shortlist)
        scores = _ask(tuning, mask)[mask]
        matrix = np.hstack([features[mask], scores[:, None].astype(np.float32)])
        metrics = _some(tuning.metrics, mask)
        second = _tuned(
            matrix, (*names, "grounded"), offsets, metrics, config, start=Ranker((stages[0],)),
            progress=progress,
        )  # fmt: skip
        stages.append(Stage(second))
    return Ranker(tuple(stages), config.shortlist, config.objective)


def apply_ranker(tuning: Tuning, ranker: Ranker) -> Choices:
    """What the pipeline would choose, with the features that confidence looks at."""
    given: dict[str, Values] = {} if tuning.dmsm is None else {"dmsm": tuning.dmsm}
    if ranker.needs("grounded"):
        first = ranker.stages[0]
        features = list_features(tuning.lists, first.names, given)
        mask, _ = shortlisted(tuning.lists, first.scores(features), ranker.shortlist)
        given["grounded"] = _ask(tuning, mask)
    return replace(choose_all(tuning.lists, ranker, given), tokens=tuning.tokens)


def metric_values(metrics: ListMetrics, chosen: npt.NDArray[np.int64]) -> dict[str, float]:
    """CIDEr-D and BLEU-4 of the chosen sentences, METEOR where it was measured."""
    found = {
        "cider": float(metrics.cider[chosen].mean()),
        "bleu_4": float(from_columns(metrics.bleu[chosen].astype(np.float64).sum(axis=0))[3]),
    }
    if metrics.meteor is not None:
        found["meteor_mean"] = float(metrics.meteor[chosen].mean())
    return found


def with_values(ranker: Ranker, sets: Mapping[str, tuple[Tuning, Choices]]) -> Ranker:
    """The same weights, with their values on each set of lists."""
    values = {
        name: {"images": len(tuning.lists), **metric_values(tuning.metrics, choices.hypotheses)}
        for name, (tuning, choices) in sets.items()
    }
    return replace(ranker, values=values)


def shortlisted(
    lists: Lists, scores: npt.NDArray[np.float64], count: int
) -> tuple[Mask, npt.NDArray[np.int64]]:
    """(H,) the best `count` of each list, of equal ones the first; and their offsets."""
    ranks = np.arange(lists.hypotheses) - np.repeat(lists.offsets[:-1], np.diff(lists.offsets))
    ranks[np.lexsort((ranks, -scores, lists.images))] = ranks.copy()
    mask = ranks < count
    return mask, starts_of(np.minimum(np.diff(lists.offsets), count))


def _tuned(
    features: FloatArray,
    names: Sequence[str],
    offsets: npt.NDArray[np.int64],
    metrics: ListMetrics,
    config: MertConfig,
    *,
    start: Ranker | None,
    progress: Callable[[int, float], None] | None,
) -> dict[str, float]:
    objective = Objective.parse(config.objective)
    starts = [[float(n == "log_prob_per_word") for n in names]]
    starts += [[s.weights.get(n, 0.0) for n in names] for s in start.stages] if start else []
    found = mert(
        features,
        offsets,
        objective.statistics(metrics),
        objective,
        rng=np.random.default_rng(config.seed),
        restarts=config.restarts,
        random_directions=config.random_directions,
        bags=config.bags,
        starts=[s for s in starts if any(s)],
        progress=progress,
    )
    # Scores that deviate by 1 within a list: confidence looks at their differences.
    deviation = float(within_deviation(features @ found.weights, offsets)) or 1.0
    return {n: float(w) / deviation for n, w in zip(names, found.weights, strict=True)}


def _given(tuning: Tuning, config: MertConfig) -> dict[str, Values]:
    if not config.dmsm:
        return {}
    if tuning.dmsm is None:
        raise InputError(
            "the settings ask for the DMSM's similarity, but no DMSM was given; give one, or set "
            "dmsm = false in [mert]"
        )
    return {"dmsm": tuning.dmsm}


def _ask(tuning: Tuning, mask: Mask) -> Values:
    if tuning.grounded is None:
        raise InputError(
            "the settings ask for the grounded model's score, but none was given; give one, or "
            "set grounded = false in [mert]"
        )
    return tuning.grounded(mask)


def _some(metrics: ListMetrics, mask: Mask) -> ListMetrics:
    meteor = None if metrics.meteor is None else metrics.meteor[mask]
    return ListMetrics(metrics.cider[mask], metrics.bleu[mask], meteor)
