"""The paper's tables: saved values and nothing else become numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightwords.errors import ScoreError
from sightwords.evaluate import published
from sightwords.evaluate.rows import Row, parse_row_name, read_row, read_rows, row_path, save_row
from sightwords.evaluate.tables import OPEN, paper_tables


def cells(table: int, system: str, folder: Path) -> tuple[str, ...]:
    grid = paper_tables(folder)[table]
    (row,) = (row for row in grid.rows if row[0] == system)
    return row


def test_without_rows_every_cell_of_ours_is_open(tmp_path: Path) -> None:
    words, systems, coco, pascal = paper_tables(tmp_path)
    for row in words.rows:
        ours = [c for c in row[1:] if c]
        assert set(ours) == {OPEN} or row[0].endswith("(paper)")
    for grid in (systems, coco):
        for row in grid.rows:
            assert set(row[1::2]) == {OPEN}
    for row in pascal.rows:
        assert set(row[1:5]) == {OPEN}


def test_published_figures_stand_under_paper_only(tmp_path: Path) -> None:
    _, systems, coco, pascal = paper_tables(tmp_path)
    assert set(systems.header[2::2]) == set(coco.header[2::2]) == {"paper"}
    assert cells(1, "VGG+Score+DMSM+ft", tmp_path)[2::2] == (
        *("18.1", "25.7", "23.6"),
        *("26.2", "7.8", "34.0"),
    )
    assert cells(2, "Human", tmp_path)[2::2] == ("85.4", "21.7", "66.3", "48.4", "25.2")
    assert pascal.header[5:] == ("BLEU-4 (paper)", "METEOR (paper)")
    assert cells(3, "Midge", tmp_path)[5:] == ("2.0", "9.2")
    assert cells(3, "VGG+Score+DMSM+ft", tmp_path)[5:] == ("17.6", "19.2")
    assert not any("Baby" in row[0] for row in pascal.rows)


def test_eight_systems_and_human_in_the_order_of_the_paper(tmp_path: Path) -> None:
    names = [row[0] for row in paper_tables(tmp_path)[1].rows]
    assert names == list(published.SYSTEMS)
    assert len(names) == 9
    assert names[-1] == "Human"


def test_saved_values_fill_their_cells_and_leave_others_open(tmp_path: Path) -> None:
    save_row(tmp_path, Row("systems", "Baseline", {"bleu_4": 0.16949}))
    assert cells(1, "Baseline", tmp_path)[1:7] == ("open", "20.9", "16.9", "16.9", "open", "18.9")
    save_row(tmp_path, Row("systems", "Baseline", {"pplx": 20.04}))
    assert cells(1, "Baseline", tmp_path)[1:4] == ("20.0", "20.9", "16.9")


def test_a_new_run_replaces_all_scores_of_the_old_one(tmp_path: Path) -> None:
    save_row(tmp_path, Row("systems", "x", {"bleu_4": 0.1, "meteor": 0.1}, {"meteor": "old"}))
    save_row(tmp_path, Row("systems", "x", {"pplx": 20.0}))
    path = save_row(tmp_path, Row("systems", "x", {"bleu_4": 0.2}, {"bleu_4": "new"}))
    row = read_row(path)
    assert row.values == {"pplx": 20.0, "bleu_4": 0.2}
    assert row.signatures == {"bleu_4": "new"}


def test_human_columns_are_never_filled_from_a_row(tmp_path: Path) -> None:
    save_row(tmp_path, Row("systems", "Baseline", {"same_or_better": 0.9, "same_as_human": 0.4}))
    assert cells(1, "Baseline", tmp_path)[7::2] == (OPEN, OPEN, OPEN)


def test_pascal_keeps_five_and_fifty_apart(tmp_path: Path) -> None:
    save_row(tmp_path, Row("pascal50", "Human", {"bleu_4": 0.5, "meteor": 0.25}))
    assert cells(3, "Human", tmp_path) == ("Human", "open", "open", "50.0", "25.0", "–", "–")


def test_systems_outside_the_paper_come_last_without_published_figures(tmp_path: Path) -> None:
    save_row(tmp_path, Row("coco", "sightwords", {"cider": 1.0654}))
    grid = paper_tables(tmp_path)[2]
    assert grid.rows[-1][:3] == ("sightwords", "106.5", "–")


def test_words_have_both_measures_and_human_agreement_stays_last(tmp_path: Path) -> None:
    values = {"ap_nn": 0.5, "phr_all": 0.25, "count_nn": 2.0}
    save_row(tmp_path, Row("words", "mine", values))
    grid = paper_tables(tmp_path)[0]
    assert [row[0] for row in grid.rows][-3:] == [
        "mine",
        "Human Agreement",
        "Human Agreement (paper)",
    ]
    row = next(row for row in grid.rows if row[0] == "mine")
    assert row[1] == "50.0"
    assert row[-1] == "25.0"
    assert row[2] == OPEN
    chance = next(row for row in grid.rows if row[0] == "Chance")
    assert chance[1:] == (OPEN,) * 8 + ("",) * 8  # the paper gives Chance no PHR, nor do we


def test_another_number_of_references_is_said(tmp_path: Path) -> None:
    signature = {"bleu_4": "bleu_4|images:10|refs:5|tok:ptb-coco"}
    save_row(tmp_path, Row("systems", "Human", {"bleu_4": 0.2}, signature))
    notes = paper_tables(tmp_path)[1].notes
    assert "Human: measured with 5 references, not 4" in notes


def test_rows_survive_a_round_trip(tmp_path: Path) -> None:
    row = Row("coco", "a/b: ünïcode", {"cider": 1 / 3}, {"cider": "sig"})
    path = save_row(tmp_path, row)
    assert path.parent == tmp_path / "coco"
    assert read_row(path) == row
    assert read_rows(tmp_path, "coco") == {row.system: row}


@pytest.mark.parametrize("system", ["..", "../x", "/etc/passwd", "a\\b", "a:b"])
def test_row_files_stay_in_their_folder(tmp_path: Path, system: str) -> None:
    assert row_path(tmp_path, "coco", system).parent == tmp_path / "coco"


@pytest.mark.parametrize("text", ["coco", "nope:x", "coco:", "coco:  "])
def test_bad_row_names(text: str) -> None:
    with pytest.raises(ScoreError):
        parse_row_name(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", ""),
        ("{", ""),
        ('{"table": "coco"}', ""),
        ('{"table": "coco", "system": "x", "values": {"cider": "1"}}', "cider is '1'"),
        ('{"table": "coco", "system": "x", "values": {"cider": NaN}}', "cider is nan"),
        ('{"table": "words", "system": "x", "values": {}}', "'words'.*'coco'"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "coco" / "x.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ScoreError, match=message or None) as caught:
        paper_tables(tmp_path)
    assert "x.json" in str(caught.value)


def test_two_files_for_one_system(tmp_path: Path) -> None:
    path = save_row(tmp_path, Row("coco", "x", {}))
    path.with_name("y.json").write_text(json.dumps({"table": "coco", "system": "x", "values": {}}))
    with pytest.raises(ScoreError, match="'x'"):
        paper_tables(tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ScoreError, match="nothing"):
        paper_tables(tmp_path / "nothing")
