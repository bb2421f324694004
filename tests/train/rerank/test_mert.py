"""Och's line search against brute force and grids; MERT on lists with a known best weight."""

from __future__ import annotations

import importlib.util
import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.errors import ConfigError, InputError
from sightwords.metrics.bleu import bleu, from_columns
from sightwords.metrics.score import Comparison
from sightwords.train.rerank.list_metrics import ListMetrics
from sightwords.train.rerank.lists import Lists, starts_of
from sightwords.train.rerank.mert import Problem, chosen, climb, mert
from sightwords.train.rerank.mert_data import list_features, refuse_test_images
from sightwords.train.rerank.mert_line import envelopes, line_search
from sightwords.train.rerank.mert_objective import Objective

BACKENDS = [False, True] if importlib.util.find_spec("numba") else [False]
Floats = npt.NDArray[np.float64]
CIDER = Objective.parse("cider")


def random_lists(
    rng: np.random.Generator, images: int, most: int, *, whole: bool = False
) -> tuple[Floats, Floats, npt.NDArray[np.int64], ListMetrics]:
    """Lines and metrics; whole numbers make many lines meet in one point, or coincide."""
    offsets = starts_of(rng.integers(1, most + 1, images))
    count = int(offsets[-1])
    draw = (
        (lambda: rng.integers(-2, 3, count).astype(float))
        if whole
        else (lambda: rng.normal(size=count))
    )
    correct = rng.integers(0, 4, (count, 4)).cumsum(axis=1)[:, ::-1]
    total = correct + rng.integers(0, 4, (count, 1))
    lengths = total[:, :1], total[:, :1] + rng.integers(-2, 3, (count, 1))
    bleu_rows = np.hstack([correct, total, *lengths]).astype(np.int16)
    metrics = ListMetrics(
        (rng.integers(0, 8, count) / 4).astype(np.float32), bleu_rows,
        (rng.integers(0, 8, count) / 8).astype(np.float32),
    )  # fmt: skip
    return draw(), draw(), offsets, metrics


def some_lists(split: str) -> Lists:
    """Three images of two sentences each."""
    return Lists(
        ids=np.array(["1", "2", "3"]),
        splits=np.array([split] * 3),
        words=("a", "dog"),
        word_offsets=np.arange(4),
        word_ids=np.ones(3, dtype=np.uint16),
        word_probs=np.full(3, 0.5, dtype=np.float32),
        word_precisions=np.full(3, 0.5, dtype=np.float32),
        offsets=np.arange(4) * 2,
        token_offsets=np.arange(7),
        tokens=np.array([0, 1] * 3, dtype=np.uint16),
        log_probs=np.array([-1, -2] * 3, dtype=np.float32),
        coverage=np.zeros(3, dtype=np.uint8),
    )


def value_at(
    gamma: float, a: Floats, b: Floats, offsets: npt.NDArray[np.int64],
    statistics: npt.NDArray[np.float32], objective: Objective,
) -> float:  # fmt: skip
    rows = statistics[chosen(a + gamma * b, offsets)]
    return float(objective.value(rows.astype(np.float64).sum(axis=0)))


@pytest.mark.parametrize("compiled", BACKENDS)
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    images=st.integers(1, 6),
    most=st.integers(1, 8),
    whole=st.booleans(),
    text=st.sampled_from(["cider", "bleu", "meteor", "cider+0.5bleu", "0.3meteor+2bleu+cider"]),
)
def test_no_point_of_a_fine_grid_is_better(
    compiled: bool, seed: int, images: int, most: int, whole: bool, text: str
) -> None:
    rng = np.random.default_rng(seed)
    a, b, offsets, metrics = random_lists(rng, images, most, whole=whole)
    objective = Objective.parse(text)
    statistics = objective.statistics(metrics)
    best = line_search(a, b, offsets, statistics, objective, compiled=compiled)
    # An irrational step keeps the grid off the corners, where ties decide.
    grid = np.arange(-200, 201) * math.pi / 61 + 1e-4
    values = [value_at(g, a, b, offsets, statistics, objective) for g in [*grid, -1e4, 1e4]]
    assert best.value >= max(values) - 1e-9
    assert value_at(best.gamma, a, b, offsets, statistics, objective) == pytest.approx(best.value)


@pytest.mark.parametrize("compiled", BACKENDS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), images=st.integers(1, 3), most=st.integers(1, 5))
def test_equals_brute_force_over_all_crossings(
    compiled: bool, seed: int, images: int, most: int
) -> None:
    """Between neighbouring crossings of any two lines nothing changes: try each such interval."""
    rng = np.random.default_rng(seed)
    a, b, offsets, metrics = random_lists(rng, images, most)
    statistics = CIDER.statistics(metrics)
    crossings = sorted(
        (a[i] - a[j]) / (b[j] - b[i])
        for low, high in pairwise(offsets.tolist())
        for i in range(low, high)
        for j in range(low, i)
    )
    edges = [-1e6, *crossings, 1e6]
    middles = [(x + y) / 2 for x, y in pairwise(edges)]
    brute = max(value_at(g, a, b, offsets, statistics, CIDER) for g in middles)
    best = line_search(a, b, offsets, statistics, CIDER, compiled=compiled)
    assert best.value == pytest.approx(brute, abs=1e-9)


@pytest.mark.skipif(len(BACKENDS) < 2, reason="numba is not installed")
def test_numpy_and_numba_walk_the_same_envelopes() -> None:
    for whole in (False, True):
        a, b, offsets, _ = random_lists(np.random.default_rng(5), 50, 40, whole=whole)
        one, two = (envelopes(a, b, offsets, compiled=c) for c in (False, True))
        assert one.first.tolist() == two.first.tolist()
        key = np.lexsort((one.gammas, np.searchsorted(offsets, one.before, side="right")))
        assert one.gammas[key].tolist() == two.gammas.tolist()
        assert one.after[key].tolist() == two.after.tolist()


@pytest.mark.parametrize("compiled", BACKENDS)
def test_lines_that_never_cross(compiled: bool) -> None:
    """Identical candidates, one candidate, a feature that is constant: the line has one value."""
    a, b = np.array([1.0, 1.0, 1.0, 0.0]), np.zeros(4)
    offsets = np.array([0, 3, 4])
    statistics = np.array([[1, 0.5], [1, 9], [1, 9], [1, 0.25]], dtype=np.float32)
    best = line_search(a, b, offsets, statistics, CIDER, compiled=compiled)
    assert (best.gamma, best.value) == (0.0, 0.375)  # of equals the first


def test_statistics_sum_to_corpus_bleu_exactly() -> None:
    words = ["a", "dog", "cat", "runs", "sits", "on", "the", "grass"]
    rng = np.random.default_rng(1)

    def sentence() -> tuple[str, ...]:
        return tuple(rng.choice(words, rng.integers(1, 9)).tolist())

    pairs = Comparison(
        tuple(map(str, range(30))),
        tuple(sentence() for _ in range(30)),
        tuple(tuple(sentence() for _ in range(3)) for _ in range(30)),
    )
    fourth = bleu(pairs)[3]
    assert fourth.sums is not None
    rows = fourth.sums.rows.astype(np.int16)
    zeros = np.zeros(30, dtype=np.float32)
    objective = Objective.parse("bleu")
    sums = objective.statistics(ListMetrics(zeros, rows)).astype(np.float64).sum(axis=0)
    assert objective.value(sums) == fourth.value
    assert from_columns(sums[1:])[3] == fourth.value


def planted(seed: int, images: int = 60) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    offsets = starts_of(np.full(images, 12))
    return rng.normal(size=(images * 12, 4)).astype(np.float32), offsets


def test_mert_finds_planted_weights() -> None:
    """CIDEr is a function of two of four features: MERT chooses what that function would."""
    features, offsets = planted(0)
    features[:, 3] = 7.0  # constant: no weight
    worth = features[:, 0] - 2 * features[:, 1]
    metrics = ListMetrics((worth - worth.min()).astype(np.float32), np.zeros((720, 10), np.int16))
    found = mert(
        features, offsets, CIDER.statistics(metrics), CIDER,
        rng=np.random.default_rng(0), restarts=3,
    )  # fmt: skip
    oracle = np.maximum.reduceat(metrics.cider, offsets[:-1]).mean()
    assert found.value == pytest.approx(oracle, rel=2e-3)
    assert found.weights[3] == 0
    assert found.weights[1] / found.weights[0] == pytest.approx(-2, rel=0.15)
    assert len(found.starts) == 3


def test_mert_is_reproducible_and_starts_where_told() -> None:
    features, offsets = planted(1)
    cider = np.random.default_rng(2).random(720).astype(np.float32)
    statistics = CIDER.statistics(ListMetrics(cider, np.zeros((720, 10), np.int16)))

    def run(**options: object) -> object:
        return mert(
            features, offsets, statistics, CIDER, rng=np.random.default_rng(3), **options,  # type: ignore[arg-type]
        )  # fmt: skip

    one, two = run(restarts=2), run(restarts=2)
    assert str(one) == str(two)
    told = mert(
        features, offsets, statistics, CIDER,
        rng=np.random.default_rng(3), restarts=0, starts=[[1.0, 0, 0, 0]],
    )  # fmt: skip
    before = cider[chosen(features[:, 0], offsets)].mean()
    assert told.value >= before


def test_bags_average_what_samples_ask_for() -> None:
    """Weights of bootstrap samples lie around those of all images; their mean is no worse a guide
    to the feature that matters."""
    features, offsets = planted(0)
    worth = features[:, 0] - 2 * features[:, 1]
    metrics = ListMetrics((worth - worth.min()).astype(np.float32), np.zeros((720, 10), np.int16))
    found = mert(
        features, offsets, CIDER.statistics(metrics), CIDER,
        rng=np.random.default_rng(0), restarts=1, bags=5,
    )  # fmt: skip
    assert found.weights[1] / found.weights[0] == pytest.approx(-2, rel=0.1)
    assert found.value == pytest.approx(
        metrics.cider[chosen(features @ found.weights, offsets)].mean(), rel=1e-6
    )
    # Where nothing is to be learned the mean is worth less than what fits all images best.
    noise = np.random.default_rng(5).random(720).astype(np.float32)
    statistics = CIDER.statistics(ListMetrics(noise, np.zeros((720, 10), np.int16)))
    fitted, bagged = (
        mert(features, offsets, statistics, CIDER, rng=np.random.default_rng(0), restarts=1, bags=n)
        for n in (0, 3)
    )
    own = noise[chosen(features @ bagged.weights, offsets)].mean()
    assert bagged.value == pytest.approx(own, rel=1e-6)
    assert bagged.value < fitted.value


def test_an_image_counts_as_often_as_it_was_drawn() -> None:
    """A bootstrap sample with weights equals the sample written out."""
    rng = np.random.default_rng(8)
    a, b, offsets, metrics = random_lists(rng, 4, 6)
    statistics = CIDER.statistics(metrics)
    times = np.array([2.0, 0.0, 1.0, 1.0])
    rows = [np.arange(offsets[i], offsets[i + 1]) for i in (0, 0, 2, 3)]
    every = np.concatenate(rows)
    written = line_search(
        a[every], b[every], starts_of(np.array([len(r) for r in rows])), statistics[every], CIDER
    )
    weighted = line_search(a, b, offsets, statistics, CIDER, image_weights=times)
    assert weighted.value == pytest.approx(written.value)


def test_climbing_never_loses() -> None:
    features, offsets = planted(4)
    cider = np.random.default_rng(5).random(720).astype(np.float32)
    statistics = CIDER.statistics(ListMetrics(cider, np.zeros((720, 10), np.int16)))
    problem = Problem(np.ascontiguousarray(features.T), offsets, statistics, CIDER)
    start = np.array([1.0, -1.0, 0.5, 0.0])
    value, weights = climb(problem, start, rng=np.random.default_rng(0), random_directions=2)
    assert value >= problem.value(start)
    assert value == problem.value(weights)


def test_bad_features() -> None:
    features, offsets = planted(6)
    statistics = np.ones((720, 2), dtype=np.float32)
    features[5, 2] = math.inf
    with pytest.raises(InputError, match="feature number 3 has values that are not finite"):
        mert(features, offsets, statistics, CIDER, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="every feature is constant"):
        mert(
            np.ones((720, 2), np.float32), offsets, statistics, CIDER, rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("text", ["spice", "cider+cider", "0cider", ".cider", "", "cider+"])
def test_objectives_that_make_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match="objective"):
        Objective.parse(text)


def test_objective_as_text() -> None:
    assert str(Objective.parse("cider + 0.5bleu")) == "cider+0.5bleu"
    metrics = ListMetrics(np.zeros(1, np.float32), np.zeros((1, 10), np.int16))
    with pytest.raises(InputError, match="needs METEOR"):
        Objective.parse("meteor").statistics(metrics)


def test_test_images_are_refused() -> None:
    refuse_test_images(some_lists("val"))
    with pytest.raises(InputError, match="3 of 3 tuning images are test images, the first '1'"):
        refuse_test_images(some_lists("test"))


def test_scores_of_other_lists_are_refused() -> None:
    lists = some_lists("val")
    with pytest.raises(InputError, match="5 values of 'dmsm' for 6 sentences"):
        list_features(lists, ("dmsm",), {"dmsm": np.zeros(5, np.float32)})


def test_scouts_find_what_all_starts_would(monkeypatch: pytest.MonkeyPatch) -> None:
    features, offsets = planted(7)
    worth = features[:, 0] - 2 * features[:, 1]
    metrics = ListMetrics((worth - worth.min()).astype(np.float32), np.zeros((720, 10), np.int16))
    monkeypatch.setattr("sightwords.train.rerank.mert.SCOUTED", 20)
    found = mert(
        features, offsets, CIDER.statistics(metrics), CIDER,
        rng=np.random.default_rng(0), restarts=6,
    )  # fmt: skip
    oracle = np.maximum.reduceat(metrics.cider, offsets[:-1]).mean()
    assert found.value == pytest.approx(oracle, rel=2e-3)
    assert len(found.starts) == 2
