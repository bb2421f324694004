"""Word score files: two forms, no pickles, and errors that name the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightwords.errors import ScoreError
from sightwords.evaluate.word_scores import WordScoreTable, read_word_scores, write_word_scores


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    table = WordScoreTable(("9", "25"), ("cat", "dog"), np.array([[0.0, 0.5], [0.25, 0.0]]))
    write_word_scores(tmp_path / "scores.npz", table)
    lines = tmp_path / "scores.jsonl"
    lines.write_text(
        '{"id": "000000000009", "words": {"dog": 0.5}}\n{"image_id": 25, "words": {"cat": 0.25}}\n'
    )
    for path in (tmp_path / "scores.npz", lines):
        read = read_word_scores(path)
        assert (read.ids, read.words) == (table.ids, table.words)
        np.testing.assert_array_equal(read.scores, table.scores)


def test_integer_ids_in_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=np.array([9]), words=np.array(["dog"]), scores=np.ones((1, 1)))
    assert read_word_scores(tmp_path / "a.npz").ids == ("9",)


def test_selecting_keeps_the_asked_order_and_fills_unknown_words_with_zero() -> None:
    table = WordScoreTable(("1", "2"), ("a", "b"), np.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(table.select(["2", "1"], ["b", "x", "a"]), [[4, 0, 3], [2, 0, 1]])


def test_a_pickle_is_refused_unopened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "boom",))

    ids = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "a.npz", ids=ids, words=np.array(["dog"]), scores=np.ones((1, 1)))
    with pytest.raises(ScoreError, match=r"a\.npz"):
        read_word_scores(tmp_path / "a.npz")
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": None}, "words"),
        ({"scores": np.ones((1, 2))}, r"\(N,\), \(V,\) and \(N, V\)"),
        ({"ids": np.array([1.5])}, "float64"),
        ({"scores": np.array([[np.nan]])}, "'dog'.*'9'.*nan.*1 of 1"),
        ({"scores": np.array([["x"]])}, "<U1"),
        (
            {"ids": np.array(["9", "09"]), "scores": np.ones((2, 1))},
            "'9' and '09'",
        ),
        ({"ids": np.array(["9", "9"]), "scores": np.ones((2, 1))}, "image '9'"),
        ({"words": np.array(["a", "a"]), "scores": np.ones((1, 2))}, "word 'a'"),
        (
            {"ids": np.array([], dtype=str), "scores": np.ones((0, 1))},
            "",
        ),
    ],
)
def test_bad_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = {"ids": np.array(["9"]), "words": np.array(["dog"]), "scores": np.ones((1, 1))}
    arrays = {key: value for key, value in {**arrays, **changes}.items() if value is not None}
    np.savez(tmp_path / "bad.npz", allow_pickle=False, **arrays)
    with pytest.raises(ScoreError, match=message or None) as caught:
        read_word_scores(tmp_path / "bad.npz")
    assert "bad.npz" in str(caught.value)


@pytest.mark.parametrize("words", [None, [], {"dog": -1}, {"dog": "x"}, {"dog": True}])
def test_bad_lines(tmp_path: Path, words: object) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(
        json.dumps({"id": 1, "words": {}}) + "\n" + json.dumps({"id": 2, "words": words})
    )
    with pytest.raises(ScoreError, match="line 2: 'words'"):
        read_word_scores(path)


def test_an_image_twice(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": 1, "words": {"a": 1}}\n{"id": "01", "words": {"a": 1}}')
    with pytest.raises(ScoreError, match="line 2: image '1'"):
        read_word_scores(path)
