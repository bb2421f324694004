"""METEOR's own data for English, read where pycocoevalcap's wheel has put it.

Function words, abbreviations and WordNet synonyms lie inside `meteor-1.5.jar`, the paraphrase
table beside it. Nothing of it is part of this package: the extra `meteor` installs it.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sightwords.errors import MissingExtraError, require

# WordNet's rules of detachment: nouns, then verbs, then adjectives; the first that yields a known
# word counts. https://wordnet.princeton.edu/documentation/morphy7wn
DETACHMENTS = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
    *(("men", "man"), ("ies", "y")),
    *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")),
    *(("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)


@dataclass(frozen=True, slots=True)
class MeteorFiles:
    """Where METEOR's files are."""

    jar: Path
    paraphrases: Path


@dataclass(frozen=True, slots=True)
class Synonyms:
    """WordNet as METEOR uses it: two words are synonyms if they share a synonym set."""

    synsets: Mapping[str, str] = field(repr=False)
    """Word -> numbers of its synonym sets, separated by blanks."""
    bases: Mapping[str, tuple[str, ...]] = field(repr=False)
    """Irregular form -> its base forms: `geese` -> (`goose`,)."""

    def of(self, word: str) -> set[str]:
        """The synonym sets of a word and of its base form.

        >>> names = Synonyms({"dog": "1 2", "hound": "2", "goose": "3"}, {"geese": ("goose",)})
        >>> sorted(names.of("dogs")), sorted(names.of("geese")), names.of("dogged")
        (['1', '2'], ['3'], set())
        """
        forms = (word, *(self.bases.get(word) or (self._detach(word),)))
        return {number for form in forms for number in self.synsets.get(form, "").split()}

    def _detach(self, word: str) -> str:
        if word.endswith("ss") or len(word) <= 2:
            return word
        forms = (
            word.removesuffix(ending) + replacement
            for ending, replacement in DETACHMENTS
            if word.endswith(ending)
        )
        return next((form for form in forms if form in self.synsets), word)


@dataclass(frozen=True, slots=True)
class MeteorData:
    """Everything but the paraphrases."""

    function_words: frozenset[str] = field(repr=False)
    prefixes: Mapping[str, bool] = field(repr=False)
    """Abbreviations that keep their dot; True where only before a number."""
    synonyms: Synonyms = field(repr=False)


def meteor_files() -> MeteorFiles:
    """Find METEOR's files in the installed pycocoevalcap, or say how to install it."""
    package = require("pycocoevalcap", extra="meteor", purpose="METEOR")
    folder = Path(next(iter(package.__path__))) / "meteor"
    files = MeteorFiles(folder / "meteor-1.5.jar", folder / "data" / "paraphrase-en.gz")
    for path in (files.jar, files.paraphrases):
        if not path.is_file():
            raise MissingExtraError(
                f"METEOR needs {path.name}, which the installed pycocoevalcap lacks (looked in "
                f"{path.parent}); reinstall it with: "
                "pip install --force-reinstall --no-deps 'pycocoevalcap>=1.2'"
            )
    return files


@functools.lru_cache(maxsize=1)
def load_data(jar: Path) -> MeteorData:
    """Read the jar's resources for English."""
    with zipfile.ZipFile(jar) as archive:
        return MeteorData(
            function_words=frozenset(_lines(archive, "function/english.words")),
            prefixes=_prefixes(_lines(archive, "nonbreaking/english.prefixes")),
            synonyms=Synonyms(
                synsets=_every_other(_lines(archive, "synonym/english.synsets")),
                bases=_bases(_every_other(_lines(archive, "synonym/english.exceptions"))),
            ),
        )


def _lines(archive: zipfile.ZipFile, name: str) -> list[str]:
    return archive.read(name).decode("utf-8").splitlines()


def _every_other(lines: list[str]) -> dict[str, str]:
    return dict(zip(lines[0::2], lines[1::2], strict=True))


def _prefixes(lines: list[str]) -> dict[str, bool]:
    entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {entry[0]: entry[1:2] == ["#NUMERIC_ONLY#"] for entry in entries}


def _bases(forms_of: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    bases: dict[str, tuple[str, ...]] = {}
    for base, forms in forms_of.items():
        for form in forms.split():
            bases[form] = (*bases.get(form, ()), base)
    return bases
