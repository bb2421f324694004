"""The phrases of a batch of sentences, and which of them METEOR takes as equal.

Four modules find matches: the same word, the same stem, a shared WordNet synonym set, and an entry
of the paraphrase table (in either direction). Whether two phrases match does not depend on where
they stand, so that relation is worked out once for all sentences of a batch.

METEOR compares words by Java's 32-bit hash of them; here they are compared by 64 bits, so that
accidental matches between different words, which METEOR's authors call insignificant, are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import numpy.typing as npt

from sightwords.metrics.meteor.data import MeteorData
from sightwords.metrics.meteor.hash import I64, U64, SpanHasher
from sightwords.metrics.meteor.paraphrases import LONGEST_PHRASE, ParaphraseTable
from sightwords.metrics.meteor.stem import stem
from sightwords.metrics.ngrams import spans

EXACT, STEM, SYNONYM, PARAPHRASE, REVERSE_PARAPHRASE = range(5)
"""The order in which METEOR lists matches; the last two are one module to its scores."""

_SIEVE_BITS = 22
_SCATTER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrases of a batch of sentences, in one row of columns sorted by sentence."""

    first: I64
    """(sentences,) of the sentence's phrases."""
    counts: I64
    """(sentences,)"""
    phrase: I64
    """(phrases,) number of the distinct phrase."""
    start: I64
    """(phrases,) first word in the sentence."""
    length: I64
    """(phrases,) in words."""
    function_words: I64
    """(phrases,)"""


@dataclass(frozen=True, slots=True)
class Relation:
    """Which phrases match, under the key candidate phrase * size + reference phrase."""

    size: int
    keys: I64 = field(repr=False)
    """(entries,) ascending; a key comes once for each module that matches the two."""
    module: I64 = field(repr=False)
    order: I64 = field(repr=False)
    """Place of a paraphrase among those of its phrase; 0 otherwise."""
    sieve: npt.NDArray[np.bool_] = field(repr=False)
    """False for keys that are surely absent; saves most of the searching."""

    def find(self, keys: I64) -> tuple[I64, I64]:
        """For each given key that is there, and each entry under it: the key's place, the entry."""
        likely = np.flatnonzero(self.sieve[_scatter(keys)])
        first = np.searchsorted(self.keys, keys[likely])
        counts = np.searchsorted(self.keys, keys[likely], side="right") - first
        return np.repeat(likely, counts), spans(first, counts)


class Lexicon:
    """Sentences of a batch, ready to be matched with each other."""

    def __init__(
        self, sentences: Sequence[Sequence[str]], data: MeteorData, table: ParaphraseTable
    ) -> None:
        self.lengths: I64 = np.array([len(words) for words in sentences], dtype=np.int64)
        grams = _NGrams(sentences, self.lengths)
        distinct, inverse = np.unique(grams.hashes, return_inverse=True)
        phrase, paraphrase, order = table.among(distinct)
        of_words = inverse[: len(grams.words)]
        kept = np.zeros(len(distinct), dtype=bool)  # longer phrases only if the table has them
        kept[phrase] = kept[paraphrase] = kept[of_words] = True
        number = np.cumsum(kept) - 1
        is_function = np.array([w in data.function_words for w in grams.words], dtype=bool)
        self.function_words = _sums(is_function, grams.offsets[:-1], self.lengths)
        rows = np.flatnonzero(kept[inverse])
        self.phrases = _by_sentence(grams, rows, number[inverse[rows]], is_function)
        words = dict(zip(number[of_words].tolist(), grams.words, strict=True))
        paraphrases = number[phrase], number[paraphrase], order
        self.relation = _relation(int(kept.sum()), words, data, paraphrases)


class _NGrams:
    """Every run of up to seven words of every sentence: single words first, then pairs, ..."""

    def __init__(self, sentences: Sequence[Sequence[str]], lengths: I64) -> None:
        self.words = [word for words in sentences for word in words]
        self.offsets = np.concatenate(([0], np.cumsum(lengths)))
        joined = "".join(f"{word} " for word in self.words).encode("utf-8", "surrogatepass")
        text = np.frombuffer(joined, dtype=np.uint8)
        hasher = SpanHasher(len(text) + 1)
        sums = np.concatenate((np.zeros(1, np.uint64), hasher.prefix_sums(text)))
        ends = np.flatnonzero(text == ord(" "))
        starts = np.concatenate(([0], ends + 1))[:-1]
        left = np.repeat(self.offsets[1:], lengths) - np.arange(len(self.words))  # to the end
        sizes = range(1, LONGEST_PHRASE + 1)
        first = [np.flatnonzero(left >= size) for size in sizes]
        last = [f + size - 1 for f, size in zip(first, sizes, strict=True)]
        self.first = np.concatenate(first)
        """(n-grams,) first word, counted through all sentences."""
        self.length = np.repeat(np.array(sizes), [len(f) for f in first])
        self.hashes: U64 = hasher.hashes(
            sums[starts[self.first]], sums[ends[np.concatenate(last)]], starts[self.first]
        )


def _sums(flags: npt.NDArray[np.bool_], starts: I64, lengths: I64) -> I64:
    """How many flags are set in each span."""
    before = np.concatenate(([0], np.cumsum(flags)))
    return np.asarray(before[starts + lengths] - before[starts], dtype=np.int64)


def _by_sentence(
    grams: _NGrams, rows: I64, phrase: I64, is_function: npt.NDArray[np.bool_]
) -> Phrases:
    sort = np.argsort(grams.first[rows], kind="stable")
    first_word, length = grams.first[rows][sort], grams.length[rows][sort]
    first = np.searchsorted(first_word, grams.offsets)
    counts = np.diff(first)
    return Phrases(
        first=first[:-1],
        counts=counts,
        phrase=phrase[sort],
        start=first_word - np.repeat(grams.offsets[:-1], counts),
        length=length,
        function_words=_sums(is_function, first_word, length),
    )


def _relation(
    size: int, words: dict[int, str], data: MeteorData, paraphrases: tuple[I64, I64, I64]
) -> Relation:
    phrase, paraphrase, order = paraphrases
    same = np.array(list(words), dtype=np.int64)
    stems = _sharing((number, (stem(word),)) for number, word in words.items())
    synonyms = _sharing((number, data.synonyms.of(word)) for number, word in words.items())
    parts = (  # module, candidate phrase, reference phrase
        (EXACT, same, same),
        (STEM, *stems),
        (SYNONYM, *synonyms),
        (PARAPHRASE, paraphrase, phrase),
        (REVERSE_PARAPHRASE, phrase, paraphrase),
    )
    keys = np.concatenate([ours * size + theirs for _, ours, theirs in parts])
    module = np.repeat([part[0] for part in parts], [len(part[1]) for part in parts])
    places = np.zeros(len(keys), dtype=np.int64)
    places[module >= PARAPHRASE] = np.tile(order, 2)
    sort = np.argsort(keys)
    sieve = np.zeros(1 << _SIEVE_BITS, dtype=bool)
    sieve[_scatter(keys)] = True
    return Relation(size, keys[sort], module[sort], places[sort], sieve)


def _sharing(classes: Iterable[tuple[int, Collection[str]]]) -> tuple[I64, I64]:
    """Different words that share a class, both ways round."""
    members: defaultdict[str, list[int]] = defaultdict(list)
    for word, names in classes:
        for name in names:
            members[name].append(word)
    pairs = {pair for group in members.values() for pair in permutations(group, 2)}
    ours, theirs = np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
    return ours, theirs


def _scatter(keys: I64) -> U64:
    spread: U64 = keys.astype(np.uint64) * _SCATTER
    spread >>= np.uint64(64 - _SIEVE_BITS)
    return spread
