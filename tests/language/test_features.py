"""Table 1's hashed contexts: distinct, stable, counted."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightwords.language.features import (
    attribute_set,
    context_count,
    context_starts,
    pack,
    unpack,
)
from sightwords.text.vocabulary import CLOSED_CLASS, Vocabulary

HISTORIES = np.array([[9, 9, 0], [9, 0, 1], [0, 1, 2], [3, 1, 2]], dtype=np.int32)


def test_the_hash_is_pinned() -> None:
    # A change here makes every stored model useless: HASH_NAME must change with it.
    found = context_starts(HISTORIES[2:3], table_bits=24, distant=True)[:, :, 0].tolist()
    assert found == [
        [15317375, 13469707, 14869834, 6550163, 1077859],
        [987922, 15917470, 540381, 12958489, 11446749],
    ]


def test_contexts_differ_by_words_sign_and_length() -> None:
    found = context_starts(HISTORIES, table_bits=62, distant=True)
    assert found.shape == (2, context_count(4, True), 4)
    bigram, trigram, fourgram, far_2, far_3 = found[0]
    assert bigram[2] == bigram[3]
    assert trigram[2] == trigram[3]
    assert fourgram[2] != fourgram[3]
    assert far_2[2] == far_2[3]
    assert far_3[2] != far_3[3]
    every = {int(x) for x in found[:, :, 2].ravel()}
    assert len(every) == 10  # two signs times five contexts


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_bit_sets_round_trip(values: list[bool]) -> None:
    held = np.array(values)
    assert unpack(pack(held), len(values)).tolist() == values


def test_the_attribute_set_leaves_out_closed_class_words() -> None:
    words = Vocabulary((*CLOSED_CLASS, "dog"), tuple(range(20, 4, -1)), 1000)
    found = attribute_set([*((w, 0.9) for w in CLOSED_CLASS), ("dog", 0.2), ("dog", 0.0)], words)
    assert found.ids.tolist() == [15]
    assert found.log_probs.tolist() == [np.float32(math.log(0.2))]
