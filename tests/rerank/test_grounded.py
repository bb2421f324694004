"""Scoring of sentences around a stand-in network, and directories that do not belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightwords.errors import BundleError, InputError
from sightwords.rerank.grounded import Grounded, GroundedSpec, shown_words
from sightwords.sealed import renew_sum
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.types import DetectedWord, DetectedWords

WORDS = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1), 10)
UNKNOWN, END, START = 4, 5, 6
SPEC = GroundedSpec(
    tokens=2, features=3, vocabulary=4, words=2, word_threshold=0.15, maximum_length=2,
    length_power=0.0,
)  # fmt: skip
IMAGE = np.zeros((2, 3), np.float32)


class Bigrams:
    """In place of a network: the log-probability of b after a is -(10 a + b)."""

    name = "bigrams"

    def __init__(self) -> None:
        self.fed: list[dict[str, Any]] = []

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        self.fed.append(inputs)
        tokens, parents = inputs["tokens"], inputs["parents"]
        return {
            "log_probs": -(10.0 * tokens[parents] + tokens).astype(np.float32),
            "end_log_probs": -(10.0 * tokens + END).astype(np.float32),
            "values": tokens.astype(np.float32) / 100,
        }


def _grounded(**changes: Any) -> tuple[Grounded, Bigrams]:
    network = Bigrams()
    values = {name: getattr(SPEC, name) for name in SPEC.__slots__} | changes
    return Grounded(GroundedSpec(**values), WORDS, network), network  # type: ignore[arg-type]


def test_words_and_end_add_up_and_the_value_is_of_the_last_word() -> None:
    grounded, _ = _grounded()
    found = grounded.scores(IMAGE, {}, [("a", "dog"), ("a",), (), ("a", "dog")])
    # start 6, a 0, dog 1, end 5: -(60 + 0) - (0 + 1) - (10 + 5); -(60) - (5); -(65)
    assert found.log_probs.tolist() == [-76.0, -65.0, -65.0, -76.0]
    assert found.values == pytest.approx([0.01, 0.0, 0.06, 0.01])
    total = grounded.score(IMAGE, {}, [("a", "dog")])
    assert total.dtype == np.float32
    assert total == pytest.approx([-75.99])


def test_log_probs_may_be_divided_by_length() -> None:
    grounded, _ = _grounded(length_power=1.0)
    assert grounded.score(IMAGE, {}, [("a", "dog")]) == pytest.approx([-76 / 3 + 0.01])


def test_shared_beginnings_are_read_once() -> None:
    grounded, network = _grounded()
    grounded.score(IMAGE, {}, [("a", "dog", "runs"), ("a", "dog"), ("a", "cat")])
    assert sorted(network.fed[0]["tokens"].tolist()) == [0, 1, 2, 3, START]
    # positions beyond the longest that training saw share the last
    assert network.fed[0]["positions"].tolist() == [0, 1, 2, 2, 2]


def test_many_sentences_take_several_passes_and_keep_their_order() -> None:
    grounded, network = _grounded()
    random = np.random.default_rng(0)
    sentences = [[WORDS.words[i] for i in random.integers(0, 4, 5)] for _ in range(300)]
    found = grounded.score(IMAGE, {}, sentences)
    assert len(network.fed) == 3
    alone = [grounded.score(IMAGE, {}, [sentence])[0] for sentence in sentences]
    np.testing.assert_allclose(found, alone)


def test_words_outside_the_vocabulary_are_read_as_unknown() -> None:
    grounded, network = _grounded()
    grounded.score(IMAGE, {}, [("a", "zebra")])
    assert network.fed[0]["tokens"].tolist() == [START, 0, UNKNOWN]


def test_the_likeliest_content_words_are_shown() -> None:
    grounded, network = _grounded()
    grounded.score(IMAGE, {"a": 1.0, "zebra": 0.9, "cat": 0.5, "dog": 0.1, "runs": 0.6}, [("a",)])
    assert network.fed[0]["word_ids"].tolist() == [3, 2]
    assert network.fed[0]["word_probs"] == pytest.approx([0.6, 0.5])
    detected = DetectedWords((DetectedWord("dog", 0.7, 0.9, 0.5),), 0.5)
    grounded.score(IMAGE, detected, [("a",)])
    assert network.fed[1]["word_ids"].tolist() == [1]


def test_equal_words_are_cut_by_id_in_any_order() -> None:
    one = shown_words([1, 2, 3], [0.5, 0.5, 0.5], threshold=0.1, limit=2)
    other = shown_words([3, 1, 2], [0.5, 0.5, 0.5], threshold=0.1, limit=2)
    assert one[0].tolist() == other[0].tolist() == [1, 2]


def test_no_sentences_no_scores() -> None:
    grounded, network = _grounded()
    assert grounded.score(IMAGE, {}, []).shape == (0,)
    assert not network.fed


@pytest.mark.parametrize("shape", [(3, 3), (6,), (1, 2, 3)])
def test_features_of_another_detector_are_refused(shape: tuple[int, ...]) -> None:
    grounded, _ = _grounded()
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        grounded.score(np.zeros(shape, np.float32), {}, [("a",)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sealed, but what stands in the network's place is none."""
    save_vocabulary(WORDS, tmp_path / "vocabulary.json")
    (tmp_path / "network.onnx").write_bytes(b"no network")
    SPEC.save(tmp_path)
    return tmp_path


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "grounded.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, **changes}), encoding="utf-8")
    renew_sum(folder, path.name)


def test_a_directory_comes_back(folder: Path) -> None:
    spec = GroundedSpec.load(folder)
    assert spec == SPEC


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2.* up to 1"),
        ({"tokens": 0}, "tokens is 0"),
        ({"length_power": "1"}, "length_power is '1'"),
        ({"vocabulary": 5}, r"vocabulary\.json: 4 words.* 5"),
        ({}, r"network\.onnx"),
    ],
)
def test_what_does_not_belong_together_is_named(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    _edit(folder, **changes)
    with pytest.raises(BundleError, match=message) as caught:
        Grounded.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["grounded.json", "network.onnx", "vocabulary.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BundleError, match=rf"{name}: .*[Nn]o such file"):
        Grounded.load(folder)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="nowhere"):
        Grounded.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["grounded.json", "network.onnx", "vocabulary.json"])
def test_a_changed_file_is_named(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-1] + b"\0")
    with pytest.raises(BundleError, match=name):
        Grounded.load(folder)
