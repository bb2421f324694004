"""The beam search of `meteor_align`, for all pairs of a batch in step.

All partial alignments of all pairs lie in one table of columns, pair by pair, best first. A step
moves every pair one word on in its reference: extend, sort, keep 40 a pair. One 64-bit number
holds what paths are compared by, another the order in which they were found, so that one plain
sort of integers gives METEOR's order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sightwords.metrics.meteor_align import BEAM, Match, align
from sightwords.metrics.meteor_hash import I64
from sightwords.metrics.meteor_lexicon import spans
from sightwords.metrics.meteor_match import Matches

Flags = npt.NDArray[np.bool_]

# Bits of the sort key, from the highest: pair, cost (weight, chunks, distance), place.
_PLACE_BITS = 14
_DISTANCE_BITS = 20
_CHUNK_BITS = 7
_WEIGHT_BITS = 8
_COST_BITS = _WEIGHT_BITS + _CHUNK_BITS + _DISTANCE_BITS
_PAIR_BITS = 63 - _COST_BITS - _PLACE_BITS
_CHUNK = 1 << _DISTANCE_BITS
_WEIGHT = 1 << (_DISTANCE_BITS + _CHUNK_BITS)
_NO_WEIGHT = (1 << _WEIGHT_BITS) - 1
_LONGEST = 62
"""Words of a sentence whose positions fit a bit set."""

COUNTERS = 16
"""A pair: content and function words matched, of candidate and reference, for each module."""


def align_all(matches: Matches, candidate_lengths: I64, reference_lengths: I64) -> tuple[I64, I64]:
    """Align every pair.

    Returns (pairs, 16) words matched, for each module: candidate's content words, reference's
    content words, candidate's function words, reference's function words; and (pairs,) chunks.
    """
    pairs = len(reference_lengths)
    counts = np.zeros((pairs, COUNTERS), dtype=np.int64)
    chunks = np.zeros(pairs, dtype=np.int64)
    matched = np.unique(matches.pair)
    simple = _fits(matches, candidate_lengths, reference_lengths)[matched]
    # pairs of one length side by side: a step then has few idle pairs
    order = matched[simple]
    order = order[np.argsort(reference_lengths[order], kind="stable")]
    for first in range(0, len(order), 1 << _PAIR_BITS):
        chosen = np.sort(order[first : first + (1 << _PAIR_BITS)])
        search = _Search(matches.of_pairs(chosen), reference_lengths[chosen])
        counts[chosen], chunks[chosen] = search.run()
    for pair in matched[~simple]:
        own = matches.of_pairs(np.array([pair]))
        counts[pair], chunks[pair] = _align_one(own, int(reference_lengths[pair]))
    return counts, chunks


def _fits(matches: Matches, candidate_lengths: I64, reference_lengths: I64) -> Flags:
    """Pairs for which no field of the sort key can overflow."""
    pairs = len(reference_lengths)
    moved = np.abs(matches.start - matches.candidate_start)
    here = matches.pair * (reference_lengths.max(initial=0) + 1) + matches.start
    _, at, per_position = np.unique(here, return_index=True, return_counts=True)
    options = np.zeros(pairs, dtype=np.int64)
    np.maximum.at(options, matches.pair[at], per_position)
    return np.asarray(
        (np.maximum(candidate_lengths, reference_lengths) <= _LONGEST)
        & (np.bincount(matches.pair, weights=moved, minlength=pairs) < (1 << _DISTANCE_BITS))
        & ((options + 1) * BEAM < (1 << _PLACE_BITS))
    )


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
    return _words_matched(matches)[rows].sum(axis=0), path.chunks


def _words_matched(matches: Matches) -> I64:
    """(matches, 16) what a match adds to the counts of its pair."""
    rows = np.zeros((len(matches.pair), 4, 4), dtype=np.int64)
    at = np.arange(len(matches.pair)), matches.module
    ours, theirs = matches.candidate_function_words, matches.function_words
    rows[at] = np.stack(
        (matches.candidate_length - ours, matches.length - theirs, ours, theirs), axis=1
    )
    return rows.reshape(-1, COUNTERS)


@dataclass(slots=True)
class _Paths:
    """Partial alignments in columns."""

    pair: I64
    cost: I64
    reference_used: I64
    candidate_used: I64
    candidate_end: I64
    """Where the open chunk ends in the candidate; -1 if none is open."""
    counts: I64
    """(paths, 2): sixteen counters of eight bits."""

    def __getitem__(self, rows: I64) -> _Paths:
        return _Paths(*(getattr(self, f.name)[rows] for f in fields(self)))


class _Search:
    """The search over one batch of pairs."""

    def __init__(self, matches: Matches, lengths: I64) -> None:
        self.lengths = lengths
        self.pairs = len(lengths)
        self.steps = int(lengths.max(initial=0))
        self.candidate_start = matches.candidate_start
        self.candidate_end = matches.candidate_start + matches.candidate_length
        self.distance = np.abs(matches.start - matches.candidate_start)
        self.gain = _WEIGHT * np.where(
            matches.module == 0,
            matches.length + matches.candidate_length,
            matches.length // 2 + matches.candidate_length // 2,
        )
        self.reference_words = ((1 << matches.length) - 1) << matches.start
        self.candidate_words = ((1 << matches.candidate_length) - 1) << matches.candidate_start
        self.counts = np.ascontiguousarray(_words_matched(matches).astype(np.uint8)).view(np.int64)
        place = matches.pair * self.steps + matches.start
        self.options = np.bincount(place, minlength=self.pairs * self.steps)
        self.first_option = np.cumsum(self.options) - self.options
        self.certain = self._certain(matches, place)

    def run(self) -> tuple[I64, I64]:
        """(pairs, 16) words matched and (pairs,) chunks of the best alignments."""
        counts = np.zeros((self.pairs, 2), dtype=np.int64)
        chunks = np.zeros(self.pairs, dtype=np.int64)
        paths = self._start()
        for position in range(self.steps + 1):
            paths = _best(paths, self.pairs)
            ended = self.lengths[paths.pair] == position
            if ended.any():
                done = paths[np.flatnonzero(ended)]
                done.cost += _CHUNK * (done.candidate_end >= 0)
                done = _best(done, self.pairs, keep=1)
                counts[done.pair] = done.counts
                chunks[done.pair] = (done.cost >> _DISTANCE_BITS) & ((1 << _CHUNK_BITS) - 1)
                paths = paths[np.flatnonzero(~ended)]
            if not len(paths.pair):
                break
            paths = self._extend(paths, position)
        return counts.view(np.uint8).reshape(-1, COUNTERS).astype(np.int64), chunks

    def _certain(self, matches: Matches, place: I64) -> I64:
        """(pairs * steps,) the match that begins there and competes with no other, or -1."""
        width = 64
        in_reference = _coverage(matches.pair * width + matches.start, matches.length)
        in_candidate = _coverage(
            matches.pair * width + matches.candidate_start, matches.candidate_length
        )
        alone = self.options[place] == 1
        alone &= in_reference == 1
        alone &= in_candidate == 1
        certain = np.full(self.pairs * self.steps, -1, dtype=np.int64)
        certain[place[alone]] = np.flatnonzero(alone)
        return certain

    def _start(self) -> _Paths:
        certain = self.certain[self.certain >= 0]
        pair = np.flatnonzero(self.certain >= 0) // self.steps
        used = np.zeros((2, self.pairs), dtype=np.int64)
        np.bitwise_or.at(used[0], pair, self.reference_words[certain])
        np.bitwise_or.at(used[1], pair, self.candidate_words[certain])
        return _Paths(
            pair=np.arange(self.pairs, dtype=np.int64),
            cost=np.full(self.pairs, _NO_WEIGHT * _WEIGHT, dtype=np.int64),
            reference_used=used[0],
            candidate_used=used[1],
            candidate_end=np.full(self.pairs, -1, dtype=np.int64),
            counts=np.zeros((self.pairs, 2), dtype=np.int64),
        )

    def _extend(self, paths: _Paths, position: int) -> _Paths:
        place = paths.pair * self.steps + position
        certain = self.certain[place]
        inside = (paths.reference_used >> position & 1).astype(bool)
        options = np.where(inside, 0, self.options[place])
        # every path, once for each match it might take and then once for none
        parents = np.repeat(np.arange(len(place)), options + 1)
        match = spans(self.first_option[place], options + 1)
        none = np.zeros(len(parents), dtype=bool)
        none[np.cumsum(options + 1) - 1] = True
        match[none] = certain[parents[none]]
        new = paths[parents]
        taken = match >= 0
        clash = new.reference_used & self.reference_words[match]
        clash |= new.candidate_used & self.candidate_words[match]
        possible = none | (clash == 0)
        # the distance of a match goes to the siblings after it
        distance = np.where(possible & ~none, self.distance[match], 0)
        before = np.cumsum(distance) - distance
        new.cost += before - np.repeat(before[np.flatnonzero(none) - options], options + 1)
        rows = np.flatnonzero(possible)
        new, match, taken = new[rows], match[rows], taken[rows]
        is_certain = taken & none[rows]
        new.cost[is_certain] += self.distance[match[is_certain]]
        skipped = ~taken & ~inside[parents[rows]]
        self._take(new, match, taken, skipped)
        return new

    def _take(self, new: _Paths, match: I64, taken: Flags, skipped: Flags) -> None:
        open_chunk = new.candidate_end >= 0
        breaks = taken & (self.candidate_start[match] != new.candidate_end)
        new.cost += _CHUNK * (open_chunk & (breaks | skipped))
        new.cost -= np.where(taken, self.gain[match], 0)
        new.candidate_end = np.where(
            taken, self.candidate_end[match], np.where(skipped, -1, new.candidate_end)
        )
        new.reference_used |= np.where(taken, self.reference_words[match], 0)
        new.candidate_used |= np.where(taken, self.candidate_words[match], 0)
        new.counts += np.where(taken[:, None], self.counts[match], 0)


def _best(paths: _Paths, pairs: int, *, keep: int = BEAM) -> _Paths:
    """Sort within each pair, which keeps ties in order, and drop what the beam has no room for."""
    counts = np.bincount(paths.pair, minlength=pairs)
    first = np.cumsum(counts) - counts
    key = (paths.pair << _COST_BITS) + paths.cost
    key <<= _PLACE_BITS
    key += np.arange(len(key)) - first[paths.pair]
    key.sort()
    pair = key >> (_COST_BITS + _PLACE_BITS)
    rank = np.arange(len(key)) - first[pair]
    kept = rank < keep
    rows = first[pair] + (key & ((1 << _PLACE_BITS) - 1))
    return paths[rows[kept]]


def _coverage(first: I64, lengths: I64) -> I64:
    """For each span, how many spans cover its most covered place."""
    cells = spans(first, lengths)
    covered = np.bincount(cells)[cells]
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.maximum.reduceat(covered, starts), dtype=np.int64)
