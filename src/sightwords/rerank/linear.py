"""Section 5: features of an M-best list, weights of MERT -> the candidates in order.

One stage in the paper: every candidate is scored by a weighted sum of Table 2. Deviation, on where
the weights have a second stage: the best `shortlist` candidates of the first are scored again with
features that are too expensive for all of them, such as the grounded model's.

`weights.json`: {"format": 1, "shortlist": 64, "stages": [{"features": {NAME: WEIGHT}}, ...],
"objective": "cider", "values": {"tuning": {"cider": 1.1, ...}, "held_out": {...}}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError
from sightwords.files import write_text
from sightwords.json_reader import Reader
from sightwords.rerank.features import NAMES, Candidates, sentence_features
from sightwords.sealed import Sealed, folder_of
from sightwords.types import FloatArray

FORMAT = 1
WEIGHTS_NAME = "weights.json"
SHORTLIST = 64
MOST_SHORTLISTED = 2000
LARGEST_WEIGHT = 1e6

Ints = npt.NDArray[np.int64]
Given = Mapping[str, Callable[[Ints], npt.ArrayLike]]
"""By feature: indices of candidates -> their values. Networks run only where needed."""


@dataclass(frozen=True)
class Stage:
    """A weighted sum of features."""

    weights: Mapping[str, float]
    """By feature, in the order of the matrix's columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """The features."""
        return tuple(self.weights)

    def scores(self, features: FloatArray) -> npt.NDArray[np.float64]:
        """(M, F) -> (M,), summed in double precision and in order: the same everywhere."""
        total = np.zeros(len(features))
        for column, weight in zip(features.T, self.weights.values(), strict=True):
            total += weight * column.astype(np.float64)
        return total


@dataclass(frozen=True)
class Ranking:
    """M candidates in order, with the features and scores of the first K."""

    order: Ints
    """(M,) places of the candidates, best first."""
    names: tuple[str, ...]
    """The features of the last stage."""
    features: FloatArray
    """(K, F) of the first K, in order."""
    scores: npt.NDArray[np.float64]
    """(K,) not rising."""


@dataclass(frozen=True)
class Ranker:
    """The weights of one or two stages."""

    stages: tuple[Stage, ...]
    shortlist: int = SHORTLIST
    """Candidates that reach the second stage."""
    objective: str = ""
    """What MERT maximised."""
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By set of lists (`tuning`, `held_out`), by metric."""

    def needs(self, name: str) -> bool:
        """Whether any stage weighs this feature."""
        return any(name in stage.weights for stage in self.stages)

    def rank(self, candidates: Candidates, given: Given) -> Ranking:
        """Put the candidates in order; equal scores leave the likelier one first."""
        first = self.stages[0]
        every = np.arange(len(candidates))
        later = [n for s in self.stages[1:] for n in s.names if n not in given]
        names = tuple(dict.fromkeys([*first.names, *later]))
        values = {name: given[name](every) for name in first.names if name in given}
        features = sentence_features(candidates, names, values)
        scores = first.scores(features[:, : len(first.names)])
        order = np.argsort(-scores, kind="stable")
        if len(self.stages) == 1:
            shown = features[order][:, : len(first.names)]
            return _finite(Ranking(order, first.names, shown, scores[order]))
        return self._second(order, names, features, given)

    def _second(
        self, order: Ints, names: Sequence[str], features: FloatArray, given: Given
    ) -> Ranking:
        stage = self.stages[1]
        short = np.sort(order[: self.shortlist])
        columns = [
            features[short, names.index(n)] if n in names else np.asarray(given[n](short))
            for n in stage.names
        ]
        matrix = np.stack(columns, axis=1).astype(np.float32)
        scores = stage.scores(matrix)
        best = np.argsort(-scores, kind="stable")
        whole = np.concatenate([short[best], order[self.shortlist :]])
        return _finite(Ranking(whole, stage.names, matrix[best], scores[best]))

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write `weights.json`."""
        path = Path(directory) / WEIGHTS_NAME
        document = {
            "format": FORMAT,
            "objective": self.objective,
            "shortlist": self.shortlist,
            "stages": [{"features": dict(stage.weights)} for stage in self.stages],
            "values": {name: dict(values) for name, values in self.values.items()},
        }
        write_text(path, json.dumps(document, indent=1) + "\n")
        return path

    @classmethod
    def load(cls, directory: str | os.PathLike[str] | Sealed) -> Ranker:
        """Read `weights.json`."""
        path = folder_of(directory) / WEIGHTS_NAME
        if not path.is_file():
            raise BundleError(f"{path}: no such file; sightwords train mert makes it")
        reader = Reader.open(path, newest=FORMAT)
        stages = reader.take("stages", list)
        if len(stages) not in (1, 2) or not all(isinstance(s, dict) for s in stages):
            raise BundleError(f"{path}: stages is {stages!r:.60}; expected one or two objects")
        values = reader.take("values", dict)
        return cls(
            tuple(_stage(Reader(f"{path}: stages[{i}]", s)) for i, s in enumerate(stages)),
            reader.count("shortlist", MOST_SHORTLISTED),
            reader.take("objective", str),
            {name: dict(of) for name, of in values.items() if isinstance(of, dict)},
        )


def _finite(ranking: Ranking) -> Ranking:
    """Refuse scores that overflow: networks of a bundle may give huge numbers."""
    if not (np.isfinite(ranking.scores).all() and np.isfinite(ranking.features).all()):
        raise BundleError(
            "re-ranking gave NaN or infinity; the weights of a network are damaged: take the "
            "bundle as it was sealed"
        )
    return ranking


def _stage(reader: Reader) -> Stage:
    weights = reader.table("features")
    found = {name: weights.take(name, float) for name in weights.values}
    for name, weight in found.items():
        if name not in NAMES or abs(weight) > LARGEST_WEIGHT:
            raise BundleError(
                f"{weights.where}: {name:.60} = {weight}; expected finite weights of "
                f"{', '.join(NAMES)}"
            )
    if not found:
        raise BundleError(f"{weights.where} is empty; expected at least one feature")
    return Stage(found)
