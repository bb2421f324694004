"""Assigns pairs to judges and records votes. Every function runs under the lock of the study.

The sitting of a judge has `pairs_per_judge` pairs, with check cases at random positions. The next
pair is drawn from those with the fewest judges that this judge has not seen. Its slot is reserved
for the judge until `expires`, then it is free for others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from sightwords.errors import StudyError
from sightwords.study.model import CHOICES, Design, Judge, Showing, answer_of
from sightwords.study.schema import judge as judges
from sightwords.study.schema import pair as pairs
from sightwords.study.schema import place as places
from sightwords.study.schema import showing as showings
from sightwords.text.written import as_sentence

LEASE_SECONDS = 1800.0
"""How long a pair is reserved for the judge who is looking at it."""

FAILED_CHECK = "failed a check case"


def add_judges(connection: Connection, count: int, *, name: str = "") -> list[Judge]:
    """Add judges, each with a link of 128 random bits."""
    made = []
    for _ in range(count):
        token = secrets.token_urlsafe(16)
        result = connection.execute(sa.insert(judges).values(token=token, name=name, excluded=""))
        key = result.inserted_primary_key
        assert key is not None
        made.append(Judge(key[0], token, name, ""))
    return made


def find_judge(connection: Connection, token: str) -> Judge | None:
    """The judge with this link."""
    row = connection.execute(sa.select(judges).where(judges.c.token == token)).one_or_none()
    return None if row is None else Judge(row.id, row.token, row.name, row.excluded)


def with_pairs(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The showings that match, each with its pair in the same row."""
    content = (pairs.c.image, pairs.c.first, pairs.c.second, pairs.c.is_check)
    joined = sa.select(showings, *content).join(pairs, pairs.c.id == showings.c.pair_id)
    return joined.where(*where)


def next_showing(
    connection: Connection, design: Design, judge: Judge, *, now: float
) -> Showing | None:
    """The pair that this judge has not answered yet, or a new one; None at the end."""
    release_expired(connection, now=now)
    unanswered = with_pairs(showings.c.judge_id == judge.id, showings.c.choice.is_(None))
    pending = connection.execute(unanswered.order_by(showings.c.id).limit(1)).one_or_none()
    if pending is not None and _reserve_again(connection, pending, judge, now=now):
        return read_showing(connection, design, pending.id)
    number = answered(connection, judge.id)
    if number >= design.showings_per_judge:
        return None
    wants_check = number in check_positions(design, judge.id)
    chosen = choose_pair(connection, design, judge, number, check=wants_check)
    if chosen is None:
        return None
    made = add_showing(connection, design, judge, chosen, expires=now + LEASE_SECONDS)
    return read_showing(connection, design, made)


def record_vote(
    connection: Connection, judge: Judge, showing_id: int, choice: str, *, now: float
) -> bool:
    """Write a vote; False if this showing already has one, which is not changed.

    A wrong answer to a check case excludes the judge. A late vote, whose slot was given to another
    judge, is stored but does not count.
    """
    if choice not in CHOICES:
        raise StudyError(f"the answer is {choice!r}; expected one of {', '.join(CHOICES)}")
    shown = with_pairs(showings.c.id == showing_id, showings.c.judge_id == judge.id)
    row = connection.execute(shown).one_or_none()
    if row is None:
        raise StudyError(
            f"judge {judge.id} was not shown showing {showing_id}; open the link again"
        )
    if row.choice is not None:
        return False
    slot = row.slot
    if slot is None and not row.is_check and not judge.excluded:
        slot = free_slot(connection, row.pair_id)
    connection.execute(
        sa.update(showings)
        .where(showings.c.id == showing_id, showings.c.choice.is_(None))
        .values(choice=choice, voted=now, slot=slot)
    )
    if row.is_check and answer_of(choice, system_first=row.system_first) != "better":
        exclude(connection, judge, FAILED_CHECK)
    return True


def exclude(connection: Connection, judge: Judge, reason: str) -> int:
    """Exclude a judge, under all links with the same name; returns the number of freed slots."""
    same = judges.c.id == judge.id
    if ":" in judge.name:  # a judge of a platform, not a seat
        same = sa.or_(same, judges.c.name == judge.name)
    connection.execute(
        sa.update(judges).where(same, judges.c.excluded == "").values(excluded=reason)
    )
    who = sa.select(judges.c.id).where(same)
    result = connection.execute(
        sa.update(showings)
        .where(showings.c.judge_id.in_(who), showings.c.slot.is_not(None))
        .values(slot=None)
    )
    return int(result.rowcount)


def release_expired(connection: Connection, *, now: float) -> None:
    """Free the slots of judges who did not answer in time."""
    connection.execute(
        sa.update(showings)
        .where(showings.c.slot.is_not(None), showings.c.choice.is_(None))
        .where(showings.c.expires < now)
        .values(slot=None)
    )


def check_positions(design: Design, judge_id: int) -> frozenset[int]:
    """The positions of the check cases in the sitting of a judge.

    >>> sorted(check_positions(Design("ours"), 1)) == sorted(check_positions(Design("ours"), 1))
    True
    """
    rng = np.random.default_rng([design.seed, judge_id])
    drawn = rng.permutation(design.showings_per_judge)[: design.checks_per_judge]
    return frozenset(int(position) for position in drawn)


def choose_pair(
    connection: Connection, design: Design, judge: Judge, number: int, *, check: bool
) -> int | None:
    """Draw a check case or an open pair that the judge has not seen, among the least shown."""
    seen = sa.select(showings.c.pair_id).where(showings.c.judge_id == judge.id)
    count = sa.func.count(showings.c.slot)
    query = (
        sa.select(pairs.c.id, count.label("taken"))
        .outerjoin(showings, showings.c.pair_id == pairs.c.id)
        .where(pairs.c.is_check == check, pairs.c.id.not_in(seen))
        .group_by(pairs.c.id)
        .order_by(pairs.c.id)
    )
    if not check and not judge.excluded:
        query = query.having(count < design.judges_per_pair)
    rows = connection.execute(query).all()
    if not rows:
        return None
    least = min(row.taken for row in rows)
    rng = np.random.default_rng([design.seed, judge.id, number])
    return int(rng.choice([row.id for row in rows if row.taken == least]))


def add_showing(
    connection: Connection, design: Design, judge: Judge, pair_id: int, *, expires: float
) -> int:
    """Show a pair to a judge in random order, with a free slot if the vote can count."""
    result = connection.execute(
        sa.insert(showings).values(
            key=secrets.token_urlsafe(12),
            judge_id=judge.id,
            pair_id=pair_id,
            slot=None if judge.excluded else free_slot(connection, pair_id),
            system_first=secrets.randbelow(2) == 0,
            expires=expires,
        )
    )
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])


def free_slot(connection: Connection, pair_id: int) -> int | None:
    """The lowest free slot of a pair; None for a full pair and for a check case."""
    taken = sa.select(showings.c.slot).where(
        showings.c.pair_id == pair_id, showings.c.slot.is_not(None)
    )
    found: int | None = connection.execute(
        sa.select(sa.func.min(places.c.slot)).where(
            places.c.pair_id == pair_id, places.c.slot.not_in(taken)
        )
    ).scalar_one()
    return found


def missing_judges(connection: Connection, design: Design, *, now: float) -> list[int]:
    """The pairs that still need judges; each is listed once per missing judge."""
    release_expired(connection, now=now)
    rows: Sequence[Row[tuple[int, int]]] = connection.execute(
        sa.select(pairs.c.id, sa.func.count(showings.c.slot).label("taken"))
        .outerjoin(showings, showings.c.pair_id == pairs.c.id)
        .where(pairs.c.is_check == sa.false())
        .group_by(pairs.c.id)
        .order_by(pairs.c.id)
    ).all()
    return [row.id for row in rows for _ in range(design.judges_per_pair - row.taken)]


def _reserve_again(
    connection: Connection, row: Row[tuple[object, ...]], judge: Judge, *, now: float
) -> bool:
    """Reserve an unanswered pair again, or drop it if it is full by now; whether it is reserved."""
    slot = row.slot
    if slot is None and not row.is_check and not judge.excluded:
        slot = free_slot(connection, row.pair_id)
        if slot is None:
            connection.execute(sa.delete(showings).where(showings.c.id == row.id))
            return False
    connection.execute(
        sa.update(showings)
        .where(showings.c.id == row.id)
        .values(slot=slot, expires=now + LEASE_SECONDS)
    )
    return True


def answered(connection: Connection, judge_id: int) -> int:
    """How many showings the judge has answered."""
    query = sa.select(sa.func.count()).where(
        showings.c.judge_id == judge_id, showings.c.choice.is_not(None)
    )
    return int(connection.execute(query).scalar_one())


def read_showing(connection: Connection, design: Design, showing_id: int) -> Showing:
    """A showing as its judge sees it."""
    row = connection.execute(with_pairs(showings.c.id == showing_id)).one()
    captions = (row.first, row.second) if row.system_first else (row.second, row.first)
    return Showing(
        id=showing_id,
        key=row.key,
        image=row.image,
        first=as_sentence(captions[0]),
        second=as_sentence(captions[1]),
        number=answered(connection, row.judge_id) + 1,
        total=design.showings_per_judge,
    )


def is_surplus(connection: Connection, showing_id: int) -> bool:
    """Whether a vote is stored but does not count: it has no slot and is not a check case."""
    row = connection.execute(with_pairs(showings.c.id == showing_id)).one()
    return not row.is_check and row.slot is None
