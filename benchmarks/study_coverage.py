"""How often error bars cover the truth, and planned studies find a difference.

    python benchmarks/study_coverage.py [--studies 10000] [--processes 2]

In simulated studies, each pair has its own probabilities of better, same and worse (a Dirichlet
distribution with the given kappa), five judges vote, and `study.results.statistics` counts as for
people. The truth is the expected share, known exactly from the model. A bar covers the truth if its
distance from the mean is at most the margin. The bar of the paper is the larger distance of the
5th and 95th percentile, so it should cover in at least 90 %. In the last scenario, each judge tends
towards or away from "same" by a normal deviate and judges 20 pairs; resampling pairs cannot see
that these votes are correlated.

Nothing here is a human result: every vote is simulated.
"""

from __future__ import annotations

import argparse
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from sightwords.study.results.power import expected_outcome, plan, votes_for
from sightwords.study.results.statistics import majority, shares

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scenario:
    """A truth to simulate studies of."""

    name: str
    target: tuple[float, float, float]
    """Majority shares of better, same, worse."""
    pairs: int
    kappa: float
    lean: float = 0.0
    """Deviation of the judges' inclination to say `same`, in log-odds."""


PAPER_BEST = (0.078, 0.262, 0.66)
PAPER_BASELINE = (0.024, 0.099, 0.877)
SCENARIOS = (
    Scenario("the paper's best system, 1000 pairs", PAPER_BEST, 1000, 0.4),
    Scenario("the paper's best system, 100 pairs", PAPER_BEST, 100, 0.4),
    Scenario("the paper's baseline, 1000 pairs", PAPER_BASELINE, 1000, 0.4),
    Scenario("the paper's baseline, 100 pairs", PAPER_BASELINE, 100, 0.4),
    Scenario("best system, judges hardly agree, 1000 pairs", PAPER_BEST, 1000, 0.1),
    Scenario("best system, judges lean (deviation 1), 1000 pairs", PAPER_BEST, 1000, 0.4, 1.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    start = time.perf_counter()
    print(f"{platform.machine()}, numpy {np.__version__}; {options.studies} simulated studies each")
    print(f"\n{'% of studies whose bar covers the truth':52}{'same':>8}{'better':>8}{'s.o.b.':>8}")
    with ProcessPoolExecutor(options.processes) as pool:
        for number, scenario in enumerate(SCENARIOS):
            mean = votes_for(scenario.target, kappa=scenario.kappa)
            truth = expected_outcome(mean, 5, scenario.kappa)
            if scenario.lean:
                truth = leaning_truth(scenario, mean)
            sizes = [len(part) for part in np.array_split(range(options.studies), 40)]
            jobs = [
                pool.submit(covered, scenario, mean, truth, size, [number, part])
                for part, size in enumerate(sizes)
                if size
            ]
            rates = np.sum([job.result() for job in jobs], axis=0) / options.studies
            print(f"{scenario.name:52}" + "".join(f"{100 * rate:8.1f}" for rate in rates))
    error = 100 * np.sqrt(0.9 * 0.1 / options.studies)
    print(f"(standard error about {error:.1f}; {time.perf_counter() - start:.0f} s)")
    check_power(options.studies)


def covered(
    scenario: Scenario, mean: FloatArray, truth: FloatArray, studies: int, seed: list[int]
) -> list[int]:
    """The number of studies whose bars cover: same, better, same or better."""
    rng = np.random.default_rng(seed)
    wanted = np.array([truth[1], truth[0], truth[0] + truth[1]])
    hits = np.zeros(3, dtype=np.int64)
    for _ in range(studies):
        found = shares(simulate(scenario, mean, rng), rng=rng)
        bars = (found.same, found.better, found.same_or_better)
        hits += [abs(b.mean - t) <= b.margin + 1e-12 for b, t in zip(bars, wanted, strict=True)]
    return [int(hit) for hit in hits]


def simulate(
    scenario: Scenario, mean: FloatArray, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """(pairs, 3) votes of one study."""
    chances = rng.dirichlet(np.maximum(mean * (1 / scenario.kappa - 1), 1e-9), scenario.pairs)
    if not scenario.lean:
        return rng.multinomial(5, chances)
    judges = rng.permutation(np.repeat(np.arange(scenario.pairs // 4), 20)).reshape(-1, 5)
    leaning = rng.normal(scale=scenario.lean, size=scenario.pairs // 4)[judges]
    return leaning_votes(chances, leaning, rng)


def leaning_votes(
    chances: FloatArray, leaning: FloatArray, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Votes when judge j says `same` with log-odds raised by `leaning` (pairs, 5)."""
    logits = np.log(np.maximum(chances, 1e-300))[:, None, :] + np.zeros((*leaning.shape, 3))
    logits[..., 1] += leaning
    said = np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)
    return np.stack([(said == answer).sum(axis=1) for answer in range(3)], axis=1)


def leaning_truth(scenario: Scenario, mean: FloatArray) -> FloatArray:
    """Expected shares over pairs and judges, from two million pairs with judges of their own."""
    rng = np.random.default_rng(12345)
    total = np.zeros(3)
    for _ in range(20):
        chances = rng.dirichlet(mean * (1 / scenario.kappa - 1), 100_000)
        leaning = rng.normal(scale=scenario.lean, size=(100_000, 5))
        total += majority(leaning_votes(chances, leaning, rng)).mean(axis=0)
    return total / 20


def check_power(studies: int) -> None:
    """Carry out studies of the planned size: how often does the test find the difference?"""
    print("\nstudies of the size that `sightwords study power` names, 80 % asked for")
    for points, judges in ((5, 5), (10, 5), (10, 3)):
        planned = plan(points / 100, judges_per_pair=judges)
        rng = np.random.default_rng([points, judges])
        better, same, worse = PAPER_BEST
        scale = (better + same + points / 100) / (better + same)
        targets = (PAPER_BEST, (better * scale, same * scale, worse - points / 100))
        means = [votes_for(target, kappa=0.4) for target in targets]
        found = sum(
            test([draw(mean, planned.pairs, judges, rng) for mean in means]) for _ in range(studies)
        )
        same_system = sum(
            test([draw(means[0], planned.pairs, judges, rng) for _ in range(2)])
            for _ in range(studies)
        )
        print(
            f"{points} points, {judges} judges, {planned.pairs} pairs each: found in "
            f"{100 * found / studies:.1f} %; where there is none, in "
            f"{100 * same_system / studies:.1f} %"
        )


def draw(mean: FloatArray, pairs: int, judges: int, rng: np.random.Generator) -> FloatArray:
    """(pairs,) same-or-better outcomes of one study."""
    chances = rng.dirichlet(mean * (1 / 0.4 - 1), pairs)
    outcome: FloatArray = majority(rng.multinomial(judges, chances))[:, :2].sum(axis=1)
    return outcome


def test(outcomes: list[FloatArray]) -> bool:
    """Two-sided z-test of two studies at 5 %."""
    first, second = outcomes
    error = np.sqrt(first.var() / len(first) + second.var() / len(second))
    return bool(abs(first.mean() - second.mean()) > NormalDist().inv_cdf(0.975) * error)


if __name__ == "__main__":
    main()
