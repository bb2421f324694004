"""Perplexity (section 6.1): how surprised a language model is by people's captions.

`LanguageModel`, sentences -> `Perplexity`. Out-of-vocabulary policy: every token of every sentence
is counted, and the end of sentence with them; a word outside the vocabulary is scored as `<unk>`
and never dropped, so that a smaller vocabulary cannot look better by leaving out the hard words.
Its `<unk>` then stands for more words, though: compare perplexities at one vocabulary only, and
read `unknown` beside them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sightwords._version import __version__
from sightwords.errors import ScoreError
from sightwords.metrics.ngrams import Tokens

UNKNOWN = "<unk>"


class LanguageModel(Protocol):
    """What perplexity needs of a model."""

    @property
    def vocabulary(self) -> Container[str]:
        """The words it tells apart."""

    def log_probs(self, tokens: Sequence[str], image: str | None) -> npt.NDArray[np.floating]:
        """(len(tokens) + 1,) natural logarithms, normalised over the vocabulary.

        Each is of a token given those before it, the last one of the end of sentence. `image` is
        the id of what the sentence describes, for models that condition on detected words.
        """


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Perplexity over a set of sentences."""

    value: float
    log_prob: float
    """Sum of natural logarithms."""
    tokens: int
    """Words and ends of sentence."""
    unknown: int
    """Words scored as `<unk>`."""
    sentences: int
    signature: str


def perplexity(log_prob_sum: float, tokens: int) -> float:
    """The exponential of the mean surprise: exp(-log_prob_sum / tokens).

    >>> round(perplexity(4 * math.log(0.1), 4), 6)
    10.0
    """
    if tokens < 1:
        raise ScoreError("perplexity of no tokens is undefined; give at least one sentence")
    if math.isnan(log_prob_sum) or log_prob_sum > 0:
        raise ScoreError(
            f"the log-probabilities sum to {log_prob_sum}, expected a number of at most 0; "
            "perplexity needs normalised probabilities"
        )
    try:
        return math.exp(-log_prob_sum / tokens)
    except OverflowError:
        return math.inf


def sentence_perplexity(
    model: LanguageModel, sentences: Iterable[tuple[str | None, Tokens]]
) -> Perplexity:
    """Perplexity of (image id, tokens) pairs under a model; the id may be None."""
    log_prob, tokens, unknown, count = 0.0, 0, 0, 0
    for image, sentence in sentences:
        known = [word if word in model.vocabulary else UNKNOWN for word in sentence]
        log_prob += _sentence_log_prob(model, known, image)
        tokens += len(known) + 1
        unknown += sum(word not in model.vocabulary for word in sentence)
        count += 1
    return Perplexity(
        value=perplexity(log_prob, tokens),
        log_prob=log_prob,
        tokens=tokens,
        unknown=unknown,
        sentences=count,
        signature=f"perplexity|oov:{UNKNOWN}|eos:counted|sentences:{count}|version:{__version__}",
    )


def _sentence_log_prob(model: LanguageModel, tokens: Sequence[str], image: str | None) -> float:
    found = np.asarray(model.log_probs(tokens, image), dtype=np.float64)
    if found.shape != (len(tokens) + 1,):
        raise ScoreError(
            f"the language model gave log-probabilities of shape {found.shape} for "
            f"{len(tokens)} tokens; expected one a token and one for the end of sentence"
        )
    if np.isnan(found).any() or (found > 0).any():
        raise ScoreError(
            f"the language model's log-probabilities range up to {found.max()}; "
            "expected numbers of at most 0"
        )
    return float(found.sum())
