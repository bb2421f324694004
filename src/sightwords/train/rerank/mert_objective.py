"""What MERT maximises: corpus BLEU, CIDEr-D, METEOR, or a weighted sum of them.

An objective is a function of sums over images: each hypothesis has a row of statistics (C,), the
rows of the chosen hypotheses add up, and the sum has a value. CIDEr-D and METEOR are means of
sentences; BLEU is that of the corpus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.config.rerank import objective_weights
from sightwords.errors import ConfigError, InputError
from sightwords.metrics.bleu import from_columns
from sightwords.train.rerank.list_metrics import ListMetrics

METRICS = ("bleu", "cider", "meteor")
Floats = npt.NDArray[np.float64]
Statistics = npt.NDArray[Any]
"""float32, or int16 where BLEU is alone, which halves the memory."""


@dataclass(frozen=True)
class Objective:
    """A weighted sum of metrics, such as `cider+0.5bleu`."""

    weights: Mapping[str, float]
    """By metric, all above 0."""

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read `METRIC`, or `W METRIC + W METRIC` without spaces.

        >>> Objective.parse("cider+0.5bleu").weights
        {'cider': 1.0, 'bleu': 0.5}
        """
        weights = objective_weights(text)
        if weights is None:
            raise ConfigError(
                f"objective {text!r}; expected metrics ({', '.join(METRICS)}), each once, with "
                "weights above 0 in front if wanted, such as 'cider+0.5bleu'"
            )
        return cls(weights)

    def __str__(self) -> str:
        return "+".join(f"{'' if w == 1 else f'{w:g}'}{name}" for name, w in self.weights.items())

    def statistics(self, metrics: ListMetrics) -> Statistics:
        """(H, C): a column that counts images, one each for CIDEr and METEOR, ten for BLEU."""
        columns: list[npt.NDArray[Any]] = [np.ones((len(metrics.cider), 1), dtype=np.int16)]
        for name in self.weights:
            found = {"cider": metrics.cider, "meteor": metrics.meteor, "bleu": metrics.bleu}[name]
            if found is None:
                raise InputError(
                    f"objective {self} needs METEOR of every hypothesis; measure it first"
                )
            columns.append(found.reshape(len(found), -1))
        return np.hstack(columns)

    def value(self, sums: Floats) -> Floats:
        """(..., C) sums of statistics -> (...) values."""
        images = np.maximum(sums[..., 0], 1e-9)
        total = np.zeros(sums.shape[:-1])
        place = 1
        for name, weight in self.weights.items():
            if name == "bleu":
                total += weight * from_columns(sums[..., place : place + 10])[..., 3]
                place += 10
            else:
                total += weight * sums[..., place] / images
                place += 1
        return total
