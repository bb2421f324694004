"""Word detection: the columns of Table 3 out of a score file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import ScoreError
from sightwords.evaluate.rows import read_rows
from sightwords.evaluate.tables import paper_tables
from sightwords.evaluate.word_scores import WordScoreTable
from sightwords.evaluate.words import (
    WordReport,
    evaluate_words,
    save_word_rows,
    save_words,
    word_csv,
    word_grid,
    word_json,
)
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary

REFERENCES = {
    "1": ["a dog runs", "the dog sits", "a big dog"],
    "2": ["a cat", "the cat sits", "a red cat"],
    "3": ["a dog and a cat", "dogs", "a red bus"],
    "4": ["a bus", "the red bus", "one bus"],
}
VOCABULARY = {"dog": "NN", "cat": "NN", "sits": "VB", "red": "JJ", "zebra": "NN"}
SCORES = WordScoreTable(
    ("1", "2", "3", "4"),
    ("dog", "cat", "sits", "red"),
    np.array(
        [[0.9, 0.0, 0.5, 0.1], [0.1, 0.9, 0.4, 0.2], [0.8, 0.7, 0.1, 0.3], [0.0, 0.1, 0.0, 0.9]]
    ),
)


WEIGHTED_AP = 35 / 36
"""Of `dog` and `cat`: 2 true positives at precision 1, then 2/3 more with 1/3 false, at 8/9."""


def judged() -> WordReport:
    return evaluate_words(SCORES, REFERENCES, vocabulary=VOCABULARY, name="mine")


def test_perfect_words_have_perfect_precision_and_unknown_words_count_as_zero() -> None:
    report = judged()
    by_word = dict(zip(report.table.words, report.table.ap_plain, strict=True))
    assert by_word["dog"] == by_word["cat"] == by_word["sits"] == 1.0
    assert np.isnan(by_word["zebra"])  # in nobody's caption: no average precision to speak of
    assert "1 of 5 words have no score" in report.notes[1]


def test_grid_has_a_column_for_each_part_of_speech() -> None:
    grid = word_grid(judged())
    assert grid.header[1:9] == (
        *("AP NN", "AP VB", "AP JJ", "AP DT"),
        *("AP PRP", "AP IN", "AP Others", "AP All"),
    )
    assert [row[0] for row in grid.rows] == ["Words", "Chance", "mine", "Human Agreement"]
    assert grid.rows[0][1:4] == ("3", "1", "1")
    assert grid.rows[2][1] == "97.2"
    assert grid.rows[2][4] == "–"  # no determiner among the words
    assert set(grid.rows[1][9:]) == {""}
    assert "images:4" in grid.notes[2]


def test_without_parts_of_speech_there_is_one_class() -> None:
    report = evaluate_words(SCORES, REFERENCES)
    assert [m.pos for m in report.means] == ["All"]
    assert report.means[0].words == 4


def test_a_vocabulary_file_gives_words_and_parts_of_speech(tmp_path: Path) -> None:
    counts = {"dog": 3, "cat": 2, "red": 1}
    tags = ("NN", "NN", "JJ")
    for pos, classes in ((tags, {"NN", "JJ", "All"}), (None, {"All"})):
        words = Vocabulary(tuple(counts), tuple(counts.values()), 10, pos)
        save_vocabulary(words, tmp_path / "words.json")
        report = evaluate_words(SCORES, REFERENCES, vocabulary=tmp_path / "words.json")
        assert report.table.words == tuple(counts)
        assert {m.pos for m in report.means if m.words} == classes


def test_word_csv_has_a_line_a_word_and_leaves_the_undefined_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(word_csv(judged()))))
    assert [row["word"] for row in rows] == list(VOCABULARY)
    assert [row["pos"] for row in rows] == list(VOCABULARY.values())
    assert rows[0]["positives"] == "2"
    assert float(rows[0]["ap"]) == pytest.approx(WEIGHTED_AP)
    assert rows[4]["ap"] == rows[4]["phr"] == ""


def test_json_is_valid_where_values_are_undefined() -> None:
    content = json.loads(word_json(judged()), parse_constant=pytest.fail)
    assert content["means"]["DT"]["ap"] is None
    assert content["means"]["NN"]["ap"] == pytest.approx(WEIGHTED_AP)
    assert content["means"]["NN"]["ap_plain"] == 1.0


def test_gaps_are_refused_unless_a_subset_is_asked_for() -> None:
    fewer = {key: REFERENCES[key] for key in ("1", "2")}
    with pytest.raises(ScoreError, match=r"2 .*0 "):
        evaluate_words(SCORES, fewer)
    report = evaluate_words(SCORES, fewer, subset=True)
    assert report.notes[0].endswith("|subset:2/2")
    with pytest.raises(ScoreError):
        evaluate_words(SCORES, {"x": ["a dog", "dogs"]}, subset=True)


def test_rows_reach_the_papers_table(tmp_path: Path) -> None:
    report = judged()
    save_words(report, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("words.csv", "table.json", "table.csv", "table.md"),
    }
    save_word_rows(report, tmp_path, system="MIL (mine)")
    rows = read_rows(tmp_path, "words")
    assert set(rows) == {"Chance", "Human Agreement", "MIL (mine)"}
    assert rows["MIL (mine)"].values["ap_nn"] == pytest.approx(WEIGHTED_AP)
    assert "ap_dt" not in rows["MIL (mine)"].values
    grid = paper_tables(tmp_path)[0]
    found = {row[0]: row for row in grid.rows}
    assert found["MIL (mine)"][1] == "97.2"
    assert found["MIL (mine)"][4] == "open"
    assert found["Count"][1:9] == ("3", "1", "1", "0", "0", "0", "0", "5")
    assert found["Chance"][1] not in ("open", "")


def test_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from PIL import Image

    from sightwords.evaluate.words import plot_words

    plot_words(judged(), ["dog", "red"], tmp_path / "curve.png")
    with Image.open(tmp_path / "curve.png") as picture:
        assert picture.size == (900, 750)
    with pytest.raises(ScoreError, match=r"'bus'.*5"):
        plot_words(judged(), ["dog", "bus"], tmp_path / "curve.png")
