"""The similarity model as it is served: encoding of sentences, scores, and bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.errors import BundleError, InputError
from sightwords.rerank.dmsm import Dmsm, TextIndex
from sightwords.sealed import write_sums
from sightwords.text.trigrams import TrigramIndex

DATA = Path(__file__).parent / "data" / "dmsm"
RED = np.array([[0.9, 0.1, 0.1]], np.float32)
SENTENCES = [("a", "blue", "wall"), ("the", "wall", "is", "red"), ("green",), ("a", "red", "wall")]


@pytest.fixture(scope="module")
def dmsm() -> Dmsm:
    return Dmsm.load(DATA, threads=1)


def test_the_sentence_that_fits_wins(dmsm: Dmsm) -> None:
    scores = dmsm.score(RED, SENTENCES)
    assert scores.shape == (4,)
    assert {1, 3} == set(np.argsort(-scores)[:2])
    assert np.abs(scores).max() <= 1 + 1e-6


def test_vectors_have_length_one(dmsm: Dmsm) -> None:
    assert np.linalg.norm(dmsm.image(RED)) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(np.linalg.norm(dmsm.texts(SENTENCES), axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(
        dmsm.score(RED, SENTENCES), dmsm.texts(SENTENCES) @ dmsm.image(RED), atol=1e-6
    )


words = st.sampled_from(["a", "red", "reds", "wall", "xyzzy", "blue", "é", "the"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(words, min_size=1, max_size=7).map(tuple), min_size=1, max_size=12))
def test_company_changes_no_sentence(sentences: list[tuple[str, ...]]) -> None:
    """Shared words and windows, padding and order: each sentence is what it is alone."""
    dmsm = Dmsm.load(DATA, threads=1)
    together = dmsm.texts(sentences)
    alone = np.concatenate([dmsm.texts([s]) for s in sentences])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@given(
    st.lists(st.lists(words, min_size=1, max_size=7).map(tuple), min_size=1, max_size=12),
    st.sampled_from([1, 3, 5]),
)
def test_the_batch_spells_the_sentences(sentences: list[tuple[str, ...]], window: int) -> None:
    """Reading the arrays back by hand gives every window of every sentence."""
    index = TextIndex(("red",), TrigramIndex.of_words(["red", "wall", "blue"]), window)
    batch = index.encode(sentences)
    names = list(dict.fromkeys(["", *(w for s in sentences for w in s)]))
    margin = window // 2
    for row, tokens in zip(batch.sentences, sentences, strict=True):
        padded = [""] * margin + list(tokens) + [""] * margin
        expected = [tuple(padded[i : i + window]) for i in range(len(tokens))]
        found = [tuple(names[w] for w in batch.windows[place]) for place in row]
        assert found[: len(tokens)] == expected
        assert set(found[len(tokens) :]) <= {expected[0]}
    assert len({tuple(w) for w in batch.windows.tolist()}) == len(batch.windows)


def test_unknown_words_are_read_by_their_trigrams(dmsm: Dmsm) -> None:
    """`redd` shares #re and red with `red`; `qqq` shares nothing, and is as good as any other."""
    one, other, known, unknown = dmsm.texts(
        [("a", "qqq", "wall"), ("a", "zzz", "wall"), ("a", "red", "wall"), ("a", "redd", "wall")]
    )
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert unknown @ known > one @ known
    own, trigrams = dmsm.index.rows(["redd", "qqq", ""])
    assert own.tolist() == [0, 0, 0]
    ids = dmsm.index.trigrams.ids
    assert set(trigrams[0]) - {0} == {ids["#re"] + 1, ids["red"] + 1}
    assert not trigrams[1:].any()


def test_shares_are_the_posterior(dmsm: Dmsm) -> None:
    """Eq. 5 by hand: gamma 10, cosines .5 and .3 -> e^2 : 1."""
    assert dmsm.gamma == pytest.approx(10)
    shares = dmsm.shares(np.array([0.5, 0.3], np.float32))
    assert shares.tolist() == pytest.approx([0.880797, 0.119203], abs=1e-5)


def test_no_sentences_have_no_scores(dmsm: Dmsm) -> None:
    assert dmsm.score(RED, []).shape == (0,)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.full((1, 3), np.nan, np.float32), "NaN"),
        (np.zeros((2, 3), np.float32), r"\(2, 3\); this model takes \(1, 3\)"),
        (np.zeros(3, np.float32), "shape"),
    ],
)
def test_bad_features_are_refused(dmsm: Dmsm, features: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dmsm.score(features, SENTENCES)


def test_bad_sentences_are_refused(dmsm: Dmsm) -> None:
    with pytest.raises(InputError, match="sentence 2 of 2"):
        dmsm.texts([("a",), ()])
    with pytest.raises(InputError, match="'a dog'"):
        dmsm.texts(["a dog"])


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "dmsm"))


def _change(folder: Path, **values: object) -> None:
    path = folder / "dmsm.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), encoding="utf-8")


def test_a_directory_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"dmsm\.json.*sightwords train dmsm"):
        Dmsm.load(tmp_path)


def test_damaged_and_missing_networks_are_named(copy: Path) -> None:
    whole = (copy / "text.onnx").read_bytes()
    (copy / "text.onnx").write_bytes(b"no network")
    with pytest.raises(BundleError, match=r"text\.onnx"):
        Dmsm.load(copy)
    (copy / "text.onnx").write_bytes(whole)
    write_sums(copy, ["dmsm.json", "image.onnx", "text.onnx"])
    Dmsm.load(copy)
    (copy / "text.onnx").write_bytes(whole[:-1] + b"\0")
    with pytest.raises(BundleError, match=r"text\.onnx .*SHA-256"):
        Dmsm.load(copy)
    (copy / "text.onnx").unlink()
    with pytest.raises(BundleError, match=r"text\.onnx"):
        Dmsm.load(copy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"tokenizer": "mine"}, "tokenizer is 'mine'"),
        ({"units": 4}, r"features is \(None, 1, 3\), dmsm.json has \(None, 1, 4\)"),
        ({"semantic_units": 9}, "vector is"),
        ({"word_window": 5}, "windows is"),
        ({"trigrams": ["#a#", "long"]}, "'long' has 4 letters"),
        ({"trigrams": [1]}, "not all text"),
        ({"gamma": "big"}, "gamma is 'big'"),
    ],
)
def test_a_document_that_disagrees_is_refused(
    copy: Path, values: dict[str, object], message: str
) -> None:
    _change(copy, **values)
    with pytest.raises(BundleError, match=message):
        Dmsm.load(copy)
