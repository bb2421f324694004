"""The parts of a study, as frozen dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from sightwords.errors import StudyError

Answer = Literal["better", "same", "worse"]
"""A vote from the view of the system under test, whose caption is the first of a pair."""
ANSWERS: tuple[Answer, ...] = ("better", "same", "worse")

Choice = Literal["first", "same", "second"]
"""A vote as the judge gives it; judges see the captions in random order."""
CHOICES: tuple[Choice, ...] = ("first", "same", "second")

Origin = Literal["human", "simulated", "model"]
ORIGINS: tuple[Origin, ...] = ("human", "simulated", "model")
"""Who votes. All votes of a study share it, so that none can pass for another kind."""

HUMAN = "human"
"""The value of `--against` for captions written by people."""


@dataclass(frozen=True, slots=True)
class Design:
    """The settings of a study; the defaults are the values of the paper (section 6.3)."""

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
    """The measure by which the wrong captions of check cases were chosen."""
    source: str = ""
    """Where the photos come from."""

    def __post_init__(self) -> None:
        for name in ("pairs", "judges_per_pair", "pairs_per_judge"):
            if getattr(self, name) < 1:
                raise StudyError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.checks_per_judge < 0:
            raise StudyError(f"checks_per_judge is {self.checks_per_judge}; expected 0 or more")
        if self.origin not in ORIGINS:
            raise StudyError(f"origin is {self.origin!r}; expected one of {', '.join(ORIGINS)}")
        if not self.system.strip() or not self.against.strip():
            raise StudyError(
                "both sides of a study need a name, and one is empty; give --set name=NAME"
            )

    @property
    def judges(self) -> int:
        """How many judges are needed if nobody is excluded.

        >>> Design("ours").judges
        250
        """
        return math.ceil(self.pairs * self.judges_per_pair / self.pairs_per_judge)

    @property
    def showings_per_judge(self) -> int:
        """Pairs plus check cases."""
        return self.pairs_per_judge + self.checks_per_judge


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo as judges see it: upright, at most 1024 px, without metadata."""

    id: str
    jpeg: bytes = field(repr=False)
    references: tuple[str, ...]
    """Human captions for metrics; never one that is in a pair."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two captions of a photo; the first is that of the system, or the right one of a check."""

    image: str
    first: str
    second: str
    is_check: bool = False


@dataclass(frozen=True, slots=True)
class Showing:
    """A pair shown to one judge, with the captions in the order that this judge sees."""

    id: int
    key: str
    """Random; the only identifier in exported files."""
    image: str
    first: str
    second: str
    number: int
    """Position in the sitting, from 1."""
    total: int


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge, or a seat reserved by an export."""

    id: int
    token: str
    name: str
    """`PLATFORM:ID`; empty for a judge with a link."""
    excluded: str
    """The reason; empty if the judge is not excluded."""


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair with its valid votes."""

    pair: Pair
    counts: tuple[int, int, int]
    """Votes for better, same, worse."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """One valid vote."""

    judge: int
    pair: int
    answer: Answer


def answer_of(choice: str, *, system_first: bool) -> Answer:
    """The answer behind a choice: undoes the random order.

    >>> answer_of("first", system_first=False), answer_of("same", system_first=False)
    ('worse', 'same')
    """
    if choice == "same":
        return "same"
    if choice not in CHOICES:
        raise StudyError(f"the answer is {choice!r}; expected one of {', '.join(CHOICES)}")
    return "better" if (choice == "first") == system_first else "worse"


def choice_of(answer: str, *, system_first: bool) -> Choice:
    """The choice that means this answer: applies the random order.

    >>> choice_of("better", system_first=False)
    'second'
    """
    if answer == "same":
        return "same"
    if answer not in ANSWERS:
        raise StudyError(f"the answer is {answer!r}; expected one of {', '.join(ANSWERS)}")
    return "first" if (answer == "better") == system_first else "second"
