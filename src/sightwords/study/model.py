"""What a study consists of: frozen dataclasses that its parts exchange."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from sightwords.errors import StudyError

Answer = Literal["better", "same", "worse"]
"""A vote from the side of the first caption of a pair, that of the system under test."""
ANSWERS: tuple[Answer, ...] = ("better", "same", "worse")

Choice = Literal["first", "same", "second"]
"""A vote as the judge gives it, who sees the captions in either order."""
CHOICES: tuple[Choice, ...] = ("first", "same", "second")

Origin = Literal["human", "simulated", "model"]
ORIGINS: tuple[Origin, ...] = ("human", "simulated", "model")
"""Whose votes a study holds; all of them share it, so that none can pass for another."""

HUMAN = "human"
"""The name that `--against` gives to captions written by people."""


@dataclass(frozen=True, slots=True)
class Design:
    """How a study is run; the defaults are the paper's (section 6.3)."""

    system: str
    """Name of the system under test."""
    against: str = HUMAN
    """`human`, or the name of the other system."""
    pairs: int = 1000
    judges_per_pair: int = 5
    pairs_per_judge: int = 20
    checks_per_judge: int = 4
    seed: int = 0
    origin: Origin = "human"
    checks_by: str = ""
    """How the wrong captions of check cases were chosen."""
    source: str = ""
    """Where the photographs came from."""

    def __post_init__(self) -> None:
        for name in ("pairs", "judges_per_pair", "pairs_per_judge"):
            if getattr(self, name) < 1:
                raise StudyError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.checks_per_judge < 0:
            raise StudyError(f"checks_per_judge is {self.checks_per_judge}; expected 0 or more")
        if self.origin not in ORIGINS:
            raise StudyError(f"origin is {self.origin!r}; expected one of {', '.join(ORIGINS)}")
        if not self.system.strip() or not self.against.strip():
            raise StudyError("both sides of a study need a name; give --name")

    @property
    def judges(self) -> int:
        """How many judges it takes when nobody is excluded.

        >>> Design("ours").judges
        250
        """
        return math.ceil(self.pairs * self.judges_per_pair / self.pairs_per_judge)

    @property
    def showings_per_judge(self) -> int:
        """Pairs and check cases together."""
        return self.pairs_per_judge + self.checks_per_judge


@dataclass(frozen=True, slots=True)
class Photo:
    """A photograph as judges see it: upright, at most 1024 px, without metadata."""

    id: str
    jpeg: bytes = field(repr=False)
    references: tuple[str, ...]
    """Human captions that metrics may be computed against: never one of a shown pair."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two captions of a photograph; the first is the system's, or the right one of a check."""

    image: str
    first: str
    second: str
    is_check: bool = False


@dataclass(frozen=True, slots=True)
class Showing:
    """A pair before one judge: captions in the order in which this judge sees them."""

    id: int
    key: str
    """Random; all that leaves the house in exports."""
    image: str
    first: str
    second: str
    number: int
    """From 1."""
    total: int


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge, or a seat that an export keeps for one."""

    id: int
    token: str
    name: str
    """Given by the platform the votes came from; empty for a judge with a link."""
    excluded: str
    """Why, or nothing."""


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair with its valid votes."""

    pair: Pair
    counts: tuple[int, int, int]
    """Votes for better, same, worse."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """One valid vote: which judge said what of which pair."""

    judge: int
    pair: int
    answer: Answer


def answer_of(choice: str, *, system_first: bool) -> Answer:
    """Undo the random order.

    >>> answer_of("first", system_first=False), answer_of("same", system_first=False)
    ('worse', 'same')
    """
    if choice == "same":
        return "same"
    if choice not in CHOICES:
        raise StudyError(f"the answer is {choice!r}; expected one of {', '.join(CHOICES)}")
    return "better" if (choice == "first") == system_first else "worse"


def choice_of(answer: str, *, system_first: bool) -> Choice:
    """The choice that means this answer in this order.

    >>> choice_of("better", system_first=False)
    'second'
    """
    if answer == "same":
        return "same"
    if answer not in ANSWERS:
        raise StudyError(f"the answer is {answer!r}; expected one of {', '.join(ANSWERS)}")
    return "first" if (answer == "better") == system_first else "second"
