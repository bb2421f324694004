"""Who sees what next, and what becomes of a vote. Every function runs under the study's lock.

A judge's sitting is `pairs_per_judge` pairs with check cases at random places among them. The
next pair is one of those with the fewest judges so far, drawn, that this judge has not seen. Its
slot is kept for the judge until `expires`; a slot kept in vain goes to whoever comes next.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

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
"""How long a pair that is being looked at is kept for its judge."""

FAILED_CHECK = "failed a check case"


def add_judges(connection: Connection, count: int, *, name: str = "") -> list[Judge]:
    """Make judges, each with a link of 128 random bits."""
    made = []
    for _ in range(count):
        token = secrets.token_urlsafe(16)
        result = connection.execute(sa.insert(judges).values(token=token, name=name, excluded=""))
        key = result.inserted_primary_key
        assert key is not None
        made.append(Judge(key[0], token, name, ""))
    return made


def find_judge(connection: Connection, token: str) -> Judge | None:
    """The judge whose link this is."""
    row = connection.execute(sa.select(judges).where(judges.c.token == token)).one_or_none()
    return None if row is None else Judge(row.id, row.token, row.name, row.excluded)


def next_showing(
    connection: Connection, design: Design, judge: Judge, *, now: float
) -> Showing | None:
    """What this judge is to look at: the pair left unanswered, or a new one; None at the end."""
    release_expired(connection, now=now)
    pending = _pending(connection, judge)
    if pending is not None and _keep(connection, pending, judge, now=now):
        return read_showing(connection, design, pending.id)
    number = answered(connection, judge.id)
    if number >= design.showings_per_judge:
        return None
    wants_check = number in check_places(design, judge.id)
    chosen = choose_pair(connection, design, judge, number, check=wants_check)
    if chosen is None:
        return None
    made = add_showing(connection, design, judge, chosen, expires=now + LEASE_SECONDS)
    return read_showing(connection, design, made)


def record_vote(
    connection: Connection, judge: Judge, showing_id: int, choice: str, *, now: float
) -> bool:
    """Write a vote; False where this showing has one already, which stays as it is.

    A wrong answer to a check case excludes the judge. A vote that comes so late that its slot has
    gone to others is kept but does not count.
    """
    if choice not in CHOICES:
        raise StudyError(f"the answer is {choice!r}; expected one of {', '.join(CHOICES)}")
    row = connection.execute(
        sa.select(showings, pairs.c.is_check)
        .join(pairs, pairs.c.id == showings.c.pair_id)
        .where(showings.c.id == showing_id, showings.c.judge_id == judge.id)
    ).one_or_none()
    if row is None:
        raise StudyError(f"judge {judge.id} was never shown {showing_id}; open the link again")
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
    """Leave out a judge, under all links that carry the same name; returns the reopened places."""
    same = judges.c.id == judge.id
    if ":" in judge.name:  # a person whom a platform names, not a seat
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
    """Open the slots that are kept for judges who did not answer in time."""
    connection.execute(
        sa.update(showings)
        .where(showings.c.slot.is_not(None), showings.c.choice.is_(None))
        .where(showings.c.expires < now)
        .values(slot=None)
    )


def check_places(design: Design, judge_id: int) -> frozenset[int]:
    """At which places of a judge's sitting the check cases stand.

    >>> sorted(check_places(Design("ours"), 1)) == sorted(check_places(Design("ours"), 1))
    True
    """
    rng = np.random.default_rng([design.seed, judge_id])
    drawn = rng.permutation(design.showings_per_judge)[: design.checks_per_judge]
    return frozenset(int(place) for place in drawn)


def choose_pair(
    connection: Connection, design: Design, judge: Judge, number: int, *, check: bool
) -> int | None:
    """A check case or an open pair that the judge has not seen, drawn among the least shown."""
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
    """Put a pair before a judge, in random order, in a free slot where it is to count."""
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
    """The lowest place of a pair that nobody has; None for a full pair and for a check case."""
    taken = sa.select(showings.c.slot).where(
        showings.c.pair_id == pair_id, showings.c.slot.is_not(None)
    )
    found: int | None = connection.execute(
        sa.select(sa.func.min(places.c.slot)).where(
            places.c.pair_id == pair_id, places.c.slot.not_in(taken)
        )
    ).scalar_one()
    return found


def open_places(connection: Connection, design: Design, *, now: float) -> list[int]:
    """How many judges each pair still lacks, as a list with each pair's number that often."""
    release_expired(connection, now=now)
    rows: Sequence[Row[tuple[int, int]]] = connection.execute(
        sa.select(pairs.c.id, sa.func.count(showings.c.slot).label("taken"))
        .outerjoin(showings, showings.c.pair_id == pairs.c.id)
        .where(pairs.c.is_check == sa.false())
        .group_by(pairs.c.id)
        .order_by(pairs.c.id)
    ).all()
    return [row.id for row in rows for _ in range(design.judges_per_pair - row.taken)]


def _pending(connection: Connection, judge: Judge) -> Row[tuple[object, ...]] | None:
    return connection.execute(
        sa.select(showings, pairs.c.is_check)
        .join(pairs, pairs.c.id == showings.c.pair_id)
        .where(showings.c.judge_id == judge.id, showings.c.choice.is_(None))
        .order_by(showings.c.id)
        .limit(1)
    ).one_or_none()


def _keep(
    connection: Connection, row: Row[tuple[object, ...]], judge: Judge, *, now: float
) -> bool:
    """Keep an unanswered pair for its judge, or drop it where others have filled it meanwhile."""
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
    row = connection.execute(
        sa.select(showings, pairs)
        .join(pairs, pairs.c.id == showings.c.pair_id)
        .where(showings.c.id == showing_id)
    ).one()
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
    """Whether the vote of a showing is kept without counting: no slot, and no check case."""
    query = (
        sa.select(pairs.c.is_check, showings.c.slot)
        .join(showings, showings.c.pair_id == pairs.c.id)
        .where(showings.c.id == showing_id)
    )
    row = connection.execute(query).one()
    return not row.is_check and row.slot is None
