"""The PTB tokeniser: what Java printed for awkward captions, and that the memo changes nothing."""

from __future__ import annotations

import gc
import json
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.text.ptb import (
    PUNCTUATION,
    clear_memo,
    ptb_tokens,
    tokenize,
    tokenize_all,
    tokenize_file,
)
from sightwords.text.ptb import captions as ptb
from sightwords.text.ptb.actions import Action
from sightwords.text.ptb.automaton import Automaton, State
from sightwords.text.ptb.lexer import lexer, to_units
from sightwords.text.ptb.rules import RULES

CASES: dict[str, list[tuple[str, str]]] = json.loads(
    (Path(__file__).parent / "ptb_cases.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("group", CASES)
def test_frozen_lines_of_java(group: str) -> None:
    """Each text with the line that Java printed for it; `tests/parity` asks Java again."""
    for _ in range(2):  # cut, then remembered
        wrong = {t: ptb_tokens(t) for t, line in CASES[group] if " ".join(ptb_tokens(t)) != line}
        assert wrong == {}
        assert [t for t, line in CASES[group] if tokenize(t) != coco_words(line)] == []


def coco_words(line: str) -> list[str]:
    """What the COCO tools make of a printed line."""
    return [w for w in line.rstrip().split(" ") if w and w not in PUNCTUATION]


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A man's dog, running.", "a man 's dog running"),
        ("They can't (or won't) stop!", "they ca n't -lrb- or wo n't -rrb- stop"),
        ('A sign says "Don\'t walk" -- twice...', "a sign says do n't walk twice"),
        ("Mr. Smith of Acme Inc.", "mr. smith of acme inc."),
        ("in the U.S. The end.", "in the u.s. the end"),
        ("half [1/2] of {it}; $5 & 50%", "half -lsb- 1/2 -rsb- of -lcb- it -rcb- $ 5 & 50 %"),
        ("gonna \N{GRINNING FACE} cannot", "gon na can not"),
        (" \t ", ""),
    ],
)
def test_coco_form(caption: str, words: str) -> None:
    assert tokenize(caption) == words.split()


def test_a_token_may_hold_a_no_break_space() -> None:
    assert tokenize("1 1/2 cups") == ["1\u00a01/2", "cups"]


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x0c", "\u2028", "\u2029", "\n", "\r\n"])
def test_one_list_a_caption_whatever_ends_lines(separator: str) -> None:
    captions = [f"A dog{separator}a cat", "a bird", separator, ""]
    assert tokenize_all(captions) == [["a", "dog", "a", "cat"], ["a", "bird"], [], []]


def test_an_address_loses_the_exotic_space_at_the_end_of_its_line_alone() -> None:
    assert tokenize("x@y\u205f") == ["x@y"]
    assert tokenize("x@y\u205f dog") == ["x@y\u205f", "dog"]


def test_neighbours_do_not_matter() -> None:
    assert tokenize_all(["vitamin C.", "The dog"]) == [["vitamin", "c."], ["the", "dog"]]
    assert tokenize("vitamin C. The dog") == ["vitamin", "c", "the", "dog"]


def lexed(text: str) -> list[str]:
    """Token by token, without chunks and memo."""
    units = to_units(text.replace("\n", " "))
    whole, at, tokens = units + "\n\n", 0, []
    while at < len(units):
        token, at, _ = lexer().token(whole, at)
        if token is not None:
            tokens.append(token)
    return tokens


PIECES = [*" \t.,:'\"-/()<>&@#$!?02aAsStTx\r\n\u00a0\u00ad\u2003\u2019\u2028\u3000😀", "  ", ". "]
PIECES += ["cannot", "it's", "n't", "U.S. ", "Inc. ", "The ", "fig. ", "1 1/2", "12 345 6789"]
PIECES += ["a.com", "x@y", "<b c='d'>", ":)", ". . .", "'90 ", "dog", " the "]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=5))
def test_memo_changes_nothing(captions: list[str]) -> None:
    """The memo is kept from example to example, so chunks meet many neighbours."""
    for caption in captions:
        assert ptb_tokens(caption) == lexed(caption)
    expected = [coco_words(" ".join(lexed(caption))) for caption in captions]
    assert tokenize_all(captions) == expected
    assert [tokenize(c) for c in captions] == expected


@given(st.text(alphabet=st.characters()))  # surrogates without partner included
def test_any_string_gives_lower_case_tokens(text: str) -> None:
    tokens = ptb_tokens(text)
    assert all(tokens)
    assert tokens == lexed(text)
    # Java's choice between the two small sigmas is not Python's.
    assert all(t.replace("ς", "σ") == t.lower().replace("ς", "σ") for t in tokens)


def test_plain_words_need_no_automaton() -> None:
    """`_plain_word` is right for every word: shown for each state that letters can lead to.

    All states here accept, so what follows a word depends on the state alone, and one word a
    state stands for all that lead there.
    """
    automaton = lexer()._automaton
    words = word_of_each_state(automaton)
    assert len(words) > 300
    for state, word in words.items():
        assert state.rule >= 0, word
        is_split = word.lower() in ptb._SPLIT_WORDS
        assert is_split == is_cut(RULES[state.rule].action), word
        if not is_split:
            token, end, reach = lexer().token(word + " q", 0)
            assert (token, end) == (word.lower(), len(word))
            assert reach <= len(word) + 1
            assert lexer().token(word + "\n\n", 0)[:2] == (word.lower(), len(word))


def is_cut(action: Action) -> bool:
    return action("letters")[1] != len("letters")


def word_of_each_state(automaton: Automaton) -> dict[State, str]:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    found: dict[State, str] = {}
    waiting = [(automaton._start, "")]
    while waiting:
        state, word = waiting.pop()
        for letter in letters:
            following = automaton._grow(state, automaton.alphabet.letter_of[ord(letter)])
            assert following is not None
            if following not in found:
                found[following] = word + letter
                waiting.append((following, word + letter))
    return found


def test_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptb, "_MOST_KEYS", 100)
    clear_memo()
    for n in range(500):
        assert tokenize(f"w{n}x, dog{n} 7 v{n}.") == [f"w{n}x", f"dog{n}", "7", f"v{n}"]
    tables = (ptb._MEMO, ptb._OPEN, ptb._AHEAD)
    assert all(0 < len(table) <= 100 for table in tables)
    tokenize("a" * 10_000 + " b")
    assert max(len(chunk) for table in tables for chunk in table) < 100


def test_threads_agree() -> None:
    captions = [text for cases in CASES.values() for text, _ in cases]
    expected = tokenize_all(captions)
    clear_memo()
    lexer.cache_clear()
    results: list[list[list[str]]] = []
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda: results.append(tokenize_all(captions)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert results == [expected] * 4


def test_garbage_collection_is_left_as_found() -> None:
    assert gc.isenabled()
    with pytest.raises(AttributeError):
        tokenize_all([None])  # type: ignore[list-item]
    assert gc.isenabled()
    gc.disable()
    try:
        tokenize_all(["a dog"])
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_file_shows_through_only_at_initials_and_at_its_end() -> None:
    lines = ["letter C.", "The dog", "letter C.", "dogs", "Ave S. ", "A", "fun :)", "fun :)"]
    alone = tokenize_all(lines)
    together = tokenize_file(lines)
    assert together[0] == ["letter", "c"]  # before a word that begins sentences
    assert together[2] == alone[2] == ["letter", "c."]
    assert together[4] == ["ave", "s"]
    assert (together[6], together[7]) == (["fun", ":-rrb-"], ["fun", "-rrb-"])
    assert [together[i] == alone[i] for i in (1, 3, 5)] == [True] * 3
    assert tokenize_file(["an A.", "", " ", "The dog"])[0] == ["an", "a"]
    assert tokenize_file(["an A.", "The"])[0] == ["an", "a."]
    assert tokenize_file([]) == []
