"""From corpora and word scores to a model in one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sightwords.config import LanguageConfig
from sightwords.errors import InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import NO_SET, Sentences, encode
from sightwords.train.language.run import (
    LanguageSources,
    Remembered,
    attribute_sets_of,
    blocks_of,
    train_language,
)
from sightwords.types import Example

VOCABULARY = Vocabulary(("a", "dog", "cat"), (9, 5, 4), 30)
CONFIG = LanguageConfig(table_bits=10, epochs=2, text_weight=0.25)


def images() -> list[Example]:
    return [Example(i, None, ("a dog", "a cat"), "train", "test") for i in ("1", "2", "3")]


def text() -> list[Example]:
    return [Example("1", None, ("a cat",), "", "text")]  # its id means nothing


def write_scores(path: Path, *ids: str) -> Path:
    scores = np.tile(np.array([[0.9, 0.3]], dtype=np.float32), (len(ids), 1))
    np.savez(path, ids=np.array(ids), words=np.array(["dog", "cat"]), scores=scores)
    return path


def test_sources_become_blocks(tmp_path: Path) -> None:
    files = [write_scores(tmp_path / "a.npz", "2"), write_scores(tmp_path / "b.npz", "1", "7")]
    sources = LanguageSources([images], [text], files)
    sets = attribute_sets_of(sources, VOCABULARY, CONFIG)
    assert sets.rows == {"2": 0, "1": 1, "7": 2}
    assert sets.offsets.tolist() == [0, 2, 4, 6]
    first, second = blocks_of(sources, VOCABULARY, sets, CONFIG)()
    assert first.images.tolist() == [1, 1, 0, 0, NO_SET, NO_SET]
    assert second.images.tolist() == [NO_SET]
    assert second.weights.tolist() == [0.25]


def test_an_image_scored_twice_is_refused(tmp_path: Path) -> None:
    files = [write_scores(tmp_path / "a.npz", "2"), write_scores(tmp_path / "b.npz", "0002")]
    with pytest.raises(InputError, match="'2'"):
        attribute_sets_of(LanguageSources([images], [], files), VOCABULARY, CONFIG)


@pytest.mark.parametrize(("room", "readings"), [(100, 1), (5, 3)])
def test_few_sentences_are_read_once(room: int, readings: int) -> None:
    times = 0

    def read() -> Iterator[Sentences]:
        nonlocal times
        times += 1
        yield encode([["a"]], [NO_SET], VOCABULARY)
        yield encode([["a", "dog", "cat"]], [NO_SET], VOCABULARY)

    blocks = Remembered(read, room)
    assert [len(block.tokens) for block in blocks()] == [2, 4]
    for _ in range(2):
        assert [len(block.tokens) for block in blocks()] == ([6] if readings == 1 else [2, 4])
    assert times == readings


def test_train_in_one_call(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    scores = write_scores(tmp_path / "a.npz", "1", "2")
    model = train_language(LanguageSources([images], [text], [scores]), VOCABULARY, CONFIG)
    model.save(tmp_path / "model")
    assert model.followers(0).tolist() == [1, 2]
    assert model.attribute > 0
    with pytest.raises(InputError, match="corpus"):
        train_language(LanguageSources(), VOCABULARY, CONFIG)
