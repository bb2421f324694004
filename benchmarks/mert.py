"""Speed and memory of Och's exact line search, beside the same search in plain Python.

    python benchmarks/mert.py

One line through 5,000 lists of 500 sentences with 16 features, corpus BLEU as objective. Plain
Python sorts the lines of each list, keeps their envelope, then sweeps over the corners; it gets
100 of the 5,000 lists, and its time is multiplied by 50.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from sightwords.train.rerank.mert import Problem
from sightwords.train.rerank.mert_line import Best, line_search
from sightwords.train.rerank.mert_objective import Objective

PYTHON_LISTS = 100


def main() -> None:
    args = arguments()
    rng = np.random.default_rng(1)
    point, direction = rng.normal(size=(2, args.features))
    if find_spec("numba"):
        search(lists(2, 2, args.features), point, direction, compiled=True)  # compile
    programs = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    problem = lists(args.images, args.sentences, args.features)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"{args.images} lists of {args.sentences}, {args.features} features, BLEU")
    times: dict[str, float] = {}
    if find_spec("numba"):
        times["numba"] = best_of(3, lambda: search(problem, point, direction, compiled=True))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"numba         {times['numba']:8.3f} s; lists and search {peak - programs:.0f} MB, "
            f"Python with numpy and numba {programs:.0f} MB"
        )
    times["numpy"] = best_of(1, lambda: search(problem, point, direction, compiled=False))
    print(f"numpy         {times['numpy']:8.3f} s")
    few = min(PYTHON_LISTS, args.images)
    start = time.perf_counter()
    found = in_python(problem, point, direction, few)
    python = (time.perf_counter() - start) * args.images / few
    print(f"plain Python  {python:8.3f} s (from {few} lists)")
    for name, seconds in times.items():
        print(f"{name} is {python / seconds:.0f} times as fast as plain Python")
    exact = search(lists(args.images, args.sentences, args.features, few), point, direction)
    print(f"best BLEU on the line, {few} lists: {exact.value:.9f}, in Python {found:.9f}")


def lists(images: int, sentences: int, features: int, some: int | None = None) -> Problem:
    """Random features and statistics; the first `some` lists of them."""
    rng = np.random.default_rng(0)
    count = images * sentences
    matrix = np.empty((features, count), dtype=np.float32)
    for row in matrix:
        row[:] = rng.standard_normal(count, dtype=np.float32)
    objective = Objective.parse("bleu")
    statistics = np.empty((count, 11), dtype=np.int16)
    statistics[:, 0] = 1
    length = rng.integers(6, 14, count, dtype=np.int16)
    statistics[:, 9], statistics[:, 10] = (
        length,
        length + rng.integers(-2, 3, count, dtype=np.int16),
    )
    for n in range(4):
        statistics[:, 5 + n] = length - n
        share = rng.random(count, dtype=np.float32) * np.float32(0.8 ** (n + 1))
        statistics[:, 1 + n] = (length - n) * share
    kept = (some or images) * sentences
    offsets = np.arange((some or images) + 1) * sentences
    return Problem(matrix[:, :kept], offsets, statistics[:kept], objective)


def search(
    problem: Problem, point: np.ndarray, direction: np.ndarray, compiled: bool | None = None
) -> Best:
    """One line search, its dot products included."""
    return line_search(
        problem.scores(point),
        problem.scores(direction),
        problem.offsets,
        problem.statistics,
        problem.objective,
        compiled=compiled,
    )


def in_python(problem: Problem, point: np.ndarray, direction: np.ndarray, few: int) -> float:
    """The same search without numpy in its loops."""
    corners: list[tuple[float, int, int]] = []
    total = [0.0] * problem.statistics.shape[1]
    rows = problem.features.T
    for image in range(few):
        low, high = int(problem.offsets[image]), int(problem.offsets[image + 1])
        lines = []
        for h in range(low, high):
            values = rows[h].tolist()
            a = sum(w * x for w, x in zip(point.tolist(), values, strict=True))
            b = sum(d * x for d, x in zip(direction.tolist(), values, strict=True))
            lines.append((b, a, h))
        hull = envelope(sorted(lines))
        total = [t + s for t, s in zip(total, problem.statistics[hull[0][2]].tolist(), strict=True)]
        corners += [(g, before, after) for g, before, after in changes(hull)]
    best = float(problem.objective.value(np.array(total)))
    for _, before, after in sorted(corners):
        old, new = problem.statistics[before].tolist(), problem.statistics[after].tolist()
        total = [t + n - o for t, o, n in zip(total, old, new, strict=True)]
        best = max(best, float(problem.objective.value(np.array(total))))
    return best


Line = tuple[float, float, int]


def envelope(lines: list[Line]) -> list[Line]:
    """Lines by rising slope -> those of the upper envelope."""
    hull: list[Line] = []
    for line in lines:
        while hull and (
            hull[-1][0] == line[0]
            or (len(hull) > 1 and meet(hull[-2], line) <= meet(hull[-2], hull[-1]))
        ):
            hull.pop()
        hull.append(line)
    return hull


def meet(one: Line, two: Line) -> float:
    return (one[1] - two[1]) / (two[0] - one[0])


def changes(hull: list[Line]) -> list[tuple[float, int, int]]:
    return [(meet(hull[i], hull[i + 1]), hull[i][2], hull[i + 1][2]) for i in range(len(hull) - 1)]


def best_of(times: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--features", type=int, default=16)
    return parser.parse_args()


if __name__ == "__main__":
    main()
