"""METEOR's aligner: the matches of every pair of sentences -> those that hold together.

METEOR 1.5 goes through the reference from left to right with a beam of 40 partial alignments
(paths). Better is: more words matched exactly (other matches count half, and the half is lost for
single words: METEOR adds them to a whole number), then fewer chunks, then a smaller distance; what
is still equal stays in the order of discovery. METEOR adds the distance of a match to the paths
that come after it and not to its own; both peculiarities decide between alignments and are kept.

All pairs are searched at once, in batches. A step moves every pair one word on in its reference:
extend, sort, keep 40 paths per pair. One 64-bit number holds the pair, what paths are compared by,
and the order in which they were found, so that one plain sort of integers gives METEOR's order.
The same search for one pair, written for reading, is in `tests/metrics/test_meteor_align.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError
from sightwords.metrics.meteor.hash import I64
from sightwords.metrics.meteor.match import Matches
from sightwords.metrics.ngrams import spans

Flags = npt.NDArray[np.bool_]

BEAM = 40
COUNTERS = 16
"""Per pair: content and function words matched, of candidate and reference, for each module."""

_SET_BITS = 62  # positions in one number of a set
_KEY_BITS = 63  # of a sort key
_PAIRS = 4096
"""Most pairs in a batch."""
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
    for batch in _batches(longest, _most_options(matches, reference_lengths)[matched]):
        chosen = matched[batch]
        search = Search(
            matches.of_pairs(chosen), reference_lengths[chosen], int(longest[batch].max())
        )
        counts[chosen], chunks[chosen] = search.run()
    return counts, chunks


def _batches(longest: I64, options: I64) -> Iterator[I64]:
    """Pairs of similar length together, so that few are idle; each batch in ascending order."""
    order = np.argsort(longest, kind="stable")
    number = np.cumsum(options[order] + 1) // _ROOM
    for batch in np.split(order, np.flatnonzero(np.diff(number)) + 1):
        for first in range(0, len(batch), _PAIRS):
            yield np.sort(batch[first : first + _PAIRS])


def _most_options(matches: Matches, reference_lengths: I64) -> I64:
    """(pairs,) the largest number of matches that begin at one position."""
    here = matches.pair * (reference_lengths.max(initial=0) + 1) + matches.start
    _, at, per_position = np.unique(here, return_index=True, return_counts=True)
    options = np.zeros(len(reference_lengths), dtype=np.int64)
    np.maximum.at(options, matches.pair[at], per_position)
    return options


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
    """Partial alignments in columns; the last axis is theirs."""

    pair: I64
    cost: I64
    """Smaller is better; from the highest bits: weight still missing, closed chunks, distance."""
    used: I64
    """(columns, paths): words of the reference, then of the candidate."""
    candidate_end: I64
    """Where the open chunk ends in the candidate; -1 if none is open."""
    counts: I64
    """(2 or 8, paths): sixteen counters of 8 or 32 bits."""

    def __getitem__(self, rows: I64) -> _Paths:
        return _Paths(*(getattr(self, f.name)[..., rows] for f in fields(self)))


class Search:
    """The search over one batch of pairs; `longest` is the length of its longest sentence."""

    def __init__(self, matches: Matches, lengths: I64, longest: int) -> None:
        self.lengths = lengths
        self.pairs = len(lengths)
        self.steps = int(lengths.max())
        self.candidate_start = matches.candidate_start
        self.candidate_end = matches.candidate_start + matches.candidate_length
        self.distance = np.abs(matches.start - matches.candidate_start)
        self._lay_out_cost(longest, int(np.bincount(matches.pair, weights=self.distance).max()))
        self.gain = self.weight * np.where(
            matches.module == 0,
            matches.length + matches.candidate_length,
            matches.length // 2 + matches.candidate_length // 2,
        )
        columns = -(-longest // _SET_BITS)
        self.words = np.concatenate(
            (
                _bit_sets(matches.start, matches.length, columns),
                _bit_sets(matches.candidate_start, matches.candidate_length, columns),
            )
        )
        self.counter = np.dtype(np.uint8 if longest < 256 else np.uint32)
        counts = np.ascontiguousarray(_words_matched(matches).astype(self.counter)).view(np.int64)
        self.counts = np.ascontiguousarray(counts.T)
        place = matches.pair * self.steps + matches.start
        self.options = np.bincount(place, minlength=self.pairs * self.steps)
        self.first_option = np.cumsum(self.options) - self.options
        self.certain = self._certain(matches, place, longest)

    def _lay_out_cost(self, longest: int, distance: int) -> None:
        """The fields of a path's cost, wide enough for this batch."""
        self.distance_bits = distance.bit_length()
        self.chunk = 1 << self.distance_bits
        self.weight = self.chunk << longest.bit_length()
        self.no_weight = self.weight * ((1 << (2 * longest).bit_length()) - 1)
        self.cost_bits = (self.no_weight + self.weight - 1).bit_length()
        if self.cost_bits > _KEY_BITS:
            raise ScoreError(
                f"METEOR cannot align a sentence of {longest} words with so many repeated words; "
                "shorten it"
            )

    def run(self) -> tuple[I64, I64]:
        """(pairs, 16) words matched and (pairs,) chunks of the best alignments."""
        counts = np.zeros((self.pairs, len(self.counts)), dtype=np.int64)
        chunks = np.zeros(self.pairs, dtype=np.int64)
        paths = self._start()
        for position in range(self.steps + 1):
            paths = self._best(paths)
            ended = self.lengths[paths.pair] == position
            if ended.any():
                done = paths[np.flatnonzero(ended)]
                done.cost += self.chunk * (done.candidate_end >= 0)
                done = self._best(done, keep=1)
                counts[done.pair] = done.counts.T
                chunks[done.pair] = done.cost % self.weight // self.chunk
                paths = paths[np.flatnonzero(~ended)]
            if position < self.steps:
                paths = self._extend(paths, position)
        return counts.view(self.counter).reshape(-1, COUNTERS).astype(np.int64), chunks

    def _certain(self, matches: Matches, place: I64, longest: int) -> I64:
        """(pairs * steps,) the match that begins there and competes with no other, or -1."""
        width = longest + 1
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
            cost=np.full(self.pairs, self.no_weight, dtype=np.int64),
            used=used,
            candidate_end=np.full(self.pairs, -1, dtype=np.int64),
            counts=np.zeros((len(self.counts), self.pairs), dtype=np.int64),
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
        new.cost += self.chunk * ((new.candidate_end >= 0) & (breaks | skips))
        new.cost -= np.where(taken, self.gain[match], 0)
        new.candidate_end[skips] = -1
        new.candidate_end = np.where(taken, self.candidate_end[match], new.candidate_end)
        new.used |= np.where(taken, self.words[:, match], 0)
        new.counts += np.where(taken, self.counts[:, match], 0)

    def _best(self, paths: _Paths, *, keep: int = BEAM) -> _Paths:
        """Sort within each pair, which keeps ties in order, and drop what the beam has no room for.

        An integer sort is several times faster than the `lexsort` that long sentences need.
        """
        counts = np.bincount(paths.pair, minlength=self.pairs)
        first = np.cumsum(counts) - counts
        place_bits = int(counts.max()).bit_length()
        if self.pairs.bit_length() + self.cost_bits + place_bits <= _KEY_BITS:
            key = (paths.pair << self.cost_bits) + paths.cost
            key <<= place_bits
            key += np.arange(len(key)) - first[paths.pair]
            key.sort()
            pair = key >> (self.cost_bits + place_bits)
            rows = first[pair] + (key & ((1 << place_bits) - 1))
        else:
            rows = np.lexsort((paths.cost, paths.pair))
            pair = paths.pair[rows]
        kept = np.arange(len(rows)) - first[pair] < keep
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
