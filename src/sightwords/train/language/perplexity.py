"""Perplexity of captions given the words detected in their images (section 6.1, Table 4).

Every token is counted and the end of sentence with them, words outside the vocabulary as `<unk>`,
normalised over all outcomes: the rules of `metrics.perplexity`. `ConditionedModel` follows its
protocol, one sentence at a time in numpy; `corpus_perplexity` does the same sums compiled.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords._version import __version__
from sightwords.errors import require
from sightwords.language.features import NO_ATTRIBUTES, Attributes
from sightwords.language.maxent import MaxEnt
from sightwords.metrics.perplexity import UNKNOWN, Perplexity, perplexity
from sightwords.train.language.data import NO_SET, AttributeSets, Sentences


@dataclass(frozen=True)
class ConditionedModel:
    """A language model beside the attribute sets of images: what `sentence_perplexity` takes."""

    model: MaxEnt
    sets: AttributeSets

    @property
    def vocabulary(self) -> Container[str]:
        """The words it tells apart."""
        return self.model.vocabulary.ids

    def log_probs(self, tokens: Sequence[str], image: str | None) -> npt.NDArray[np.float64]:
        """(tokens + 1,) normalised log-probabilities, given the image's detected words."""
        row = NO_SET if image is None else self.sets.row(image)
        if row == NO_SET:
            return self.model.token_log_probs(tokens, NO_ATTRIBUTES)
        part = slice(self.sets.offsets[row], self.sets.offsets[row + 1])
        found = Attributes(self.sets.ids[part], self.sets.log_probs[part])
        return self.model.token_log_probs(tokens, found)


def corpus_perplexity(
    model: MaxEnt, sentences: Sentences, sets: AttributeSets, *, threads: int = 1
) -> Perplexity:
    """Perplexity of encoded sentences; needs numba."""
    kernels = require("sightwords.language.kernels", extra="fast", purpose="perplexity")
    text, weights, shape = sentences.arrays(), model.weights(), model.shape
    bounds = np.linspace(0, len(sentences), threads + 1).astype(np.int64)

    def part(number: int) -> float:
        run = (bounds[number], bounds[number + 1])
        return float(kernels.token_log_probs(run, text, sets.arrays(), weights, shape).sum())

    with ThreadPoolExecutor(threads) as pool:
        log_prob = sum(pool.map(part, range(threads)))
    count = len(sentences)
    return Perplexity(
        value=perplexity(log_prob, len(sentences.tokens)),
        log_prob=log_prob,
        tokens=len(sentences.tokens),
        unknown=int((sentences.tokens == model.unknown_id).sum()),
        sentences=count,
        signature=f"perplexity|oov:{UNKNOWN}|eos:counted|sentences:{count}|version:{__version__}",
    )
