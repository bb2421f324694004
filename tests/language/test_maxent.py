"""The language model against probabilities worked out by hand, and its file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import BundleError, InputError
from sightwords.language.features import (
    NO_ATTRIBUTES,
    Attributes,
    attribute_set,
    context_starts,
    pack,
)
from sightwords.language.maxent import LogBilinear, MaxEnt, padded_table
from sightwords.text.vocabulary import Vocabulary
from sightwords.types import FloatArray

VOCABULARY = Vocabulary(("a", "dog", "runs"), (4, 3, 2), 10)
DOG = attribute_set({"dog": 0.5}, VOCABULARY)
BITS = 12


def model_of(
    hashed: Mapping[tuple[tuple[int, ...], int, int], float] | None = None,
    *,
    unigram: FloatArray | None = None,
    log_bilinear: LogBilinear | None = None,
) -> MaxEnt:
    """Three words: a = 0, dog = 1, runs = 2; <unk> = 3, end = 4, start = 5.

    `hashed` sets single weights: {(history, sign, word): weight}, for the context of length
    len(history).
    """
    table = np.zeros(1 << BITS, dtype=np.float32)
    for (context, sign, word), weight in (hashed or {}).items():
        history = np.full((1, 3), 5, dtype=np.int32)
        history[0, 3 - len(context) :] = context
        start = context_starts(history, table_bits=BITS, distant=False)[sign, len(context) - 1, 0]
        table[(start + word) % len(table)] = weight
    return MaxEnt(
        vocabulary=VOCABULARY,
        order=4,
        distant=False,
        table=padded_table(table, 5),
        scale=1.0,
        unigram=np.zeros((2, 5), dtype=np.float32) if unigram is None else unigram,
        end=np.array([0, 0, 0, 0, math.log(5)], dtype=np.float32),
        attribute=math.log(2),
        score=1.0,
        follower_offsets=np.array([0, 1, 2, 2, 2, 3]),
        follower_ids=np.array([1, 2, 0], dtype=np.int32),
        log_bilinear=log_bilinear,
    )


def test_probabilities_by_hand_without_attributes() -> None:
    # The set is empty, so End gives the end of sentence 5 against 1 for each of four words: 5/9.
    found = np.exp(model_of().token_log_probs(["a"]))
    assert found == pytest.approx([1 / 9, 5 / 9])


def test_probabilities_by_hand_with_attributes() -> None:
    # dog in the set: Attribute x Score = 2 x .5 = 1, as before; nothing for End. Then all five
    # outcomes weigh 1. Once dog is mentioned the set is empty, and the end weighs 5 of 9.
    found = np.exp(model_of().token_log_probs(["a", "dog"], DOG))
    assert found == pytest.approx([1 / 5, 1 / 5, 5 / 9])


def test_ngrams_by_hand() -> None:
    # After "a": dog in the set weighs 2 x .5 x 3 (bigram+) = 3, runs outside it weighs 7.
    weights: dict[tuple[tuple[int, ...], int, int], float] = {
        ((0,), 1, 1): math.log(3),
        ((0,), 0, 2): math.log(7),
    }
    model = model_of(weights)
    found = np.exp(model.token_log_probs(["a", "dog"], DOG))
    assert found[1] == pytest.approx(3 / (1 + 3 + 7 + 1 + 1))
    # Without the set, dog has its bigram-, which is 0: 1 of 1 + 1 + 7 + 1 + 5.
    found = np.exp(model.token_log_probs(["a", "dog"]))
    assert found[1] == pytest.approx(1 / 15)


def test_each_order_has_a_weight_of_its_own() -> None:
    for length in (1, 2, 3):
        context = (2, 1, 0)[3 - length :]
        model = model_of({(context, 0, 2): math.log(4)})
        held = np.zeros((1, 4), dtype=np.bool_)
        at = np.array([[2, 1, 0]], dtype=np.int32)
        elsewhere = at.copy()
        elsewhere[0, 3 - length] = 5
        nothing = np.zeros(4, dtype=np.float32)
        assert model.score_next(at, held, nothing)[0, 2] == pytest.approx(math.log(4))
        assert model.score_next(elsewhere, held, nothing)[0, 2] == 0


def test_unknown_words_are_scored() -> None:
    assert np.exp(model_of().token_log_probs(["zebra"])) == pytest.approx([1 / 9, 5 / 9])


def random_model(seed: int = 0, *, bilinear: bool = False) -> MaxEnt:
    rng = np.random.default_rng(seed)
    model = model_of(
        unigram=rng.normal(size=(2, 5)).astype(np.float32),
        log_bilinear=LogBilinear(
            *(rng.normal(size=shape).astype(np.float32) for shape in ((6, 3), (3, 3), (5, 3)))
        )
        if bilinear
        else None,
    )
    table = rng.normal(size=1 << BITS).astype(np.float32)
    return MaxEnt(**{**_fields(model), "table": padded_table(table, 5)})  # type: ignore[arg-type]


def _fields(model: MaxEnt) -> dict[str, object]:
    return {k: v for k, v in vars(model).items() if k != "words"}


@pytest.mark.parametrize("bilinear", [False, True])
def test_sums_to_one(bilinear: bool) -> None:
    model = random_model(bilinear=bilinear)
    rng = np.random.default_rng(1)
    histories = rng.integers(0, 6, size=(50, 3)).astype(np.int32)
    remaining = rng.random((50, 4)) < 0.3
    found = model.log_probs_next(histories, remaining, np.log(rng.random(4)).astype(np.float32))
    assert np.exp(found).sum(axis=1) == pytest.approx(np.ones(50), abs=1e-6)


def test_bit_sets_give_the_same_scores() -> None:
    model = random_model()
    rng = np.random.default_rng(2)
    histories = rng.integers(0, 6, size=(20, 3)).astype(np.int32)
    remaining = rng.random((20, 4)) < 0.5
    scores = np.zeros(4, dtype=np.float32)
    packed = model.score_next(histories, pack(remaining), scores)
    assert np.array_equal(packed, model.score_next(histories, remaining, scores))


def test_a_sentence_is_the_sum_of_its_tokens() -> None:
    model = random_model()
    tokens = ["a", "dog", "runs", "dog"]
    assert model.sentence_log_prob(tokens, DOG) == pytest.approx(
        model.token_log_probs(tokens, DOG).sum()
    )
    assert model.sentence_log_prob(tokens, DOG) != model.sentence_log_prob(tokens, NO_ATTRIBUTES)


def test_followers_and_frequent() -> None:
    model = model_of()
    assert model.followers(0).tolist() == [1]
    assert model.followers(model.start_id).tolist() == [0]
    assert model.frequent(2).tolist() == [0, 1]
    with pytest.raises(InputError, match="id "):
        model.followers(model.end_id)


@pytest.mark.parametrize("bilinear", [False, True])
def test_round_trip(tmp_path: Path, bilinear: bool) -> None:
    model = random_model(bilinear=bilinear)
    model.save(tmp_path)
    again = MaxEnt.load(tmp_path)
    tokens = ["a", "dog", "zebra"]
    assert np.array_equal(model.token_log_probs(tokens, DOG), again.token_log_probs(tokens, DOG))
    assert again.followers(0).tolist() == [1]


def test_one_byte_a_weight(tmp_path: Path) -> None:
    model = random_model()
    small = model.quantised()
    assert small.table.dtype == np.int8
    small.save(tmp_path)
    tokens = ["a", "dog", "runs"]
    stored = MaxEnt.load(tmp_path).token_log_probs(tokens, DOG)
    assert np.array_equal(stored, small.token_log_probs(tokens, DOG))
    step = np.abs(model.table).max() / 127  # each of three weights is off by half of it at most
    assert np.abs(stored - model.token_log_probs(tokens, DOG)).max() < 2 * 3 * step / 2


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"language\.json"):
        MaxEnt.load(tmp_path)
    model_of().save(tmp_path)
    header = tmp_path / "language.json"
    good = json.loads(header.read_text(encoding="utf-8"))
    for change, message in (
        ({"hash": "other"}, "'other'"),
        ({"table_bits": 13}, r"2\^13 weights"),
        ({"words": 9}, "3 words, .* 9"),
        ({"version": 2}, "version 2"),
        ({"order": None}, "order is None"),
    ):
        header.write_text(json.dumps({**good, **change}), encoding="utf-8")
        with pytest.raises(BundleError, match=message):
            MaxEnt.load(tmp_path)
    header.write_text(json.dumps(good), encoding="utf-8")
    (tmp_path / "language.npz").write_bytes(b"PK nonsense")
    with pytest.raises(BundleError, match="damaged"):
        MaxEnt.load(tmp_path)


def test_sizes_that_disagree_are_refused() -> None:
    fields = _fields(model_of())
    with pytest.raises(InputError, match=r"end .*\(3,\)"):
        MaxEnt(**{**fields, "end": np.zeros(3, np.float32)})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="table"):
        MaxEnt(**{**fields, "table": np.zeros(100, np.float32)})  # type: ignore[arg-type]


def test_attributes_keep_their_scores() -> None:
    assert isinstance(DOG, Attributes)
    assert DOG.word_log_probs(4).tolist() == pytest.approx([0, math.log(0.5), 0, 0])
