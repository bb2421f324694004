"""Which objects a caption names: words -> object classes, by a table of synonyms.

The table in the package (`coco_objects.txt`) is for the 80 classes of COCO; `read_objects` reads
one of your own. Words are compared in the singular, the longest phrase first: "two hot dogs" names
a hot dog and no dog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from sightwords.errors import ScoreError

NO_OBJECT = "-"
"""The line of phrases that name no object ("train tracks")."""
KIND = "~"
"""The line of words that say what kind of animal follows ("baby elephant")."""
ANIMALS = frozenset(
    {"bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe"}
)
COLOUR_OR_FRUIT = "orange"
_AFTER_A_FRUIT = frozenset(
    [
        "and",
        "or",
        "in",
        "on",
        "with",
        "of",
        "is",
        "are",
        "that",
        "next",
        "sitting",
        ",",
        "from",
        "at",
        "to",
        "for",
    ]
)
_IRREGULAR = {
    "men": "man", "women": "woman", "people": "people", "children": "child", "mice": "mouse",
    "knives": "knife", "wives": "wife", "calves": "calf", "geese": "goose", "buses": "bus",
    "oxen": "ox", "loaves": "loaf", "skis": "ski", "policemen": "policeman", "firemen": "fireman",
    "gentlemen": "gentleman", "businessmen": "businessman", "ponies": "pony", "ladies": "lady",
    "babies": "baby", "puppies": "puppy", "tvs": "tv", "halves": "half", "scissors": "scissors",
    "ties": "tie", "neckties": "necktie", "bowties": "bowtie", "pies": "pie", "collies": "collie",
    "hoagies": "hoagie",
}  # fmt: skip
_SAME = frozenset({"bus", "tennis", "glass", "grass", "dress", "cross", "process", "across", "gas"})


@dataclass(frozen=True)
class Objects:
    """A table of object words."""

    words: Mapping[tuple[str, ...], str]
    """Word or phrase, in the singular -> class; an empty class names no object."""
    kinds: frozenset[str]
    """Words that describe an animal that follows them."""

    @property
    def classes(self) -> frozenset[str]:
        """Every object class."""
        return frozenset(self.words.values()) - {""}

    def named(self, tokens: Sequence[str]) -> list[str]:
        """The classes that a caption names, one entry per mention, in order.

        >>> coco_objects().named("a baby elephant beside two men on train tracks".split())
        ['elephant', 'person']
        >>> coco_objects().named("an orange cat next to a bowl of oranges".split())
        ['cat', 'bowl', 'orange']
        """
        words = [singular(token) for token in tokens]
        longest = max(map(len, self.words))
        found: list[str] = []
        start = 0
        while start < len(words):
            for length in range(min(longest, len(words) - start), 0, -1):
                name = self.words.get(tuple(words[start : start + length]))
                if name is not None:
                    break
            else:
                start += 1
                continue
            if name and not self._only_describes(name, tokens, words, start):
                found.append(name)
            start += length
        return found

    def _only_describes(
        self, name: str, tokens: Sequence[str], words: Sequence[str], start: int
    ) -> bool:
        """Whether the word at `start` describes the next one: baby elephant, orange cat."""
        after = words[start + 1] if start + 1 < len(words) else None
        if words[start] in self.kinds:
            return after is not None and self.words.get((after,)) in ANIMALS
        if name == COLOUR_OR_FRUIT and tokens[start] == COLOUR_OR_FRUIT:
            return after is not None and after not in _AFTER_A_FRUIT
        return False


@cache
def coco_objects() -> Objects:
    """The table of the 80 classes of COCO."""
    text = files("sightwords.metrics").joinpath("coco_objects.txt").read_text("utf-8")
    return _parsed(text, "coco_objects.txt")


def read_objects(path: str | Path) -> Objects:
    """Read a table: one line `CLASS: word, word, ...` per class, in the singular."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScoreError(f"{path}: cannot be read as a table of objects: {error}") from error
    return _parsed(text, str(path))


def singular(word: str) -> str:
    """The singular of an English noun as captions write it; other words may change, too.

    >>> [singular(w) for w in ("buses", "sandwiches", "ponies", "ties", "skis", "grass", "knives")]
    ['bus', 'sandwich', 'pony', 'tie', 'ski', 'grass', 'knife']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _SAME or not word.endswith("s") or word.endswith("ss") or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("shes", "ches", "xes", "sses")):
        return word[:-2]
    return word[:-1]


def _parsed(text: str, where: str) -> Objects:
    words: dict[tuple[str, ...], str] = {}
    kinds: frozenset[str] = frozenset()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, listed = line.partition(":")
        if not colon or not listed.strip():
            raise ScoreError(f"{where}, line {number}: {line!r}; expected CLASS: word, word, ...")
        phrases = [tuple(phrase.split()) for phrase in listed.split(",") if phrase.strip()]
        name = name.strip().lower()
        if name == KIND:
            kinds = frozenset(word for (word,) in phrases)
            continue
        for phrase in phrases:
            key = tuple(singular(word.lower()) for word in phrase)
            known = words.setdefault(key, "" if name == NO_OBJECT else name)
            if known != ("" if name == NO_OBJECT else name):
                raise ScoreError(
                    f"{where}, line {number}: {' '.join(phrase)!r} belongs to {known!r} already"
                )
    if not any(words.values()):
        raise ScoreError(f"{where}: names no object; expected lines CLASS: word, word, ...")
    return Objects(words, kinds)
