"""METEOR's matchers: pairs of sentences -> every match of a word or phrase between them.

The matches of all pairs are one join of the phrases of their sentences with the relation that
`lexicon.py` has worked out between phrases.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from sightwords.metrics.meteor.hash import I64
from sightwords.metrics.meteor.lexicon import (
    EXACT,
    PARAPHRASE,
    REVERSE_PARAPHRASE,
    Lexicon,
    Phrases,
)
from sightwords.metrics.ngrams import spans

_PAIRS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches of many pairs, in columns; by pair, then reference position, then METEOR's order."""

    pair: I64
    module: I64
    """0 to 3: exact, stem, synonym, paraphrase."""
    start: I64
    """First word in the reference."""
    length: I64
    """Words in the reference."""
    function_words: I64
    """How many of these are function words."""
    candidate_start: I64
    candidate_length: I64
    candidate_function_words: I64

    def of_pairs(self, chosen: I64) -> Matches:
        """The matches of some pairs (ascending), renumbered in their order."""
        first = np.searchsorted(self.pair, chosen)
        counts = np.searchsorted(self.pair, chosen, side="right") - first
        rows = spans(first, counts)
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self)}
        return Matches(**columns | {"pair": np.repeat(np.arange(len(chosen)), counts)})


def find_matches(lexicon: Lexicon, candidates: I64, references: I64) -> Matches:
    """All matches of pairs of sentences, given by their numbers in the lexicon."""
    parts = [
        _find(lexicon, candidates, references, slice(first, first + _PAIRS_AT_ONCE))
        for first in range(0, max(1, len(candidates)), _PAIRS_AT_ONCE)
    ]
    return Matches(
        **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Matches)}
    )


def _find(lexicon: Lexicon, candidates: I64, references: I64, some: slice) -> Matches:
    phrases, relation = lexicon.phrases, lexicon.relation
    candidates, references = candidates[some], references[some]
    pair, ours, theirs = _every_two_phrases(phrases, candidates, references)
    keys = phrases.phrase[ours] * relation.size + phrases.phrase[theirs]
    hits, entries = relation.find(keys)
    # where both sentences are the same, METEOR looks for equal words only
    kept = (relation.module[entries] == EXACT) | (candidates != references)[pair[hits]]
    hits, entries = hits[kept], entries[kept]
    pair, ours, theirs = pair[hits], ours[hits], theirs[hits]
    module = relation.module[entries]
    rank = _rank(phrases, ours, theirs, module, relation.order[entries])
    place = pair * (lexicon.lengths.max(initial=0) + 1) + phrases.start[theirs]
    sort = np.lexsort((rank, place * (REVERSE_PARAPHRASE + 1) + module))
    ours, theirs = ours[sort], theirs[sort]
    return Matches(
        pair=pair[sort] + some.start,
        module=np.minimum(module[sort], PARAPHRASE),
        start=phrases.start[theirs],
        length=phrases.length[theirs],
        function_words=phrases.function_words[theirs],
        candidate_start=phrases.start[ours],
        candidate_length=phrases.length[ours],
        candidate_function_words=phrases.function_words[ours],
    )


def _every_two_phrases(phrases: Phrases, candidates: I64, references: I64) -> tuple[I64, I64, I64]:
    """Every phrase of a candidate beside every one of its reference: pair, row, row."""
    ours = spans(phrases.first[candidates], phrases.counts[candidates])
    pair = np.repeat(np.arange(len(candidates)), phrases.counts[candidates])
    counts = phrases.counts[references][pair]
    theirs = spans(phrases.first[references][pair], counts)
    return np.repeat(pair, counts), np.repeat(ours, counts), theirs


def _rank(phrases: Phrases, ours: I64, theirs: I64, module: I64, order: I64) -> I64:
    """METEOR's order among matches of one module at one place in the reference.

    It goes through the reference's phrases, shorter first, and their paraphrases; and the other
    way round, through the candidate's places first.
    """
    at = phrases.start[ours]
    forward = (phrases.length[theirs] << 40) + (order << 20) + at
    backward = (at << 40) + (phrases.length[ours] << 20) + order
    return np.where(
        module == PARAPHRASE, forward, np.where(module == REVERSE_PARAPHRASE, backward, at)
    )
