"""Seats for judges of other platforms, and the way back for their answers.

A seat is a sitting that is drawn in advance: its pairs are reserved and their order is fixed.
Exported files hold only random keys and the captions in the order to show. When the answers come
back, each showing moves to the judge that the platform names. If a judge got the same pair in two
seats, only one vote counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sightwords.errors import StudyError
from sightwords.study import judging
from sightwords.study.model import Design, Judge, Showing, choice_of
from sightwords.study.schema import judge as judges
from sightwords.study.schema import pair as pairs
from sightwords.study.schema import showing as showings
from sightwords.study.store import Store

SEAT = "seat"
"""The name of a judge who is not known yet; names from platforms contain a colon."""

VALID_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class Record:
    """One answer to an exported showing."""

    where: str
    """File and row, for messages."""
    key: str
    judge: str
    """`PLATFORM:ID`."""
    choice: str
    """`first`, `same` or `second`, as shown."""


@dataclass(frozen=True, slots=True)
class ImageVote:
    """One answer about an image, from a file without keys."""

    where: str
    image: str
    judge: str
    answer: str
    """`better`, `same` or `worse`, from the view of the system under test."""


@dataclass(slots=True)
class Imported:
    """What happened to the records of a file."""

    written: int = 0
    repeated: int = 0
    """Already in the study with the same answer."""
    conflicting: int = 0
    """Already in the study with another answer, which is kept."""
    same_judge: int = 0
    """The judge already had this pair in another seat."""
    surplus: int = 0
    """Stored but not counted: the pair is full, or the judge is excluded."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Skipped by the reader of the file, by reason."""


def make_seats(store: Store, *, now: float, valid_days: float = VALID_DAYS) -> list[list[Showing]]:
    """Seats for all missing judges, with check cases; reserved for `valid_days`."""
    design = store.design
    expires = now + valid_days * 86400
    with store.write() as connection:
        wanted = judging.missing_judges(connection, design, now=now)
        return [
            _fill_seat(connection, design, chosen, expires=expires)
            for chosen in _share_out(wanted, design)
        ]


def give_back(store: Store, seats: Sequence[Sequence[Showing]]) -> None:
    """Free the slots of seats that were not exported after all."""
    with store.write() as connection:
        ids = [showing.id for seat in seats for showing in seat]
        connection.execute(sa.update(showings).where(showings.c.id.in_(ids)).values(slot=None))


def _share_out(wanted: list[int], design: Design) -> list[list[int]]:
    """Split pairs into sittings of different pairs, as full as possible.

    Pairs that need most judges are dealt out first, round the sittings, so that no sitting gets a
    pair twice.
    """
    if not wanted:
        return []
    lacking = Counter(wanted)
    seats = max(-(-len(wanted) // design.pairs_per_judge), *lacking.values())
    rng = np.random.default_rng([design.seed, len(wanted)])
    order = [int(pair) for pair in rng.permutation(sorted(lacking))]
    order.sort(key=lambda pair: -lacking[pair])
    sittings: list[list[int]] = [[] for _ in range(seats)]
    place = 0
    for pair in order:
        for _ in range(lacking[pair]):
            sittings[place % seats].append(pair)
            place += 1
    return sittings


def _fill_seat(
    connection: Connection, design: Design, chosen: list[int], *, expires: float
) -> list[Showing]:
    [seat] = judging.add_judges(connection, 1, name="")
    connection.execute(sa.update(judges).where(judges.c.id == seat.id).values(name=SEAT))
    rng = np.random.default_rng([design.seed, seat.id])
    checks = connection.execute(
        sa.select(pairs.c.id).where(pairs.c.is_check).order_by(pairs.c.id)
    ).scalars()
    drawn = rng.permutation(list(checks))[: design.checks_per_judge].tolist()
    mixed = rng.permutation([*chosen, *drawn]).tolist()
    made = [
        judging.add_showing(connection, design, seat, pair_id, expires=expires) for pair_id in mixed
    ]
    return [
        replace(judging.read_showing(connection, design, showing_id), number=n, total=len(made))
        for n, showing_id in enumerate(made, start=1)
    ]


def import_records(store: Store, records: Iterable[Record], *, now: float) -> Imported:
    """Import answers by their keys; on an error, none of them."""
    done = Imported()
    with store.write() as connection:
        for record in records:
            row = connection.execute(
                sa.select(showings).where(showings.c.key == record.key)
            ).one_or_none()
            if row is None:
                raise StudyError(
                    f"{record.where}: key {record.key!r} is not in this study; give the study "
                    "of the export as STUDY"
                )
            if _is_new(row, record.choice, done):
                judge = _judge_named(connection, record.judge)
                if row.judge_id == judge.id or _move(connection, row.id, row.pair_id, judge):
                    _vote(connection, judge, row.id, record.choice, record.where, now, done)
                else:
                    done.same_judge += 1
    return done


def import_votes(store: Store, votes: Iterable[ImageVote], *, now: float) -> Imported:
    """Import answers that name image and judge; on an error, none of them."""
    done = Imported()
    with store.write() as connection:
        rows = connection.execute(sa.select(pairs.c.id, pairs.c.image).where(~pairs.c.is_check))
        by_image = {row.image: row.id for row in rows}
        for vote in votes:
            pair_id = by_image.get(vote.image)
            if pair_id is None:
                done.skipped["image not in the study"] += 1
                continue
            judge = _judge_named(connection, vote.judge)
            row = _showing_of(connection, store.design, judge, pair_id, now=now)
            try:
                choice = choice_of(vote.answer, system_first=row.system_first)
            except StudyError as error:
                raise StudyError(f"{vote.where}: {error}") from None
            if _is_new(row, choice, done):
                _vote(connection, judge, row.id, choice, vote.where, now, done)
    return done


def _is_new(row: sa.Row[tuple[object, ...]], choice: str, done: Imported) -> bool:
    """Whether a showing has no vote yet; counts those that have one."""
    if row.choice is None:
        return True
    done.repeated += row.choice == choice
    done.conflicting += row.choice != choice
    return False


def _vote(  # noqa: PLR0917
    connection: Connection,
    judge: Judge,
    showing_id: int,
    choice: str,
    where: str,
    now: float,
    done: Imported,
) -> None:
    try:
        judging.record_vote(connection, judge, showing_id, choice, now=now)
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None
    done.written += 1
    done.surplus += judging.is_surplus(connection, showing_id)


def _showing_of(
    connection: Connection, design: Design, judge: Judge, pair_id: int, *, now: float
) -> sa.Row[tuple[object, ...]]:
    query = sa.select(showings).where(
        showings.c.judge_id == judge.id, showings.c.pair_id == pair_id
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        judging.add_showing(connection, design, judge, pair_id, expires=now)
        row = connection.execute(query).one()
    return row


def _judge_named(connection: Connection, name: str) -> Judge:
    """The judge with this name; added if new."""
    row = connection.execute(
        sa.select(judges).where(judges.c.name == name).order_by(judges.c.id).limit(1)
    ).one_or_none()
    if row is None:
        return judging.add_judges(connection, 1, name=name)[0]
    return Judge(row.id, row.token, row.name, row.excluded)


def _move(connection: Connection, showing_id: int, pair_id: int, judge: Judge) -> bool:
    """Move a showing to the judge who answered it; False if that judge already had its pair."""
    met = connection.execute(
        sa.select(showings.c.id).where(
            showings.c.judge_id == judge.id, showings.c.pair_id == pair_id
        )
    ).one_or_none()
    if met is not None:
        return False
    values: dict[str, object] = {"judge_id": judge.id}
    if judge.excluded:
        values["slot"] = None
    connection.execute(sa.update(showings).where(showings.c.id == showing_id).values(values))
    return True
