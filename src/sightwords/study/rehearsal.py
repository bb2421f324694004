"""Scripted judges, to try out a study before people take part.

They cannot vote in studies of origin `human`, so that no scripted vote gets into a column that is
about people.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from sightwords.errors import StudyError
from sightwords.study import judging
from sightwords.study.model import Answer, Judge, Pair, choice_of
from sightwords.study.schema import showing as showings
from sightwords.study.store import Store

Decide = Callable[[Pair], Answer]
"""The answer of a scripted judge to a pair or check case."""


def rehearse(
    store: Store,
    judge: Judge,
    decide: Decide,
    *,
    at_most: int | None = None,
    clock: Callable[[], float] = time.time,
) -> int:
    """Let a scripted judge answer all pairs, or `at_most` of them; returns how many."""
    if store.design.origin == "human":
        raise StudyError(
            f"{store.name}: this study is for people and takes no scripted votes; create one with: "
            "sightwords study create --set origin=simulated"
        )
    done = 0
    while at_most is None or done < at_most:
        with store.write() as connection:
            known = judging.find_judge(connection, judge.token)
            if known is None:
                raise StudyError(f"{store.name}: judge {judge.id} is not in this study")
            showing = judging.next_showing(connection, store.design, known, now=clock())
        if showing is None:
            break
        with store.write() as connection:
            choice = choice_for(connection, showing.id, decide)
            judging.record_vote(connection, known, showing.id, choice, now=clock())
        done += 1
    return done


def choice_for(connection: sa.Connection, showing_id: int, decide: Decide) -> str:
    """The button for the answer of `decide`, in the order of this showing."""
    row = connection.execute(judging.with_pairs(showings.c.id == showing_id)).one()
    pair = Pair(row.image, row.first, row.second, row.is_check)
    return choice_of(decide(pair), system_first=row.system_first)
