"""What a cluster has done so far: one file per slice, so that machines and the driver may die.

    batch.json                          what the batch was asked for, as the journal's first line
    000003_9f86d081-00002-256.jsonl     slice 2 of unit 3: 256 photos, the journal's lines
    000003_9f86d081-keys-15.json        unit 3 was read to its end: 15 slices, ids, problems

The names tell a resumed run what is done; no file is opened for that. The number of a unit is
followed by its stamp: files of a unit whose photos have changed since do not count, even if a
machine that was thought lost writes them late. A slice that two actors have written is still one
file. A damaged file is removed, and its photos are captioned again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sightwords.batch.journal import line_of, record_of
from sightwords.batch.ray.store import Store
from sightwords.batch.records import Record, is_record
from sightwords.errors import InputError

HEADER = "batch.json"


class DamagedPartsError(InputError):
    """Files of some slices were damaged and have been removed: caption these slices again."""


def slice_name(unit: int, number: int, images: int, stamp: str = "") -> str:
    """The name of the file of a slice that was captioned.

    >>> slice_name(3, 2, 256), slice_name(3, 2, 256, "9f86d081")
    ('000003-00002-256.jsonl', '000003_9f86d081-00002-256.jsonl')
    """
    return f"{_head(unit, stamp)}-{number:05d}-{images}.jsonl"


def keys_name(unit: int, slices: int, stamp: str = "") -> str:
    """The name of the file that lists what a unit holds."""
    return f"{_head(unit, stamp)}-keys-{slices}.json"


def tries_name(unit: int, number: int, stamp: str = "") -> str:
    """The name of the file that counts the actors that were lost with a slice, and where in it."""
    return f"{_head(unit, stamp)}-{number:05d}-tries.txt"


def _head(unit: int, stamp: str) -> str:
    return f"{unit:06d}_{stamp}" if stamp else f"{unit:06d}"


@dataclass(slots=True)
class Done:
    """Which slices and units are done, read off the names of files."""

    slices: dict[int, dict[int, int]] = field(default_factory=dict)
    """By unit: slice -> number of photos."""
    read: dict[int, int] = field(default_factory=dict)
    """Units that were read to their end -> how many slices they have."""
    stamps: Mapping[int, str] = field(default_factory=dict)
    """Of the units as they are now."""

    @classmethod
    def of(cls, names: Iterable[str], stamps: Mapping[int, str] | None = None) -> Done:
        """Read the names; other names and other stamps are ignored.

        >>> Done.of(["000003-00002-256.jsonl", "000003-keys-15.json", "batch.json"])
        Done(slices={3: {2: 256}}, read={3: 15}, stamps={})
        """
        done = cls(stamps=stamps or {})
        for name in names:
            head, _, rest = name.rpartition(".")[0].partition("-")
            unit, _, stamp = head.partition("_")
            what, _, count = rest.partition("-")
            if not (unit.isdecimal() and count.isdecimal()):
                continue  # the header, or what a killed machine left of a file
            if stamp != done.stamps.get(int(unit), ""):
                continue
            if what == "keys":
                done.read[int(unit)] = int(count)
            elif what.isdecimal():
                done.slices.setdefault(int(unit), {})[int(what)] = int(count)
        return done

    def whole(self, unit: int) -> bool:
        """Whether every photo of a unit is done."""
        return unit in self.read and len(self.slices.get(unit, ())) == self.read[unit]

    @property
    def images(self) -> int:
        """Photos that are done."""
        return sum(sum(slices.values()) for slices in self.slices.values())


@dataclass(frozen=True, slots=True)
class Keys:
    """What a unit holds."""

    ids: list[str]
    problems: list[str]
    """Of the unit as a file: records that could not be used, a shard that could not be read."""

    def save(self, store: Store, unit: int, slices: int, stamp: str = "") -> None:
        """Note that the unit was read to its end."""
        document = {"ids": self.ids, "problems": self.problems}
        store.write(keys_name(unit, slices, stamp), line_of(document))

    @classmethod
    def load(cls, store: Store, unit: int, slices: int, stamp: str = "") -> Keys:
        """What `save` has written."""
        name = keys_name(unit, slices, stamp)
        document = record_of(store.read(name)) or {}
        ids, problems = _texts(document.get("ids")), _texts(document.get("problems"))
        if ids is None or problems is None:
            store.drop(name)
            raise _damaged(store, name)
        return cls(ids, problems)


def _texts(value: object) -> list[str] | None:
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    return None


def save_slice(
    store: Store, unit: int, number: int, records: Sequence[Record], stamp: str = ""
) -> None:
    """Keep the records of one slice."""
    lines = b"".join(line_of(record) for record in records)
    store.write(slice_name(unit, number, len(records), stamp), lines)


def load_unit(store: Store, unit: int, done: Done) -> tuple[Keys, list[Record]]:
    """A unit's keys and its records in order, exactly one for each key."""
    stamp = done.stamps.get(unit, "")
    keys = Keys.load(store, unit, done.read[unit], stamp)
    records: list[Record] = []
    damaged = []
    for number, images in sorted(done.slices.get(unit, {}).items()):
        name = slice_name(unit, number, images, stamp)
        found = [record_of(line) for line in store.read(name).splitlines()]
        sound = [record for record in found if record is not None and is_record(record)]
        if len(sound) != images or len(found) != images:
            store.drop(name)
            damaged.append(name)
        records += sound
    if damaged:
        raise _damaged(store, named(damaged))
    _check(f"{store.folder}: unit {unit}", keys.ids, [record["id"] for record in records])
    return keys, records


def _damaged(store: Store, names: str) -> DamagedPartsError:
    return DamagedPartsError(
        f"{store.folder}: {names}: was damaged and has been removed; continue with --resume"
    )


def _check(where: str, wanted: list[str], found: list[str]) -> None:
    """Refuse rows that are missing, double or unexpected, by name."""
    if wanted == found:
        return
    counts = Counter(found)
    missing = [key for key in wanted if key not in counts]
    double = [key for key, count in counts.items() if count > 1]
    other = sorted(set(counts) - set(wanted))
    wrong = [
        f"{len(keys)} {what} ({named(keys)})"
        for keys, what in ((missing, "missing"), (double, "double"), (other, "unexpected"))
        if keys
    ]
    raise InputError(
        f"{where}: {'; '.join(wrong) or 'rows in another order'}: its files or its source "
        f"were changed; remove the files of this unit and continue with --resume"
    )


def named(keys: Sequence[str]) -> str:
    """The first of some keys.

    >>> named(["a", "b"]), named([str(n) for n in range(12)])
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...')
    """
    return ", ".join(keys[:10]) + (", ..." if len(keys) > 10 else "")
