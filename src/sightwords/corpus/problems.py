"""What is wrong with a corpus, by name, with what to do about it.

A reader never stops at a bad record: it adds a `Problem` to a `Problems` and continues. With
`strict=True` the first problem is raised as a `CorpusError` instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from sightwords.errors import CorpusError


class Kind(str, Enum):
    """Every kind of problem; the value is its name in reports and files."""

    MISSING_IMAGE = "missing-image"
    UNREADABLE_IMAGE = "unreadable-image"
    DUPLICATE_ID = "duplicate-id"
    EMPTY_CAPTION = "empty-caption"
    NO_CAPTIONS = "no-captions"
    CAPTION_WITHOUT_IMAGE = "caption-without-image"
    WRONG_ENCODING = "wrong-encoding"
    MALFORMED_RECORD = "malformed-record"
    MISSING_COLUMNS = "missing-columns"
    TRUNCATED_FILE = "truncated-file"
    DAMAGED_FILE = "damaged-file"
    UNREADABLE_FILE = "unreadable-file"

    def __str__(self) -> str:
        return self.value


REMEDIES: dict[Kind, str] = {
    Kind.MISSING_IMAGE: "put the image there, remove the record, or name the folder with --images",
    Kind.UNREADABLE_IMAGE: "download or export the image again, or remove the record",
    Kind.DUPLICATE_ID: "only the first was kept; give each image its own id, or merge the records",
    Kind.EMPTY_CAPTION: "write a caption there, or remove the row; the image's others were kept",
    Kind.NO_CAPTIONS: "add a caption or remove the image; it was left out",
    Kind.CAPTION_WITHOUT_IMAGE: "name the image in that row, or remove the row",
    Kind.WRONG_ENCODING: "save the file as UTF-8, or name its encoding with --set encoding=NAME",
    Kind.MALFORMED_RECORD: "fix that record; only it was left out",
    Kind.MISSING_COLUMNS: "add a header with 'image' and 'caption', or name the columns "
    "with --set image_column=COLUMN and --set captions=COLUMN",
    Kind.TRUNCATED_FILE: "copy or download the file again; every whole record before the cut "
    "was read",
    Kind.DAMAGED_FILE: "copy or download the file again; the records around the damage were read",
    Kind.UNREADABLE_FILE: "check the path and its permissions; the other files were read",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one record or file."""

    kind: Kind
    where: str
    """`file:line`, `shard::member` or `file record 3`."""
    found: str
    """What is there."""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES[self.kind]

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.found}; {self.remedy}"


@dataclass(slots=True)
class Problems:
    """Counts every problem, keeps the first of each kind, or raises the first of all.

    >>> problems = Problems()
    >>> problems.add(Kind.EMPTY_CAPTION, "captions.csv:7", "a caption of spaces")
    >>> print(problems.first(Kind.EMPTY_CAPTION)[0].where, len(problems))
    captions.csv:7 1
    """

    strict: bool = False
    on_problem: Callable[[Problem], None] | None = None
    """Called with each problem, kept or not: for writing a full list to a file."""
    keep: int = 100
    """How many problems of each kind are kept in memory; all are counted."""
    counts: Counter[Kind] = field(default_factory=Counter)
    kept: dict[Kind, list[Problem]] = field(default_factory=dict)

    def add(self, kind: Kind, where: str, found: str) -> None:
        """Count one problem; in strict mode raise it."""
        problem = Problem(kind, printable(where), printable(found))
        self.counts[kind] += 1
        kept = self.kept.setdefault(kind, [])
        if len(kept) < self.keep:
            kept.append(problem)
        if self.on_problem is not None:
            self.on_problem(problem)
        if self.strict:
            raise CorpusError(str(problem))

    def first(self, kind: Kind) -> list[Problem]:
        """The first problems of a kind, in the order in which they were met."""
        return self.kept.get(kind, [])

    def summary(self) -> str:
        """How many of each kind, and the first of all; empty where nothing is wrong.

        >>> problems = Problems()
        >>> problems.add(Kind.EMPTY_CAPTION, "captions.csv:7", "a caption of spaces")
        >>> problems.summary()
        '1 empty-caption (captions.csv:7: a caption of spaces)'
        """
        told = []
        for kind, count in self.counts.items():
            first = next(iter(self.first(kind)), None)
            told.append(f"{count:,} {kind}" + (f" ({first.where}: {first.found})" if first else ""))
        return ", ".join(told)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __iter__(self) -> Iterator[Problem]:
        for kind in Kind:
            yield from self.first(kind)


def printable(text: str) -> str:
    r"""Text that any UTF-8 terminal takes, on one line: what is not printable is escaped.

    >>> printable("a\nb"), printable(b"caf\xe9".decode("utf-8", "surrogateescape"))
    ('a\\nb', 'caf\\udce9')
    """
    if text.isprintable():
        return text
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def silent() -> Problems:
    """A collector for a pass whose problems a later pass reports."""
    return Problems(keep=0)
