"""Recall and median rank, against a plain count and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import ScoreError
from sightwords.metrics.retrieval import HEADER, retrieval


def _plain(images: np.ndarray, texts: np.ndarray, owners: list[int]) -> tuple[list[int], list[int]]:
    """Ranks by sorting, the wrong one first of equals."""
    similarity = images @ texts.T
    i2t = []
    for i, row in enumerate(similarity):
        order = sorted(range(len(texts)), key=lambda c: (-row[c], owners[c] == i))
        wrong_before = 0
        for c in order:
            if owners[c] == i:
                break
            wrong_before += 1
        i2t.append(wrong_before + 1)
    t2i = []
    for c, column in enumerate(similarity.T):
        order = sorted(range(len(images)), key=lambda i: (-column[i], i == owners[c]))
        t2i.append(order.index(owners[c]) + 1)
    return i2t, t2i


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 10_000))
def test_ranks_are_those_of_sorting(images: int, each: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Few different values, so that ties happen.
    left = rng.integers(-1, 2, (images, 2)).astype(np.float32)
    owners = np.repeat(np.arange(images), each)
    right = rng.integers(-1, 2, (len(owners), 2)).astype(np.float32)
    found = retrieval(left, right, owners)
    i2t, t2i = _plain(left, right, owners.tolist())
    for recalls, ranks in ((found.image_to_text, i2t), (found.text_to_image, t2i)):
        assert recalls.at_1 == pytest.approx(np.mean([r <= 1 for r in ranks]))
        assert recalls.at_5 == pytest.approx(np.mean([r <= 5 for r in ranks]))
        assert recalls.median_rank == np.median(ranks)


def test_a_constant_similarity_finds_nothing() -> None:
    same = np.ones((20, 2), np.float32)
    found = retrieval(same, same, np.arange(20))
    assert found.image_to_text.at_10 == found.text_to_image.at_10 == 0
    assert found.image_to_text.median_rank == 20


def test_a_row_fits_its_table() -> None:
    eye = np.eye(3, dtype=np.float32)
    row = retrieval(eye, eye, [0, 1, 2]).markdown("mine")
    assert row == "| mine | 100.0 | 100.0 | 100.0 | 1 | 100.0 | 100.0 | 100.0 | 1 |"
    assert row.count("|") == HEADER.splitlines()[0].count("|") == HEADER.splitlines()[1].count("|")


@pytest.mark.parametrize(
    ("images", "texts", "owners", "message"),
    [
        (np.eye(2), np.eye(3), [0, 1, 1], r"\(2, 2\).*\(3, 3\)"),
        (np.eye(2), np.eye(2), [0], "2 .*1 "),
        (np.eye(2), np.eye(2), [0, 0], "1 of 2"),
        (np.eye(2), np.eye(2), [0, 5], "2 of 2"),
        (np.full((2, 2), np.nan), np.eye(2), [0, 1], "NaN"),
    ],
)
def test_mismatched_sizes_are_refused(
    images: np.ndarray, texts: np.ndarray, owners: list[int], message: str
) -> None:
    with pytest.raises(ScoreError, match=message):
        retrieval(images.astype(np.float32), texts.astype(np.float32), owners)
