"""The beam search of `align.py`, for all pairs of sentences at once, in batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sightwords.metrics.meteor.align import Match, align
from sightwords.metrics.meteor.hash import I64
from sightwords.metrics.meteor.match import Matches
from sightwords.metrics.meteor.search import (
    COUNTERS,
    MOST_DISTANCE,
    MOST_OPTIONS,
    MOST_PAIRS,
    MOST_WORDS,
    Search,
    words_matched,
)

_ROOM = 20_000
"""Paths of a batch are at most 40 times as many; bounds memory, and keeps columns in the cache."""


def align_all(matches: Matches, candidate_lengths: I64, reference_lengths: I64) -> tuple[I64, I64]:
    """Align every pair.

    Returns (pairs, 16) words matched, for each module: candidate's content words, reference's
    content words, candidate's function words, reference's function words; and (pairs,) chunks.
    """
    counts = np.zeros((len(reference_lengths), COUNTERS), dtype=np.int64)
    chunks = np.zeros(len(reference_lengths), dtype=np.int64)
    matched = np.unique(matches.pair)
    longest = np.maximum(candidate_lengths, reference_lengths)[matched]
    options = _most_options(matches, reference_lengths)[matched]
    fits = (longest <= MOST_WORDS) & (options <= MOST_OPTIONS)
    fits &= _distances(matches, reference_lengths)[matched] <= MOST_DISTANCE
    for batch in _batches(longest[fits], options[fits]):
        chosen = matched[fits][batch]
        search = Search(matches.of_pairs(chosen), reference_lengths[chosen], longest[fits][batch])
        counts[chosen], chunks[chosen] = search.run()
    for pair in matched[~fits]:
        own = matches.of_pairs(np.array([pair]))
        counts[pair], chunks[pair] = _align_one(own, int(reference_lengths[pair]))
    return counts, chunks


def _batches(longest: I64, options: I64) -> Iterator[I64]:
    """Pairs of similar length together, so that few are idle; each batch in ascending order."""
    order = np.argsort(longest, kind="stable")
    number = np.cumsum(options[order] + 1) // _ROOM
    for batch in np.split(order, np.flatnonzero(np.diff(number)) + 1):
        for first in range(0, len(batch), MOST_PAIRS):
            yield np.sort(batch[first : first + MOST_PAIRS])


def _most_options(matches: Matches, reference_lengths: I64) -> I64:
    """(pairs,) the largest number of matches that begin at one position."""
    here = matches.pair * (reference_lengths.max(initial=0) + 1) + matches.start
    _, at, per_position = np.unique(here, return_index=True, return_counts=True)
    options = np.zeros(len(reference_lengths), dtype=np.int64)
    np.maximum.at(options, matches.pair[at], per_position)
    return options


def _distances(matches: Matches, reference_lengths: I64) -> npt.NDArray[np.float64]:
    """(pairs,) the distances of all matches together, which no path can exceed."""
    moved = np.abs(matches.start - matches.candidate_start)
    summed = np.bincount(matches.pair, weights=moved, minlength=len(reference_lengths))
    return np.asarray(summed, dtype=np.float64)


def _align_one(matches: Matches, reference_length: int) -> tuple[I64, int]:
    columns = np.stack(
        (
            matches.module,
            matches.start,
            matches.length,
            matches.candidate_start,
            matches.candidate_length,
        ),
        axis=1,
    )
    listed = [Match(*row) for row in columns.tolist()]
    path = align(listed, reference_length)
    rows = [next(i for i, m in enumerate(listed) if m is chosen) for chosen in path.chosen]
    return words_matched(matches)[rows].sum(axis=0), path.chunks
