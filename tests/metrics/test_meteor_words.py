"""METEOR's stemmer and normaliser: values that its jar gives."""

from __future__ import annotations

import pytest

from sightwords.metrics.meteor.stem import stem
from sightwords.metrics.meteor.text import normalize, sentence_text

STEMS = """
    a a, at at, as as, skis ski, dying die, sky sky, news news, bias bias, only onli, ugly ugli,
    caresses caress, ponies poni, ties tie, cries cri, dies die, gas gas, gaps gap, bus bus,
    grass grass, kiwis kiwi, this this, agreed agre, feed feed, plastered plaster, bled bled,
    motoring motor, sing sing, luxuriating luxuri, hopping hop, hoping hope, falling fall,
    hissing hiss, filing file, bowing bow, playing play, say say, happy happi, by by,
    relational relat, conditional condit, rational ration, digitizer digit, radically radic,
    differently differ, analogously analog, generation generat, communism communism,
    generously generous, arsenic arsenic, hopefulness hope, formality formal, sensibility sensibl,
    apology apolog, goodness good, triplicate triplic, formative format, electrical electr,
    adjustment adjust, irritant irrit, adoption adopt, replacement replac, probate probat,
    controlling control, roll roll, succeed succeed, herring herring, herrings herring,
    inning inning, innings inning, dog's dog, dogs' dog, 's 's, 'tis tis, youth youth, boy boy,
    boyish boyish, yes yes, toyed toy, skiing ski, women women, café café, knackeries knackeri,
    vietnamization vietnam
"""


@pytest.mark.parametrize("pair", [pair.strip() for pair in STEMS.split(",")])
def test_stems(pair: str) -> None:
    word, expected = pair.split()
    assert stem(word) == expected


PREFIXES = {"vs": False, "no": True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("  a  dog ", "a dog"),
        ("A Dog", "a dog"),
        ("black-and-white", "black and white"),
        ("a-b-c", "a b-c"),  # overlapping matches are not found
        ("the dog's", "the dog 's"),
        ("the dog 's", "the dog ' s"),
        ("do n't", "do n 't"),
        ("rock ' n ' roll", "rock ' n ' roll"),
        ("1990's", "1990 's"),
        ("-lrb- x -rrb-", "-lrb- x -rrb-"),
        ("1,000 men, 2 dogs", "1,000 men , 2 dogs"),
        ("u.s. army", "us army"),
        ("dogs vs. cats", "dogs vs. cats"),
        ("no. 5", "no. 5"),
        ("no. Five", "no . five"),
        ("the end.", "the end ."),
        ("wait... what", "wait ... what"),
        ("50% of $5", "50 % of $ 5"),
        ("“hi” ``you''", '" hi " " you "'),
        ("a–b -- c", "a - b - c"),
        ("café 日本", "café 日 本"),
        ("a\u00a0b\u3000c", "a b c"),
    ],
)
def test_normalisation(text: str, words: str) -> None:
    assert normalize(text, PREFIXES) == words.split()


def test_the_field_separator_and_line_ends_cannot_be_part_of_a_caption() -> None:
    assert sentence_text(("a", "|||", "dog|||s", "x\ny\r")).split() == ["a", "dogs", "x", "y"]
