"""Letter trigrams with boundary marks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import VocabularyError
from sightwords.text.trigrams import TrigramIndex, letter_trigrams


def test_the_example_of_huang_et_al() -> None:
    assert letter_trigrams("good") == ["#go", "goo", "ood", "od#"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("", []),
        ("a", ["#a#"]),
        ("banana", ["#ba", "ban", "ana", "nan", "ana", "na#"]),
        ("犬", ["#犬#"]),
        ("🐶🐱", ["#🐶🐱", "🐶🐱#"]),
        ("'s", ["#'s", "'s#"]),
    ],
)
def test_short_repeated_and_foreign(word: str, expected: list[str]) -> None:
    assert letter_trigrams(word) == expected


@given(st.text(min_size=1))
def test_there_are_as_many_trigrams_as_letters_and_they_spell_the_word(word: str) -> None:
    pieces = letter_trigrams(word)
    assert len(pieces) == len(word)
    assert "".join(piece[1] for piece in pieces) == word


def test_counts_repeats_and_drops_the_unseen() -> None:
    index = TrigramIndex.of_words(["banana"])
    places, counts = index.counts(["banana", "bandana"])
    found = {index.trigrams[i]: int(n) for i, n in zip(places, counts, strict=True)}
    # bandana = #ba ban and nda dan ana na#: and, nda, dan were not in the index
    assert found == {"#ba": 2, "ban": 2, "ana": 3, "nan": 1, "na#": 2}
    assert places.tolist() == sorted(places.tolist())


def test_nothing_known_is_an_empty_vector() -> None:
    index = TrigramIndex.of_words(["dog"])
    places, counts = index.counts(["zzz", ""])
    assert (places.shape, counts.shape) == ((0,), (0,))
    assert places.dtype == counts.dtype == np.int64
    assert not index.dense([]).any()


@given(st.lists(st.text(max_size=8), max_size=6))
def test_every_piece_of_an_indexed_word_is_counted(words: list[str]) -> None:
    index = TrigramIndex.of_words(words)
    assert TrigramIndex.of_words(reversed(words)) == index
    _, counts = index.counts(words)
    assert counts.sum() == sum(map(len, words))
    assert index.dense(words).sum() == counts.sum()


def test_bad_indexes_are_refused() -> None:
    with pytest.raises(VocabularyError, match=r"'ab'.*2"):
        TrigramIndex(("ab",))
    with pytest.raises(VocabularyError, match=r"TrigramIndex.of_words"):
        TrigramIndex(("#b#", "#a#"))
    with pytest.raises(VocabularyError, match=r"\['dog'\]"):
        TrigramIndex.of_words(["dog"]).counts("dog")
