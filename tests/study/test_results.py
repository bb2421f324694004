"""From votes to tables: who is left out, what is counted, and what never fills a human column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sightwords.errors import StudyError
from sightwords.study import judging
from sightwords.study.model import Answer, Judge, Pair
from sightwords.study.platforms.seats import ImageVote, import_votes
from sightwords.study.rehearsal import rehearse
from sightwords.study.results.count import study_results
from sightwords.study.results.disagreement import disagreement_page, disagreements, metric_agreement
from sightwords.study.results.tables import result_tables, results_json, save_results
from sightwords.study.store import Store, read_judges, read_pairs, read_references

Make = Callable[..., Store]
ANSWERS: list[tuple[int, int, int]] = [(3, 1, 1), (2, 2, 1), (0, 5, 0), (1, 2, 2)] + [(0, 0, 5)] * 6
"""Votes on ten pairs: outcomes add up to 1.5 better, 2 same, 6.5 worse."""


def judges_of(store: Store) -> list[Judge]:
    with store.read() as connection:
        return read_judges(connection)


def vote(store: Store, table: list[tuple[int, int, int]]) -> None:
    """Cast so many votes on each pair, through the door for votes from elsewhere."""
    with store.read() as connection:
        images = [pair.image for pair in read_pairs(connection).values() if not pair.is_check]
    votes = []
    for image, counts in zip(images, table, strict=True):
        said = [
            a for a, n in zip(("better", "same", "worse"), counts, strict=True) for _ in range(n)
        ]
        votes += [ImageVote("test", image, f"e:{j}", answer) for j, answer in enumerate(said)]
    import_votes(store, votes, now=1.0)


def test_the_papers_columns(make: Make) -> None:
    store = make(origin="human", checks_per_judge=0)
    vote(store, ANSWERS)
    results = study_results(store)
    assert results.shares is not None
    assert results.shares.better.mean == pytest.approx(0.15)
    assert results.shares.same.mean == pytest.approx(0.2)
    assert results.shares.same_or_better.mean == pytest.approx(0.35)
    table = result_tables(results)[0]
    assert table.header == ("system", "≈human", ">human", "≥human")
    assert table.rows[0][0] == "ours"
    assert re.fullmatch(r"20\.0 \(±\d+\.\d\)", table.rows[0][1])
    assert ("VGG+Score+DMSM+ft (paper)", "26.2", "7.8", "34.0") in table.rows
    assert "origin:human" in results.signature


def test_simulated_votes_fill_no_human_column(make: Make, tmp_path: Path) -> None:
    store = make(origin="simulated", checks_per_judge=0)
    vote(store, ANSWERS)
    results = study_results(store)
    human, marked, judges = result_tables(results)
    assert human.rows[0] == ("ours", "open", "open", "open")
    assert "SIMULATED" in marked.title
    assert all("(SIMULATED)" in cell for cell in marked.header[1:])
    assert "SIMULATED" in judges.title
    assert json.loads(results_json(results))["origin"] == "simulated"
    assert "origin:simulated" in results.signature
    save_results(store, results, [], tmp_path)
    assert (tmp_path / "results.csv").read_text().splitlines()[1] == "ours,open,open,open"
    assert "SIMULATED" in (tmp_path / "disagreement.html").read_text()


def test_unfinished_pairs_wait(make: Make) -> None:
    store = make(origin="human", checks_per_judge=0)
    empty = study_results(store)
    assert empty.shares is None
    assert result_tables(empty)[0].rows[0] == ("ours", "open", "open", "open")
    vote(store, [(3, 0, 0)] * 4 + [(0, 0, 5)] * 6)
    results = study_results(store)
    assert (len(results.judged), results.unfinished_pairs) == (6, 4)
    three = study_results(store, votes_per_pair=3)
    assert (len(three.judged), three.unfinished_pairs) == (10, 0)
    assert three.shares is not None
    assert three.shares.better.mean == pytest.approx(0.4)
    with pytest.raises(StudyError, match="votes is 6"):
        study_results(store, votes_per_pair=6)


def test_who_failed_a_check_is_left_out_and_counted(make: Make) -> None:
    store = make()

    def attentive(pair: Pair) -> Answer:
        return "better" if pair.is_check else "worse"

    def careless(pair: Pair) -> Answer:
        return "better" if not pair.is_check else "worse"

    with store.write() as connection:
        judging.add_judges(connection, 2)
    for judge in judges_of(store):
        rehearse(store, judge, careless if judge.id in (1, 5) else attentive)
    results = study_results(store)
    assert results.excluded == {"failed a check case": 2}
    assert results.judges == 10
    assert results.surplus_votes == 10  # five of each of the two
    assert results.shares is not None
    assert results.shares.better.mean == 0
    assert results.shares.pairs == 10


def test_agreement_and_kappa_are_of_what_counts(make: Make) -> None:
    store = make(origin="human", checks_per_judge=0)
    vote(store, [(5, 0, 0)] * 5 + [(0, 0, 5)] * 5)
    results = study_results(store)
    assert results.kappa == 1.0
    assert {row.agreement for row in results.agreement} == {1.0}
    assert len(results.agreement) == 5


def test_the_seed_gives_the_same_bars(make: Make) -> None:
    store = make(origin="human", checks_per_judge=0)
    vote(store, ANSWERS)
    assert study_results(store, seed=3) == study_results(store, seed=3)
    assert "seed:3" in study_results(store, seed=3).signature


def test_people_against_metrics(make: Make, tmp_path: Path) -> None:
    """The human captions share words with the references, the system's hardly: CIDEr prefers
    people's everywhere. Judges prefer the system on two pairs and are undecided on one.
    """
    store = make(origin="human", checks_per_judge=0)
    vote(store, [(5, 0, 0), (3, 1, 1), (2, 1, 2)] + [(0, 0, 5)] * 7)
    results = study_results(store)
    with store.read() as connection:
        references = read_references(connection)
    [found] = metric_agreement(results, references)
    assert found.metric == "cider"
    assert (len(found.decided), found.agreeing) == (9, 7)
    wrong = disagreements(found)
    assert [v.judged.counts for v in wrong] == [(5, 0, 0), (3, 1, 1)]
    save_results(store, results, [found], tmp_path)
    page = (tmp_path / "disagreement.html").read_text()
    assert page.count("<article>") == 2
    assert page.count("data:image/jpeg") == 2
    assert "cider: 2 of 9 pairs" in page
    assert "<script" not in page
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"results.json", "results.md", "results.csv", "pairs.jsonl"}
    lines = (tmp_path / "pairs.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["votes"] == {"better": 5, "same": 0, "worse": 0}


def test_a_reference_that_was_shown_scores_nobody(make: Make) -> None:
    store = make(origin="human", checks_per_judge=0)
    with store.read() as connection:
        references, pairs = read_references(connection), read_pairs(connection)
    for pair in pairs.values():
        assert pair.second not in references[pair.image]
        assert len(references[pair.image]) == 2


def test_an_empty_page_is_whole(make: Make) -> None:
    store = make()
    page = disagreement_page([], store.design, {})
    assert "default-src 'none'" in page
