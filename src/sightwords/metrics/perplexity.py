"""Perplexity (section 6.1): how surprised a language model is by people's captions.

Every token of every sentence is counted, and the end of sentence with them. A word outside the
vocabulary is scored as `<unk>` and never dropped, so that a smaller vocabulary cannot look better
by leaving out the hard words. Its `<unk>` then stands for more words, though: compare perplexities
at one vocabulary only, and read `unknown` beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sightwords.errors import ScoreError


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
