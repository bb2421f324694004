"""Who sees what and which votes count, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from sightwords.errors import StudyError
from sightwords.study import judging, schema
from sightwords.study.create import create_study
from sightwords.study.model import Answer, Design, Judge, Pair, Photo
from sightwords.study.rehearsal import rehearse
from sightwords.study.store import (
    Store,
    create_store,
    open_store,
    read_ballots,
    read_judges,
    read_pairs,
)

Make = Callable[..., Store]


def judges_of(store: Store) -> list[Judge]:
    with store.read() as connection:
        return read_judges(connection)


def ballots(store: Store) -> Counter[int]:
    """Valid votes by pair."""
    with store.read() as connection:
        return Counter(ballot.pair for ballot in read_ballots(connection))


def attentive(pair: Pair) -> Answer:
    return "better" if pair.is_check else "worse"


def careless(pair: Pair) -> Answer:
    return "same"


def test_the_papers_numbers_are_the_defaults() -> None:
    design = Design("ours")
    assert (design.pairs, design.judges_per_pair, design.pairs_per_judge) == (1000, 5, 20)
    assert (design.checks_per_judge, design.judges, design.showings_per_judge) == (4, 250, 24)


def test_every_pair_gets_five_judges(make: Make) -> None:
    store = make()
    assert len(judges_of(store)) == 10
    for judge in judges_of(store):
        assert rehearse(store, judge, attentive) == 7  # 5 pairs, 2 checks
    assert set(ballots(store).values()) == {5}
    assert len(ballots(store)) == 10
    with store.write() as connection:
        [late] = judging.add_judges(connection, 1)
    assert rehearse(store, late, attentive) <= 2  # nothing is open but check cases


def test_what_a_judge_sees(make: Make) -> None:
    """Five different pairs and two check cases, the checks not always at the same places."""
    store = make()
    places = set()
    for judge in judges_of(store)[:6]:
        rehearse(store, judge, attentive)
        with store.read() as connection:
            pairs = read_pairs(connection)
            rows = connection.execute(
                sa.select(schema.showing)
                .where(schema.showing.c.judge_id == judge.id)
                .order_by(schema.showing.c.id)
            ).all()
        kinds = tuple(pairs[row.pair_id].is_check for row in rows)
        assert sum(kinds) == 2
        assert len({row.pair_id for row in rows}) == 7
        places.add(kinds)
    assert len(places) > 1


def test_the_order_is_drawn_on_every_showing(make: Make) -> None:
    store = make(pairs=20, judges_per_pair=5)
    for judge in judges_of(store):
        rehearse(store, judge, attentive)
    with store.read() as connection:
        rows = connection.execute(sa.select(schema.showing.c.system_first, schema.showing.c.slot))
        orders = Counter(row.system_first for row in rows if row.slot is not None)
    assert 30 < orders[True] < 70  # of 100: outside with a chance of 1 in 20,000
    with store.read() as connection:  # and the answer is the same in either order
        assert {ballot.answer for ballot in read_ballots(connection)} == {"worse"}


def test_writing_does_not_tell_whose_a_caption_is(make: Make) -> None:
    """The system of these studies writes no capital and no full stop; people do."""
    store = make()
    with store.write() as connection:
        for judge in judges_of(store):
            showing = judging.next_showing(connection, store.design, judge, now=0.0)
            assert showing is not None
            for text in (showing.first, showing.second):
                assert text[0].isupper()
                assert text.endswith(".")
                assert not text.endswith((" .", ".."))


def test_a_pair_left_unanswered_is_shown_again(make: Make) -> None:
    store = make()
    judge = judges_of(store)[0]
    with store.write() as connection:
        first = judging.next_showing(connection, store.design, judge, now=0.0)
    with store.write() as connection:
        again = judging.next_showing(connection, store.design, judge, now=60.0)
    assert first is not None
    assert again == first  # the order of the captions too


def test_a_vote_sent_twice_counts_once(make: Make) -> None:
    store = make(checks_per_judge=0)
    judge = judges_of(store)[0]
    with store.write() as connection:
        showing = judging.next_showing(connection, store.design, judge, now=0.0)
        assert showing is not None
        assert judging.record_vote(connection, judge, showing.id, "first", now=1.0)
    with store.write() as connection:
        assert not judging.record_vote(connection, judge, showing.id, "first", now=2.0)
        assert not judging.record_vote(connection, judge, showing.id, "second", now=3.0)
        row = connection.execute(
            sa.select(schema.showing).where(schema.showing.c.id == showing.id)
        ).one()
    assert (row.choice, row.voted) == ("first", 1.0)
    assert sum(ballots(store).values()) == 1


def test_only_what_was_shown_can_be_answered(make: Make) -> None:
    store = make()
    one, other = judges_of(store)[:2]
    with store.write() as connection:
        showing = judging.next_showing(connection, store.design, one, now=0.0)
        assert showing is not None
        with pytest.raises(StudyError, match=f"judge {other.id} .* {showing.id}"):
            judging.record_vote(connection, other, showing.id, "same", now=0.0)
        with pytest.raises(StudyError, match=r"'best'.*first, same, second"):
            judging.record_vote(connection, one, showing.id, "best", now=0.0)


def test_failing_a_check_reopens_the_pairs(make: Make) -> None:
    store = make()
    bad, *others = judges_of(store)
    rehearse(store, bad, careless)
    assert judges_of(store)[0].excluded == "failed a check case"
    assert not ballots(store)
    for judge in others:
        rehearse(store, judge, attentive)
    assert sum(ballots(store).values()) == 45
    with store.write() as connection:
        [more] = judging.add_judges(connection, 1)
    rehearse(store, more, attentive)
    assert set(ballots(store).values()) == {5}


def test_a_judge_left_out_goes_on_without_counting(make: Make) -> None:
    """Nothing tells the judge, who would otherwise learn which pair was the check."""
    store = make()
    bad = judges_of(store)[0]
    assert rehearse(store, bad, careless) == 7


def test_excluding_by_hand_reopens(make: Make) -> None:
    store = make()
    judge = judges_of(store)[0]
    rehearse(store, judge, attentive)
    with store.write() as connection:
        assert judging.exclude(connection, judge, "too fast") == 5
        assert judging.exclude(connection, judge, "again") == 0
    assert not ballots(store)
    assert judges_of(store)[0].excluded == "too fast"


def test_a_place_kept_in_vain_goes_to_others_and_a_late_vote_does_not_count(make: Make) -> None:
    store = make(pairs=1, judges_per_pair=1, pairs_per_judge=1, checks_per_judge=0)
    slow = judges_of(store)[0]
    with store.write() as connection:
        [quick, third] = judging.add_judges(connection, 2)
        held = judging.next_showing(connection, store.design, slow, now=0.0)
        assert held is not None
        assert judging.next_showing(connection, store.design, quick, now=10.0) is None
        later = judging.LEASE_SECONDS + 1
        shown = judging.next_showing(connection, store.design, quick, now=later)
        assert shown is not None
        judging.record_vote(connection, quick, shown.id, "same", now=later)
        judging.record_vote(connection, slow, held.id, "same", now=later + 1)
        assert judging.is_surplus(connection, held.id)
        assert judging.next_showing(connection, store.design, third, now=later + 2) is None
    assert ballots(store) == {1: 1}


def test_a_judge_who_comes_back_too_late_gets_another_pair(make: Make) -> None:
    store = make(pairs=2, judges_per_pair=1, pairs_per_judge=2, checks_per_judge=0)
    slow = judges_of(store)[0]
    later = judging.LEASE_SECONDS + 1
    with store.write() as connection:
        [quick] = judging.add_judges(connection, 1)
        held = judging.next_showing(connection, store.design, slow, now=0.0)
        assert held is not None
        number = next(n for n, p in read_pairs(connection).items() if p.image == held.image)
        judging.release_expired(connection, now=later)
        taken = judging.add_showing(connection, store.design, quick, number, expires=later + 9)
        judging.record_vote(connection, quick, taken, "same", now=later)
        again = judging.next_showing(connection, store.design, slow, now=later)
    assert again is not None
    assert again.image != held.image


def test_a_late_judge_whose_place_is_free_still_counts(make: Make) -> None:
    store = make(checks_per_judge=0)
    slow, other = judges_of(store)[:2]
    later = judging.LEASE_SECONDS + 1
    with store.write() as connection:
        held = judging.next_showing(connection, store.design, slow, now=0.0)
        assert held is not None
        judging.next_showing(connection, store.design, other, now=later)  # releases
        judging.record_vote(connection, slow, held.id, "same", now=later)
        assert not judging.is_surplus(connection, held.id)


def test_never_more_than_five_however_many_come_at_once(make: Make, where: str) -> None:
    """40 judges in 8 threads over two servers' stores want 12 pairs with 5 places each."""
    store = make(pairs=12, pairs_per_judge=12)
    with store.write() as connection:
        crowd = judging.add_judges(connection, 40)
    second = open_store(where)
    errors: list[BaseException] = []

    def sit(judges: list[Judge], mine: Store) -> None:
        try:
            for judge in judges:
                rehearse(mine, judge, careless if judge.id % 4 == 0 else attentive)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=sit, args=(crowd[n::8], (store, second)[n % 2])) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.close()
    assert not errors
    assert set(ballots(store).values()) == {5}
    assert len(ballots(store)) == 12


def test_the_database_itself_refuses_a_sixth(make: Make) -> None:
    store = make(pairs=1, judges_per_pair=1, pairs_per_judge=1, checks_per_judge=0)
    with store.write() as connection:
        one, other = judging.add_judges(connection, 2)
        judging.add_showing(connection, store.design, one, 1, expires=9e9)
    values = {"key": "k", "judge_id": other.id, "pair_id": 1, "system_first": True, "expires": 0.0}
    for slot in (0, 1):  # taken; not one of the pair's places
        with pytest.raises(sa.exc.IntegrityError), store.write() as connection:
            connection.execute(sa.insert(schema.showing).values(**values, slot=slot))


def test_reading_sees_one_state(make: Make) -> None:
    """Votes that arrive while results are read belong to the next reading."""
    store = make()
    with store.read() as connection:
        before = read_judges(connection)
        rehearse(store, before[0], attentive)
        with store.write() as other:
            judging.add_judges(other, 1)
        assert read_judges(connection) == before
        assert read_ballots(connection) == []
    assert len(judges_of(store)) == len(before) + 1
    assert sum(ballots(store).values()) == 5


def test_tokens_cannot_be_guessed(make: Make) -> None:
    store = make()
    tokens = [judge.token for judge in judges_of(store)]
    assert len(set(tokens)) == 10
    assert min(map(len, tokens)) >= 22  # 128 bits in base 64


def test_scripted_votes_have_no_way_into_a_study_of_people(make: Make) -> None:
    store = make(origin="human")
    with pytest.raises(StudyError, match=r"origin.simulated"):
        rehearse(store, judges_of(store)[0], attentive)


def test_a_study_is_not_replaced(make: Make, where: str, source: Path) -> None:
    store = make()
    with pytest.raises(StudyError, match="already holds"):
        create_study(where, store.design, images=source, system={"img-01": "x"}, all_pairs=True)
    assert open_store(where).design == store.design


def test_opening_what_is_no_study(where: str) -> None:
    with pytest.raises(StudyError, match="study create"):
        open_store(where)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StudyError) as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_other_databases_are_refused() -> None:
    with pytest.raises(StudyError, match="mysql"):
        open_store("mysql://me@localhost/study")


def test_making_is_all_or_nothing(where: str) -> None:
    """A pair without its photograph breaks the making; nothing of it stays."""
    pair = Pair("missing", "a", "b")
    with pytest.raises(StudyError, match=r"(?i)foreign key"):
        create_store(where, Design("ours", pairs=1), [Photo("1", b"", ())], [pair])
    with pytest.raises(StudyError, match="study create"):
        open_store(where)
