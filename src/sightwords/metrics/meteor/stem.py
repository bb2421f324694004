"""Snowball's English stemmer ("Porter 2") as METEOR 1.5 carries it: word -> stem.

http://snowball.tartarus.org/algorithms/english/stemmer.html, in the form of about 2010. Later
releases of Snowball changed the English rules more than once, and a changed stem is a changed
METEOR score; so this is a port of the rules of that time and not a dependency that moves on.

>>> [stem(word) for word in ("riding", "skies", "happily", "generously", "women's")]
['ride', 'sky', 'happili', 'generous', 'women']
"""

from __future__ import annotations

import functools
import re

VOWELS = "aeiouy"

WHOLE_WORDS = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
DONE_AFTER_PLURAL = frozenset(
    ("inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed")
)
# Longest first wherever one ending ends in another: the first hit is the one that counts.
STEP_2 = {
    "ational": "ate",
    "fulness": "ful",
    "iveness": "ive",
    "ization": "ize",
    "ousness": "ous",
    "biliti": "ble",
    "lessli": "less",
    "tional": "tion",
    "alism": "al",
    "aliti": "al",
    "ation": "ate",
    "entli": "ent",
    "fulli": "ful",
    "iviti": "ive",
    "ousli": "ous",
    "abli": "able",
    "alli": "al",
    "anci": "ance",
    "ator": "ate",
    "enci": "ence",
    "izer": "ize",
    "bli": "ble",
    "ogi": "og",
    "li": "",
}
STEP_3 = {
    "ational": "ate",
    "tional": "tion",
    "alize": "al",
    "ative": "",
    "icate": "ic",
    "iciti": "ic",
    "ical": "ic",
    "ness": "",
    "ful": "",
}
STEP_4 = (
    *("ement", "able", "ance", "ence", "ible", "ment", "ant", "ate", "ent", "ion", "ism", "iti"),
    *("ive", "ize", "ous", "al", "er", "ic"),
)

_PAST_VOWEL_THEN_OTHER = re.compile(f"[^{VOWELS}]*[{VOWELS}]+[^{VOWELS}]", re.DOTALL)
_HAS_VOWEL = re.compile(f"[{VOWELS}]")
_SHORT_SYLLABLE = re.compile(f"[^{VOWELS}][{VOWELS}][^{VOWELS}wxY]$|^[{VOWELS}][^{VOWELS}]$")


@functools.lru_cache(maxsize=1 << 16)  # evaluations in one process share their words
def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two characters are their own stem."""
    if word in WHOLE_WORDS:
        return WHOLE_WORDS[word]
    if len(word) < 3:
        return word
    word = _mark_consonant_y(word.removeprefix("'"))
    region_1, region_2 = _regions(word)
    word = _plural(_possessive(word))
    if word not in DONE_AFTER_PLURAL:
        word = _final_y(_past_and_gerund(word, region_1))
        word = _derived(_derived_twice(word, region_1), region_1, region_2)
        word = _final_e_or_l(_residue(word, region_2), region_1, region_2)
    return word.replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """Write Y for a y that sounds as a consonant: at the beginning, or after a vowel."""
    if "y" not in word:
        return word
    letters = list(word)
    for i, letter in enumerate(letters):
        if letter == "y" and (i == 0 or letters[i - 1] in VOWELS):
            letters[i] = "Y"
    return "".join(letters)


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 begin: after the first, and the second, consonant that follows a vowel."""
    prefix = next((p for p in ("gener", "commun", "arsen") if word.startswith(p)), None)
    if prefix:
        region_1 = len(prefix)
    else:
        hit = _PAST_VOWEL_THEN_OTHER.match(word)
        region_1 = hit.end() if hit else len(word)
    hit = _PAST_VOWEL_THEN_OTHER.match(word, region_1)
    return region_1, hit.end() if hit else len(word)


def _possessive(word: str) -> str:
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            return word[: -len(ending)]
    return word


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _HAS_VOWEL.search(word[:-2]):
        return word[:-1]
    return word


def _past_and_gerund(word: str, region_1: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            return word[: -len(ending)] + "ee" if len(word) - len(ending) >= region_1 else word
    ending = next((e for e in ("ingly", "edly", "ing", "ed") if word.endswith(e)), "")
    if not ending or not _HAS_VOWEL.search(word[: -len(ending)]):
        return word
    word = word[: -len(ending)]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word.endswith(("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")):
        return word[:-1]
    return word + "e" if len(word) == region_1 and _SHORT_SYLLABLE.search(word) else word


def _final_y(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
        return word[:-1] + "i"
    return word


def _derived_twice(word: str, region_1: int) -> str:
    ending = next((e for e in STEP_2 if word.endswith(e)), None)
    if ending is None or len(word) - len(ending) < region_1:
        return word
    rest = word[: -len(ending)]
    if (ending == "ogi" and not rest.endswith("l")) or (
        ending == "li" and (not rest or rest[-1] not in "cdeghkmnrt")
    ):
        return word
    return rest + STEP_2[ending]


def _derived(word: str, region_1: int, region_2: int) -> str:
    ending = next((e for e in STEP_3 if word.endswith(e)), None)
    if ending is None:
        return word
    if len(word) - len(ending) < (region_2 if ending == "ative" else region_1):
        return word
    return word[: -len(ending)] + STEP_3[ending]


def _residue(word: str, region_2: int) -> str:
    ending = next((e for e in STEP_4 if word.endswith(e)), None)
    if ending is None or len(word) - len(ending) < region_2:
        return word
    rest = word[: -len(ending)]
    return word if ending == "ion" and not rest.endswith(("s", "t")) else rest


def _final_e_or_l(word: str, region_1: int, region_2: int) -> str:
    rest = word[:-1]
    if word.endswith("e"):
        drop = len(rest) >= region_2 or (len(rest) >= region_1 and not _SHORT_SYLLABLE.search(rest))
    else:
        drop = word.endswith("ll") and len(rest) >= region_2
    return rest if drop else word
