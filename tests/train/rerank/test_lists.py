"""M-best lists of many images: made, saved, cut, joined; and what their sentences are worth."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sightwords.config import GenerationConfig
from sightwords.errors import InputError
from sightwords.metrics.bleu import bleu, from_columns
from sightwords.metrics.cider import cider
from sightwords.metrics.score import Comparison
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import Detections, read_detections
from sightwords.train.rerank.list_metrics import measure, references_of
from sightwords.train.rerank.lists import LOG_PROB_STEP, Lists, joined, starts_of
from sightwords.train.rerank.make_lists import (
    detected_words,
    make_lists,
    with_precisions,
    without_words,
)
from sightwords.words.calibration import Calibration

WORDS = ("a", "dog", "cat", "runs", "sits", "black", "on", "grass")


def lists_of(sentences: list[list[str]], *, split: str = "val", first: int = 1) -> Lists:
    """Lists of given sentences, each a tenth less likely than the one before."""
    encoded = [[[WORDS.index(w) for w in s.split()] for s in image] for image in sentences]
    flat = [s for image in encoded for s in image]
    return Lists(
        ids=np.array([str(first + i) for i in range(len(sentences))]),
        splits=np.array([split] * len(sentences)),
        words=WORDS,
        word_offsets=np.arange(len(sentences) + 1) * 2,
        word_ids=np.array([1, 5] * len(sentences), dtype=np.uint16),
        word_probs=np.array([0.75, 0.125] * len(sentences), dtype=np.float32),
        word_precisions=np.array([0.875, 0.5] * len(sentences), dtype=np.float32),
        offsets=starts_of(np.array([len(image) for image in encoded])),
        token_offsets=starts_of(np.array([len(s) for s in flat])),
        tokens=np.array([t for s in flat for t in s], dtype=np.uint16),
        log_probs=np.concatenate(
            [-4 - 0.25 * np.arange(len(image), dtype=np.float32) for image in encoded]
        ),
        coverage=np.ones(len(sentences), dtype=np.uint8),
    )


THREE = [["a dog runs", "a black dog"], ["a cat sits"], ["a dog", "dog runs on grass", "a cat"]]


def test_saved_and_loaded(tmp_path: Path) -> None:
    lists = lists_of(THREE)
    lists.save(tmp_path / "lists.npz")
    again = Lists.load(tmp_path / "lists.npz")
    assert again.words == lists.words
    for name in ("ids", "splits", "word_ids", "word_probs", "tokens", "log_probs", "offsets"):
        assert getattr(again, name).tolist() == getattr(lists, name).tolist(), name
    assert again.sentences(2) == [("a", "dog"), ("dog", "runs", "on", "grass"), ("a", "cat")]
    assert again.detected(0) == {"dog": 0.75, "black": 0.125}  # no third: both are offered


def test_log_probs_are_kept_to_a_step(tmp_path: Path) -> None:
    lists = lists_of(THREE)
    lists.log_probs[:] = np.random.default_rng(0).normal(-9, 5, 6).astype(np.float32)
    lists.save(tmp_path / "lists.npz")
    difference = Lists.load(tmp_path / "lists.npz").log_probs - lists.log_probs
    assert np.abs(difference).max() <= LOG_PROB_STEP / 2 + 1e-6


def test_m_best_names_what_is_mentioned() -> None:
    found = lists_of(THREE).m_best(0)
    assert [h.tokens for h in found.hypotheses] == [("a", "dog", "runs"), ("a", "black", "dog")]
    assert [h.mentioned for h in found.hypotheses] == [("dog",), ("black", "dog")]
    assert found.hypotheses[1].log_prob == -4.25


def test_select_and_best() -> None:
    lists = lists_of(THREE).select([2, 0])
    assert lists.ids.tolist() == ["3", "1"]
    assert lists.text(1) == "dog runs on grass"
    assert lists.best(1).sentences(0) == [("a", "dog")]
    by_length = lists.best(1, lists.lengths)
    assert [by_length.text(i) for i in range(2)] == ["dog runs on grass", "a dog runs"]


def test_joined() -> None:
    both = joined([lists_of(THREE), lists_of([["a cat"]], first=9)])
    assert (len(both), both.text(both.hypotheses - 1)) == (4, "a cat")
    with pytest.raises(InputError, match="is in two"):
        joined([both, both])


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", ids=np.array(["1"]))
    with pytest.raises(InputError, match="not M-best lists"):
        Lists.load(tmp_path / "other.npz")
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="cannot be read"):
        Lists.load(tmp_path / "torn.npz")
    with pytest.raises(InputError, match="no list of image '7'"):
        lists_of(THREE).rows(["7"])


def test_words_offered() -> None:
    vocabulary = Vocabulary(WORDS, tuple(range(8, 0, -1)), 99)
    detections = Detections(
        ["1", "2", "3"],
        ["a", "dog", "cat", "runs", "zebra", "grass"],
        np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2]),
        np.array([0, 1, 2, 3, 5, 1, 2, 3, 5, 4]),
        np.array([0.9, 0.5, 0.2, 0.15, 0.1, 0.3, 0.02, 0.05, 0.04, 0.9], dtype=np.float32),
    )
    words = detected_words(detections, vocabulary, minimum_prob=0.15)
    assert [WORDS[i] for i in words[0].ids] == ["dog", "cat", "runs", "grass"]
    assert words[0].offered.tolist() == [True, True, True, False]
    assert words[1].offered.tolist() == [True, False, True, True]  # the three likeliest
    assert without_words(detections.names, words) == ["3"]
    with pytest.raises(InputError, match="image '3' has no detected word"):
        make_lists(["3"], words[2:], "nowhere", GenerationConfig())


@pytest.fixture
def captions() -> dict[str, list[str]]:
    return {
        "000001": ["A dog runs.", "the black dog runs on grass"],
        "2": ["A cat sits on the mat.", "a cat"],
        "3": ["Dog on grass", "a dog is on the grass"],
    }


def test_values_are_those_of_the_metrics(captions: dict[str, list[str]]) -> None:
    lists = lists_of(THREE)
    references = references_of(lists, captions)
    found = measure(lists, references)
    for rank in range(2):
        chosen = [min(int(b) - 1, int(a) + rank) for a, b in pairwise(lists.offsets)]
        pairs = Comparison(
            tuple(lists.ids.tolist()),
            tuple(lists.sentence(h) for h in chosen),
            tuple(map(tuple, references)),
        )
        assert found.cider[chosen] == pytest.approx(cider(pairs).per_image, abs=1e-6)
        corpus = from_columns(found.bleu[chosen].sum(axis=0).astype(np.float64))
        assert corpus.tolist() == [score.value for score in bleu(pairs)]  # to the last bit


def test_processes_agree_with_one(captions: dict[str, list[str]]) -> None:
    lists = lists_of(THREE)
    references = references_of(lists, captions)
    one, two = measure(lists, references), measure(lists, references, processes=2)
    assert one.cider.tolist() == two.cider.tolist()
    assert one.bleu.tolist() == two.bleu.tolist()


def test_every_image_needs_captions(captions: dict[str, list[str]]) -> None:
    del captions["2"]
    with pytest.raises(InputError, match="1 of 3 images have no captions, the first '2'"):
        references_of(lists_of(THREE), captions)


def test_detections_of_a_file_are_kept(tmp_path: Path) -> None:
    scores = np.array([[0.9, 0.5]], dtype=np.float32)
    np.savez(tmp_path / "s.npz", ids=["7"], words=["dog", "cat"], scores=scores)
    vocabulary = Vocabulary(WORDS, tuple(range(8, 0, -1)), 99)
    [words] = detected_words(read_detections(tmp_path / "s.npz"), vocabulary, minimum_prob=0.15)
    assert words.probs.tolist() == [pytest.approx(0.9), 0.5]
    assert words.precisions.tolist() == words.probs.tolist()


def test_precisions_of_a_calibration(tiny_bundle: Path) -> None:
    words = ("a", "red", "green", "zebra")
    lists = Lists(
        ids=np.array(["1"]),
        splits=np.array(["val"]),
        words=words,
        word_offsets=np.array([0, 2]),
        word_ids=np.array([1, 2], dtype=np.uint16),
        word_probs=np.array([0.75, 0.25], dtype=np.float32),
        word_precisions=np.array([0.75, 0.25], dtype=np.float32),
        offsets=np.array([0, 1]),
        token_offsets=np.array([0, 1]),
        tokens=np.array([1], dtype=np.uint16),
        log_probs=np.array([-1], dtype=np.float32),
        coverage=np.zeros(1, dtype=np.uint8),
    )
    found = with_precisions(lists, tiny_bundle / "words").word_precisions
    probs = np.zeros((1, 8), dtype=np.float32)
    probs[0, 1:3] = 0.75, 0.25
    expected = Calibration.load(tiny_bundle / "words").precision(probs)[0, 1:3]
    assert found == pytest.approx(expected)
    lists.word_ids[1] = 3
    with pytest.raises(InputError, match="does not know 'zebra'"):
        with_precisions(lists, tiny_bundle / "words")
