"""Captions and detections as arrays, and detections drawn for images without any."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import CorpusError, InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import (
    NO_SET,
    encode_blocks,
    joined,
    joined_sets,
    read_detections,
)
from sightwords.train.language.detection_noise import simulate_scores
from sightwords.types import Example

VOCABULARY = Vocabulary(("a", "dog", "cat"), (9, 5, 4), 30)


def example(image_id: str, *captions: str) -> Example:
    return Example(image_id, None, captions, "train", "test")


def write_scores(path: Path) -> None:
    scores = np.array([[0.9, 0.5, 0.1], [0.9, 0.0, 0.15]], dtype=np.float32)
    np.savez(
        path, ids=np.array(["000009", "25"]), words=np.array(["a", "cat", "dog"]), scores=scores
    )


def test_sets_of_scores(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores.npz")
    sets = read_detections(tmp_path / "scores.npz", threshold=0.15).attribute_sets(VOCABULARY)
    assert sets.offsets.tolist() == [0, 1, 2]
    assert sets.ids.tolist() == [2, 1]  # cat, then dog; a is closed-class
    assert sets.log_probs == pytest.approx([math.log(0.5), math.log(0.15)])
    assert (sets.row("9"), sets.row("000000000025"), sets.row("1")) == (0, 1, NO_SET)


def test_an_image_twice_in_a_file_does_not_shift_the_next_file(tmp_path: Path) -> None:
    for name, ids in (("one", ["9", "000009"]), ("two", ["25", "26"])):
        scores = np.array([[0.5, 0.0], [0.0, 0.5]], dtype=np.float32)
        words = np.array(["cat", "dog"])
        np.savez(tmp_path / f"{name}.npz", ids=np.array(ids), words=words, scores=scores)
    both = joined_sets(
        read_detections(tmp_path / f"{name}.npz").attribute_sets(VOCABULARY)
        for name in ("one", "two")
    )
    cat, dog = 2, 1
    found = {name: both.ids[both.offsets[row] : both.offsets[row + 1]].tolist()
             for name, row in both.rows.items()}  # fmt: skip
    assert found == {"9": [dog], "25": [cat], "26": [dog]}


def test_sets_of_top_words(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "top.npz",
        ids=np.array(["9"]),
        words=np.array(["a", "cat", "dog"]),
        indices=np.array([[2, 0, 1]], dtype=np.uint16),
        probs=np.array([[0.75, 0.5, 0.125]], dtype=np.float16),
    )
    sets = read_detections(tmp_path / "top.npz").attribute_sets(VOCABULARY)
    assert sets.ids.tolist() == [1]
    assert np.exp(sets.log_probs) == pytest.approx([0.75])


def test_files_without_word_scores(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_text("nothing")
    with pytest.raises(InputError, match="bad"):
        read_detections(tmp_path / "bad.npz")
    np.savez(tmp_path / "other.npz", ids=np.array(["9"]))
    with pytest.raises(InputError, match="ids, words and scores"):
        read_detections(tmp_path / "other.npz")


def test_captions_are_encoded_with_their_sets(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores.npz")
    sets = read_detections(tmp_path / "scores.npz").attribute_sets(VOCABULARY)
    examples = [example("25", "A dog.", "A zebra"), example("77", "the cat")]
    found = joined(encode_blocks(examples, VOCABULARY, sets, text_weight=0.5, block=2))
    assert found.tokens.tolist() == [0, 1, 4, 0, 3, 4, 3, 2, 4]  # 3 is <unk>, 4 the end
    assert found.offsets.tolist() == [0, 3, 6, 9]
    assert found.images.tolist() == [1, 1, NO_SET]
    assert found.weights.tolist() == [1, 1, 0.5]
    only = joined(encode_blocks(examples, VOCABULARY, sets, text_weight=0, captions_per_image=1))
    assert len(only) == 1
    with pytest.raises(CorpusError, match="captions"):
        joined([])


def test_drawn_scores_follow_the_held_out_ones() -> None:
    rng = np.random.default_rng(0)
    held = np.zeros((200, 3), dtype=np.uint8)
    held[:100, 0] = 3  # dogs
    held[100:, 1] = 2  # cats
    scores = np.zeros((200, 3), dtype=np.float32)
    scores[:100, 0] = rng.choice([0.9, 0.1], 100, p=[0.8, 0.2])
    scores[100:, 1] = 0.7
    scores[:100, 2] = 0.4  # a false alarm that follows dogs
    mentions = np.zeros((1000, 3), dtype=np.uint8)
    mentions[:500, 0] = 1
    mentions[500:, 1] = 1
    found = simulate_scores(mentions, held, scores, block=300)
    recall = (scores[:100, 0] > 0.5).mean()
    assert (found[:500, 0] > 0.5).mean() == pytest.approx(recall, abs=0.06)
    assert (found[500:, 1] == np.float32(0.7)).all()
    assert (found[:500, 2] == np.float32(0.4)).all()
    assert (found[500:, 2] == 0).all()
    assert np.array_equal(found, simulate_scores(mentions, held, scores, block=300))
    with pytest.raises(InputError, match="2"):
        simulate_scores(mentions[:, :2], held, scores)
