"""What a cluster has done so far: a file a slice, so that machines and the driver may die.

    batch.json                 what the batch was asked for, as the journal's first line
    000003-00002-256.jsonl     slice 2 of unit 3: 256 photographs, the journal's lines
    000003-keys-15.json        unit 3 was read to its end: 15 slices, these ids, these problems

Names say all that a resumed run must know; nothing is opened to find out what is done. A slice
that two actors have written, because the first was thought lost, is one file all the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sightwords.batch.journal import line_of
from sightwords.batch.records import Record
from sightwords.batch.store import Store
from sightwords.errors import InputError

HEADER = "batch.json"


def slice_name(unit: int, number: int, images: int) -> str:
    """Of the file of a slice that was captioned.

    >>> slice_name(3, 2, 256)
    '000003-00002-256.jsonl'
    """
    return f"{unit:06d}-{number:05d}-{images}.jsonl"


def keys_name(unit: int, slices: int) -> str:
    """Of the file that says what a unit holds."""
    return f"{unit:06d}-keys-{slices}.json"


def tries_name(unit: int, number: int) -> str:
    """Of the file that counts how many actors a slice has outlived."""
    return f"{unit:06d}-{number:05d}-tries.txt"


@dataclass(slots=True)
class Done:
    """Which slices and units are done, read off the names of files."""

    slices: dict[int, dict[int, int]] = field(default_factory=dict)
    """By unit: slice -> photographs."""
    read: dict[int, int] = field(default_factory=dict)
    """Units that were read to their end -> how many slices they have."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Done:
        """Read the names; others are left alone.

        >>> Done.of(["000003-00002-256.jsonl", "000003-keys-15.json", "batch.json"])
        Done(slices={3: {2: 256}}, read={3: 15})
        """
        done = cls()
        for name in names:
            unit, _, rest = name.rpartition(".")[0].partition("-")
            what, _, count = rest.partition("-")
            if not (unit.isdecimal() and count.isdecimal()):
                continue  # the header, or what a killed machine left of a file
            if what == "keys":
                done.read[int(unit)] = int(count)
            elif what.isdecimal():
                done.slices.setdefault(int(unit), {})[int(what)] = int(count)
        return done

    def whole(self, unit: int) -> bool:
        """Whether every photograph of a unit is done."""
        return unit in self.read and len(self.slices.get(unit, ())) == self.read[unit]

    @property
    def images(self) -> int:
        """Photographs that are done."""
        return sum(sum(slices.values()) for slices in self.slices.values())


@dataclass(frozen=True, slots=True)
class Keys:
    """What a unit holds."""

    ids: list[str]
    problems: list[str]
    """Of the unit as a file: records that could not be used, a shard that could not be read."""

    def save(self, store: Store, unit: int, slices: int) -> None:
        """Say that the unit was read to its end."""
        document = {"ids": self.ids, "problems": self.problems}
        store.write(keys_name(unit, slices), json.dumps(document).encode("ascii"))

    @classmethod
    def load(cls, store: Store, unit: int, slices: int) -> Keys:
        """What `save` has written."""
        return cls(**json.loads(store.read(keys_name(unit, slices))))


def save_slice(store: Store, unit: int, number: int, records: Sequence[Record]) -> None:
    """Keep the records of one slice."""
    lines = b"".join(line_of(record) for record in records)
    store.write(slice_name(unit, number, len(records)), lines)


def load_unit(store: Store, unit: int, done: Done) -> tuple[Keys, list[Record]]:
    """A unit's keys and its records in order, exactly one for each key."""
    keys = Keys.load(store, unit, done.read[unit])
    names = [slice_name(unit, n, images) for n, images in sorted(done.slices.get(unit, {}).items())]
    records = [json.loads(line) for name in names for line in store.read(name).splitlines()]
    _check(f"{store.folder}: unit {unit}", keys.ids, [record["id"] for record in records])
    return keys, records


def _check(where: str, wanted: list[str], found: list[str]) -> None:
    """Refuse rows that are missing, doubled or nobody's, by name."""
    if wanted == found:
        return
    counts = Counter(found)
    missing = [key for key in wanted if key not in counts]
    double = [key for key, count in counts.items() if count > 1]
    other = sorted(set(counts) - set(wanted))
    said = [
        f"{len(keys)} {what} ({named(keys)})"
        for keys, what in ((missing, "missing"), (double, "double"), (other, "of no image"))
        if keys
    ]
    raise InputError(
        f"{where}: {'; '.join(said) or 'rows in another order'}: its files were changed, or its "
        f"source was; remove the files of this unit and go on with --resume"
    )


def named(keys: Sequence[str]) -> str:
    """The first of some keys.

    >>> named(["a", "b"]), named([str(n) for n in range(12)])
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...')
    """
    return ", ".join(keys[:10]) + (", ..." if len(keys) > 10 else "")
