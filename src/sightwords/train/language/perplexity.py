"""Perplexity of captions given the words detected in their images (section 6.1, Table 4).

Every token and the end of sentence are counted, words outside the vocabulary as `<unk>`, and
probabilities are normalised over all outcomes: the rules of `metrics.perplexity`, compiled.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sightwords._version import __version__
from sightwords.errors import require
from sightwords.language.maxent import MaxEnt
from sightwords.metrics.perplexity import Perplexity, perplexity
from sightwords.text.vocabulary import UNKNOWN
from sightwords.train.language.data import AttributeSets, Sentences


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
