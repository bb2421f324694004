"""Scripted judges, to rehearse a study before people are asked.

They vote only in studies made for it: one whose origin is `human` refuses them, so that no scripted
vote can ever stand in a column that speaks of people.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from sightwords.errors import StudyError
from sightwords.study import judging
from sightwords.study.model import Answer, Judge, Pair, choice_of
from sightwords.study.schema import pair as pairs
from sightwords.study.schema import showing as showings
from sightwords.study.store import Store

Decide = Callable[[Pair], Answer]
"""What a scripted judge says of a pair, or of a check case, which has `is_check`."""


def rehearse(
    store: Store,
    judge: Judge,
    decide: Decide,
    *,
    at_most: int | None = None,
    clock: Callable[[], float] = time.time,
) -> int:
    """Let one scripted judge answer until the end, or `at_most` showings; returns how many."""
    refuse_people(store)
    done = 0
    while at_most is None or done < at_most:
        with store.write() as connection:
            known = judging.find_judge(connection, judge.token)
            if known is None:
                raise StudyError(f"{store.name}: has no judge {judge.id}")
            showing = judging.next_showing(connection, store.design, known, now=clock())
        if showing is None:
            break
        with store.write() as connection:
            choice = choice_for(connection, showing.id, decide)
            judging.record_vote(connection, known, showing.id, choice, now=clock())
        done += 1
    return done


def choice_for(connection: sa.Connection, showing_id: int, decide: Decide) -> str:
    """The button that says what `decide` says, in the order of this showing."""
    row = connection.execute(
        sa.select(pairs, showings.c.system_first)
        .join(showings, showings.c.pair_id == pairs.c.id)
        .where(showings.c.id == showing_id)
    ).one()
    pair = Pair(row.image, row.first, row.second, row.is_check)
    return choice_of(decide(pair), system_first=row.system_first)


def refuse_people(store: Store) -> None:
    """Raise where the study is people's."""
    if store.design.origin == "human":
        raise StudyError(
            f"{store.name}: is a study of people's votes and takes no scripted ones; make one for "
            "rehearsals with: sightwords study create --origin simulated"
        )
