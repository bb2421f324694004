"""Text read by several processes gives the sums of one pass, even if processes die."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.config import LanguageConfig
from sightwords.corpus import open_corpus
from sightwords.errors import ConfigError, ExternalToolError
from sightwords.text.vocabulary import Vocabulary, WordCounts
from sightwords.train.language.data import (
    AttributeSets,
    Counted,
    Detections,
    Sentences,
    count,
    encode_blocks,
    joined,
    merged,
)
from sightwords.train.language.state import followers_of
from sightwords.train.language.store import (
    RUN,
    Examples,
    Part,
    count_words,
    parts_of,
    store_text,
)
from sightwords.types import Example

CONFIG = LanguageConfig(table_bits=12, epochs=3, text_weight=0.5)
ANIMALS = ("dog", "cat", "bird", "horse")


@cache
def examples(count: int = 3 * RUN + 7) -> list[Example]:
    """Captions that differ in words and length."""
    rng = np.random.default_rng(count)
    found = []
    for number in range(count):
        words = rng.choice(ANIMALS, size=rng.integers(1, 5)).tolist()
        found.append(Example(str(number), None, (f"a {' '.join(words)}", "a dog"), "", "made"))
    return found


VOCABULARY = Vocabulary.of_captions(
    (caption for example in examples() for caption in example.captions), size=4
)


def written(folder: Path, name: str, count: int) -> Examples:
    """A corpus on disk, which can be sent to processes."""
    lines = (json.dumps({"id": e.id, "captions": e.captions}) for e in examples(count))
    path = folder / name
    path.write_text("\n".join(lines), encoding="utf-8")
    return partial(open_corpus, str(path))


def sets() -> AttributeSets:
    rows = np.arange(300)
    return Detections(
        [str(n) for n in rows], list(ANIMALS), rows, rows % 4, np.full(300, 0.8)
    ).attribute_sets(VOCABULARY)


def in_one_pass(corpora: Iterable[Example]) -> Counted:
    return count(joined(encode_blocks(corpora, VOCABULARY)), VOCABULARY)


@settings(deadline=None, max_examples=10)
@given(cut=st.integers(1, 7), seed=st.integers(0, 5))
def test_any_cut_adds_up_to_one_pass(cut: int, seed: int) -> None:
    parts: list[Part] = parts_of([examples, partial(examples, 20)], cut)
    order = np.random.default_rng(seed).permutation(len(parts))
    blocks = chain.from_iterable(encode_blocks(parts[n], VOCABULARY, block=100) for n in order)
    found = merged(count(block, VOCABULARY) for block in blocks)
    whole = in_one_pass([*examples(), *examples(20)])
    assert found.counts.tobytes() == whole.counts.tobytes()
    mine = followers_of(found.pairs, len(VOCABULARY) + 1)
    theirs = followers_of(whole.pairs, len(VOCABULARY) + 1)
    assert mine[0].tobytes() == theirs[0].tobytes()
    assert mine[1].tobytes() == theirs[1].tobytes()
    counted = [WordCounts.of_captions(parts[n].captions()) for n in order]
    words = Vocabulary.of_counts(sum(counted[1:], start=counted[0]), size=4)
    captions = (caption for e in [*examples(), *examples(20)] for caption in e.captions)
    assert words == Vocabulary.of_captions(captions, size=4)


def lines_of(blocks: Iterable[Sentences]) -> list[tuple[int, float, bytes]]:
    every = joined(blocks)
    pieces = np.split(every.tokens, every.offsets[1:-1])
    rows = zip(every.images.tolist(), every.weights.tolist(), pieces, strict=True)
    return sorted((image, weight, piece.tobytes()) for image, weight, piece in rows)


def test_processes_store_what_one_pass_reads(tmp_path: Path) -> None:
    captions = [written(tmp_path, "a.jsonl", 600), written(tmp_path, "b.jsonl", 40)]
    text = [written(tmp_path, "text.jsonl", RUN + 100)]
    parts: list[tuple[int, int]] = []
    stored = store_text(
        tmp_path / "store", (captions, text), VOCABULARY, CONFIG,
        sets=sets(), processes=2, report=lambda done, total: parts.append((done, total)),
    )  # fmt: skip
    assert parts[-1] == (4, 4)  # two files of captions; one of text, cut in two
    expected = [
        *encode_blocks(chain(captions[0](), captions[1]()), VOCABULARY, sets(), text_weight=0.5),
        *encode_blocks(text[0](), VOCABULARY, text_weight=0.5),
    ]
    assert lines_of(stored()) == lines_of(expected)
    whole = count(joined(expected), VOCABULARY)
    assert stored.counted.counts.tobytes() == whole.counts.tobytes()
    assert stored.counted.pairs.tobytes() == whole.pairs.tobytes()
    words = count_words([*captions, *text], processes=2)
    every = [caption for c in (*captions, *text) for e in c() for caption in e.captions]
    assert Vocabulary.of_counts(words) == Vocabulary.of_captions(every)


def absent() -> Iterable[Example]:
    raise AssertionError("read again")


def test_stored_text_is_not_read_again(tmp_path: Path) -> None:
    corpus = written(tmp_path, "a.jsonl", 50)
    folder = tmp_path / "store"
    first = store_text(folder, ([corpus], []), VOCABULARY, CONFIG, processes=1)
    again = store_text(folder, ([absent], []), VOCABULARY, CONFIG, processes=4)
    assert again.files == first.files
    assert again.counted.pairs.tobytes() == first.counted.pairs.tobytes()
    heavier = dataclasses.replace(CONFIG, text_weight=1.0)
    with pytest.raises(ConfigError, match="delete the folder"):
        store_text(folder, ([corpus], []), VOCABULARY, heavier, processes=1)


@pytest.mark.parametrize("name", ["text.json", "part-00000.npz", "part-00000-block-00000.npz"])
@pytest.mark.parametrize("damage", ["flip", "cut", "other", "gone"])
def test_damaged_text_is_read_again(
    tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    corpus, folder = written(tmp_path, "a.jsonl", 50), tmp_path / "store"
    first = store_text(folder, ([corpus], []), VOCABULARY, CONFIG, processes=1)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    data = bytearray(files[name])
    data[len(data) // 2] ^= 1
    changed: dict[str, bytes] = {
        "flip": bytes(data),
        "cut": bytes(data[: len(data) // 2]),
        "other": b"[1, 2]\n",
    }
    (folder / ".part-00000-x1.partial.npz").write_bytes(b"left by a kill")
    if damage == "gone":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(changed[damage])
    again = store_text(folder, ([corpus], []), VOCABULARY, CONFIG, processes=1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert again.files == first.files
    assert again.counted.counts.tobytes() == first.counted.counts.tobytes()
    if damage != "gone":
        assert name in caplog.text


DYING = """
import os, pathlib, signal
from sightwords.types import Example

def corpus(marker, times):
    path = pathlib.Path(marker)
    died = len(path.read_text()) if path.exists() else 0
    yield Example("1", None, ("a dog",), "", "made")
    if died < times:
        path.write_text("x" * (died + 1))
        os.kill(os.getpid(), signal.SIGKILL)
"""


def dying(folder: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> Callable[..., object]:
    """A corpus that kills the process that reads it this many times."""
    (folder / "dying_corpus.py").write_text(DYING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))  # which spawned processes inherit
    found = importlib.import_module("dying_corpus").corpus
    return partial(found, str(folder / "died"), times)


def test_a_killed_process_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpora = [dying(tmp_path, monkeypatch, 1), written(tmp_path, "a.jsonl", 30)]
    stored = store_text(tmp_path / "store", (corpora, []), VOCABULARY, CONFIG, processes=2)  # type: ignore[arg-type]
    assert sum(len(block) for block in stored()) == 61
    assert "a reading process died" in caplog.text


def test_processes_that_keep_dying_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora = [dying(tmp_path, monkeypatch, 99)]
    with pytest.raises(ExternalToolError, match=r"run\.workers"):
        store_text(tmp_path / "store", (corpora, []), VOCABULARY, CONFIG, processes=1)  # type: ignore[arg-type]
