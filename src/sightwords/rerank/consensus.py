"""Section 5, beyond the paper: how well a candidate agrees with the other candidates.

Minimum Bayes risk (Kumar and Byrne 2004) in its linear form (Tromble et al. 2008): with posterior
probabilities p(y') of the candidates, the expected cosine of a candidate's n-gram counts with those
of all others needs no pairs, only the mean of all vectors:

    agreement_n(y) = sum of m(g) over the n-grams g of y / sqrt(n-grams of y)
    m(g)           = sum over y' of p(y') count of g in y' / sqrt(n-grams of y')

M sentences, T tokens in all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ORDERS = 4


def posterior(scores: npt.ArrayLike, *, temperature: float = 1.0) -> Floats:
    """(M,) scores -> probabilities, the softmax of scores over the temperature.

    >>> posterior([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    given = np.asarray(scores, dtype=np.float64) / temperature
    shares = np.exp(given - given.max())
    return np.asarray(shares / shares.sum())


def agreement(tokens: Ints, starts: Ints, probs: Floats, *, orders: int = ORDERS) -> Floats:
    """(M,) mean over n = 1 to 4 of `agreement_n`; sentences are `tokens[starts[i]:starts[i + 1]]`.

    Two equal sentences and one that shares nothing with them, all equally likely:

    >>> tokens, starts = np.array([0, 1, 0, 1, 2, 3]), np.array([0, 2, 4, 6])
    >>> agreement(tokens, starts, np.full(3, 1 / 3), orders=2).round(3).tolist()
    [0.667, 0.667, 0.333]
    """
    count = len(starts) - 1
    lengths = np.diff(starts)
    sentence = np.repeat(np.arange(count), lengths)  # (T,)
    remaining = starts[1:][sentence] - np.arange(len(tokens))  # (T,) tokens to the end
    grams = tokens  # of order n, that start at each position
    position = np.arange(len(tokens))
    total = np.zeros(count)
    size = int(tokens.max(initial=0)) + 1
    for order in range(1, orders + 1):
        if order > 1:
            longer = remaining[position] >= order
            position, grams = position[longer], grams[longer]
            grams = grams * size + tokens[position + order - 1]
        distinct, grams = np.unique(grams, return_inverse=True)
        of = sentence[position]
        inverse = 1.0 / np.sqrt(np.maximum(lengths - order + 1, 1))
        mean = np.bincount(grams, (probs * inverse)[of], len(distinct))  # m(g)
        total += np.bincount(of, mean[grams], count) * inverse
    return total / orders
