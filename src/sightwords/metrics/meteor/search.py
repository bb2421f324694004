"""One batch of the beam search: all partial alignments of all its pairs in columns of numbers.

The paths lie pair by pair, best first. A step moves every pair one word on in its reference:
extend, sort, keep 40 a pair. One 64-bit number holds the pair, what paths are compared by, and the
order in which they were found, so that one plain sort of integers gives METEOR's order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sightwords.metrics.meteor.align import BEAM
from sightwords.metrics.meteor.hash import I64
from sightwords.metrics.meteor.lexicon import spans
from sightwords.metrics.meteor.match import Matches

Flags = npt.NDArray[np.bool_]

COUNTERS = 16
"""A pair: content and function words matched, of candidate and reference, for each module."""

# Bits of the sort key, from the highest: pair, cost (weight, chunks, distance), place.
_PLACE_BITS = 14
_DISTANCE_BITS = 20
_CHUNK_BITS = 8
_WEIGHT_BITS = 9
_COST_BITS = _WEIGHT_BITS + _CHUNK_BITS + _DISTANCE_BITS
_CHUNK = 1 << _DISTANCE_BITS
_WEIGHT = 1 << (_DISTANCE_BITS + _CHUNK_BITS)
_NO_WEIGHT = (1 << _WEIGHT_BITS) - 1
_SET_BITS = 62  # positions in one number of a set

# What fits these fields.
MOST_PAIRS = 1 << (63 - _COST_BITS - _PLACE_BITS)
MOST_WORDS = 255
"""Of a sentence: as many as a counter of eight bits can count."""
MOST_DISTANCE = (1 << _DISTANCE_BITS) - 1
MOST_OPTIONS = (1 << _PLACE_BITS) // BEAM - 1
"""Matches that begin at one position of the reference."""


def words_matched(matches: Matches) -> I64:
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
    """Partial alignments in columns; the last axis is theirs."""

    pair: I64
    cost: I64
    used: I64
    """(columns, paths): words of the reference, then of the candidate."""
    candidate_end: I64
    """Where the open chunk ends in the candidate; -1 if none is open."""
    counts: I64
    """(2, paths): sixteen counters of eight bits."""

    def __getitem__(self, rows: I64) -> _Paths:
        return _Paths(*(getattr(self, f.name)[..., rows] for f in fields(self)))


class Search:
    """The search over one batch of pairs."""

    def __init__(self, matches: Matches, lengths: I64, longest: I64) -> None:
        self.lengths = lengths
        self.pairs = len(lengths)
        self.steps = int(lengths.max())
        self.candidate_start = matches.candidate_start
        self.candidate_end = matches.candidate_start + matches.candidate_length
        self.distance = np.abs(matches.start - matches.candidate_start)
        self.gain = _WEIGHT * np.where(
            matches.module == 0,
            matches.length + matches.candidate_length,
            matches.length // 2 + matches.candidate_length // 2,
        )
        columns = -(-int(longest.max()) // _SET_BITS)
        self.words = np.concatenate(
            (
                _bit_sets(matches.start, matches.length, columns),
                _bit_sets(matches.candidate_start, matches.candidate_length, columns),
            )
        )
        counts = np.ascontiguousarray(words_matched(matches).astype(np.uint8)).view(np.int64)
        self.counts = np.ascontiguousarray(counts.T)
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
                counts[done.pair] = done.counts.T
                chunks[done.pair] = (done.cost >> _DISTANCE_BITS) & ((1 << _CHUNK_BITS) - 1)
                paths = paths[np.flatnonzero(~ended)]
            if position < self.steps:
                paths = self._extend(paths, position)
        return counts.view(np.uint8).reshape(-1, COUNTERS).astype(np.int64), chunks

    def _certain(self, matches: Matches, place: I64) -> I64:
        """(pairs * steps,) the match that begins there and competes with no other, or -1."""
        width = MOST_WORDS + 1
        alone = self.options[place] == 1
        for start, length in (
            (matches.start, matches.length),
            (matches.candidate_start, matches.candidate_length),
        ):
            alone &= _coverage(matches.pair * width + start, length) == 1
        certain = np.full(self.pairs * self.steps, -1, dtype=np.int64)
        certain[place[alone]] = np.flatnonzero(alone)
        return certain

    def _start(self) -> _Paths:
        certain = self.certain[self.certain >= 0]
        used = np.zeros((len(self.words), self.pairs), dtype=np.int64)
        pair = np.flatnonzero(self.certain >= 0) // self.steps
        for column, words in zip(used, self.words, strict=True):
            np.bitwise_or.at(column, pair, words[certain])
        return _Paths(
            pair=np.arange(self.pairs, dtype=np.int64),
            cost=np.full(self.pairs, _NO_WEIGHT * _WEIGHT, dtype=np.int64),
            used=used,
            candidate_end=np.full(self.pairs, -1, dtype=np.int64),
            counts=np.zeros((2, self.pairs), dtype=np.int64),
        )

    def _extend(self, paths: _Paths, position: int) -> _Paths:
        place = paths.pair * self.steps + position
        column, bit = divmod(position, _SET_BITS)
        inside = (paths.used[column] >> bit & 1).astype(bool)
        options = np.where(inside, 0, self.options[place])
        # every path, once for each match it might take and then once for none
        parents = np.repeat(np.arange(len(place)), options + 1)
        match = spans(self.first_option[place], options + 1)
        last = np.cumsum(options + 1) - 1
        match[last] = self.certain[place]  # -1 where nothing is certain
        clash = np.bitwise_or.reduce(paths.used[:, parents] & self.words[:, match], axis=0)
        possible = clash == 0
        possible[last] = False
        # the distance of a match goes to the siblings after it, not to itself
        distance = np.where(possible, self.distance[match], 0)
        before = np.cumsum(distance) - distance
        before -= np.repeat(before[last - options], options + 1)
        possible[last] = True
        rows = np.flatnonzero(possible)
        parents, match = parents[rows], match[rows]
        new = paths[parents]
        new.cost += before[rows]
        skips = (match < 0) & ~inside[parents]
        self._take(new, match, skips)
        new.cost += np.where(inside[parents] & (match >= 0), self.distance[match], 0)
        return new

    def _take(self, new: _Paths, match: I64, skips: Flags) -> None:
        """Add its match to each path; -1 is none, which ends the open chunk where it skips."""
        taken = match >= 0
        breaks = taken & (self.candidate_start[match] != new.candidate_end)
        new.cost += _CHUNK * ((new.candidate_end >= 0) & (breaks | skips))
        new.cost -= np.where(taken, self.gain[match], 0)
        new.candidate_end[skips] = -1
        new.candidate_end = np.where(taken, self.candidate_end[match], new.candidate_end)
        new.used |= np.where(taken, self.words[:, match], 0)
        new.counts += np.where(taken, self.counts[:, match], 0)


def _best(paths: _Paths, pairs: int, *, keep: int = BEAM) -> _Paths:
    """Sort within each pair, which keeps ties in order, and drop what the beam has no room for."""
    counts = np.bincount(paths.pair, minlength=pairs)
    first = np.cumsum(counts) - counts
    key = (paths.pair << _COST_BITS) + paths.cost
    key <<= _PLACE_BITS
    key += np.arange(len(key)) - first[paths.pair]
    key.sort()
    pair = key >> (_COST_BITS + _PLACE_BITS)
    kept = np.arange(len(key)) - first[pair] < keep
    rows = first[pair] + (key & ((1 << _PLACE_BITS) - 1))
    return paths[rows[kept]]


def _coverage(first: I64, lengths: I64) -> I64:
    """For each span, how many spans cover its most covered place."""
    cells = spans(first, lengths)
    covered = np.bincount(cells)[cells]
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.maximum.reduceat(covered, starts), dtype=np.int64)


def _bit_sets(first: I64, lengths: I64, columns: int) -> I64:
    """(columns, matches) sets of positions, 62 to a number."""
    sets = np.zeros((columns, len(first)), dtype=np.int64)
    positions = spans(first, lengths)
    rows = np.repeat(np.arange(len(first)), lengths)
    np.bitwise_or.at(sets, (positions // _SET_BITS, rows), 1 << (positions % _SET_BITS))
    return sets
