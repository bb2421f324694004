"""Section 4.2 in one call: DetectedWords -> MBest.

Generator.load(directory)(words)                           as a stage of the pipeline
Generator.load(directory).sentences({"dog": 0.9, ...})     from words alone, with constraints
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal, get_args

from sightwords.config import GenerationConfig
from sightwords.errors import InputError
from sightwords.language.beam import search
from sightwords.language.constraints import Constraints, pose
from sightwords.language.extend import Extensions
from sightwords.language.extend_dense import DenseExtensions
from sightwords.language.maxent import MaxEnt
from sightwords.language.mbest import Generation, m_best
from sightwords.language.paths import Extend
from sightwords.sealed import Sealed
from sightwords.types import DetectedWords, MBest

logger = logging.getLogger(__name__)

Backend = Literal["auto", "numpy", "numba"]


@dataclass(frozen=True)
class Generator:
    """A language model, ready to search: call it with detected words."""

    model: MaxEnt
    config: GenerationConfig
    extend: Extend
    constraints: Constraints

    @classmethod
    def of(
        cls,
        model: MaxEnt,
        config: GenerationConfig | None = None,
        *,
        constraints: Constraints | None = None,
        backend: Backend = "auto",
    ) -> Generator:
        """Prepare a model for searching; with numba this also loads or compiles its code.

        `auto` takes numba where it is installed and numpy otherwise; both give the same sentences.
        A log-bilinear model is always searched by `DenseExtensions`.
        """
        chosen = config or GenerationConfig()
        extend = _extender(model, chosen, backend)
        return cls(model, chosen, extend, constraints or Constraints())

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike[str] | Sealed,
        config: GenerationConfig | None = None,
        *,
        constraints: Constraints | None = None,
        backend: Backend = "auto",
    ) -> Generator:
        """Load a language model's directory and prepare it."""
        model = MaxEnt.load(directory)
        return cls.of(model, config, constraints=constraints, backend=backend)

    def with_constraints(self, constraints: Constraints) -> Generator:
        """The same search under other constraints, whose words are checked at once."""
        any_word = {self.model.vocabulary.words[0]: 1.0}
        pose(
            any_word,
            self.model.vocabulary,
            constraints=constraints,
            maximum_length=self.config.maximum_length,
        )
        return replace(self, constraints=constraints)

    def __call__(self, words: DetectedWords) -> MBest:
        """The M-best sentences of one image; a constraint that cannot be met is logged."""
        found = self.sentences({word.word: word.prob for word in words.words})
        for unmet in found.unmet:
            logger.warning("no sentence meets: %s", unmet)
        return found.m_best

    def sentences(
        self, probs: Mapping[str, float], *, constraints: Constraints | None = None
    ) -> Generation:
        """The M-best sentences of words with their probabilities, and what could not be met."""
        asked = constraints or self.constraints
        problem = pose(
            probs,
            self.model.vocabulary,
            constraints=asked,
            maximum_length=self.config.maximum_length,
        )
        completed = search(self.extend, problem, width=self.config.beam_width)
        if not completed:
            raise InputError("constraints: every possible first word is forbidden; allow some")
        return m_best(
            completed,
            problem,
            self.model.words,
            m=self.config.m_best,
            coverage=self.config.coverage,
        )


def _extender(model: MaxEnt, config: GenerationConfig, backend: Backend) -> Extend:
    if backend not in get_args(Backend):
        raise InputError(f"backend is {backend!r}; expected {', '.join(get_args(Backend))}")
    if model.log_bilinear is not None:
        if backend == "numba":
            raise InputError("backend 'numba' cannot search a log-bilinear model; use 'auto'")
        return DenseExtensions.of(model, frequent_words=config.frequent_words)
    extensions = Extensions.of(model, frequent_words=config.frequent_words)
    if backend == "numba" or (backend == "auto" and find_spec("numba") is not None):
        from sightwords.language.extend_numba import NumbaExtensions

        return NumbaExtensions.of(extensions)
    return extensions
