"""Coarse parts of speech by majority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from sightwords.errors import InputError, MissingExtraError
from sightwords.text.pos import (
    C5_TO_COARSE,
    c5_to_coarse,
    coarse_pos,
    count_tags,
    hanta_tagger,
    majority_tag,
)
from sightwords.text.vocabulary import COARSE_TAGS

SAMPLE = Path(__file__).parent / "pos_sample.tsv"


def after_to_is_a_verb(tokens: Sequence[str]) -> list[str]:
    return [
        "VB" if i and tokens[i - 1] == "to" else "other" if word == "to" else "NN"
        for i, word in enumerate(tokens)
    ]


def test_the_majority_over_captions_decides() -> None:
    captions = [["to", "swing"], ["a", "swing"], ["swing"], []]
    counts = count_tags(captions, after_to_is_a_verb)
    assert counts["swing"] == Counter(NN=2, VB=1)
    assert coarse_pos(["swing", "to", "zebra"], captions, tagger=after_to_is_a_verb) == {
        "swing": "NN",
        "to": "other",
        "zebra": "other",
    }


def test_only_the_words_asked_for_are_counted_but_all_are_context() -> None:
    assert count_tags([["to", "swing"]], after_to_is_a_verb, words=["swing"]) == {
        "swing": Counter(VB=1)
    }


def test_ties_go_by_the_order_of_the_classes() -> None:
    assert majority_tag({"other": 1, "IN": 1}) == "IN"
    assert majority_tag({"IN": 1, "JJ": 1, "VB": 1}) == "VB"


def test_broken_taggers_are_named() -> None:
    with pytest.raises(InputError, match=r"1 .*2 "):
        count_tags([["a", "dog"]], lambda tokens: ["DT"])
    with pytest.raises(InputError, match="'NNS'"):
        majority_tag({"NNS": 1})


def test_the_table_ends_in_the_coarse_classes() -> None:
    assert set(C5_TO_COARSE.values()) == set(COARSE_TAGS) - {"other"}


def test_c5_follows_penn_where_the_word_decides() -> None:
    assert c5_to_coarse("to", "PRP") == c5_to_coarse("to", "TO0") == "other"
    assert c5_to_coarse("many", "DT0") == "JJ"
    assert c5_to_coarse("this", "DT0") == "DT"
    assert c5_to_coarse("two", "CRD") == "other"


def test_the_sample_is_two_hundred_words() -> None:
    rows = [
        line.split("\t")
        for line in SAMPLE.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    assert len({word for word, _ in rows}) == len(rows) == 200
    assert {tag for _, tag in rows} == set(COARSE_TAGS)


def test_hanta_on_captions_worked_by_hand() -> None:
    pytest.importorskip("HanTa")
    tagger = hanta_tagger()
    caption = ["a", "young", "man", "rides", "his", "two", "horses", "on", "the", "beach"]
    assert tagger(caption) == [
        "DT", "JJ", "NN", "VB", "PRP", "other", "NN", "IN", "DT", "NN",
    ]  # fmt: skip
    assert tagger([]) == []
    assert coarse_pos(["horses"], [caption]) == {"horses": "NN"}


def test_without_hanta_the_message_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    def refuse(name: str, *args: object) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.delitem(sys.modules, "HanTa", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'sightwords\[pos\]'"):
        hanta_tagger()
