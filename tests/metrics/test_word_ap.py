from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.errors import ScoreError
from sightwords.metrics.word_ap import count_words, evaluate_words, precision_recall
from sightwords.metrics.word_table import CaptionCounts, WordTable, summarise

Floats = npt.NDArray[np.float64]


def judge(scores: list[float], counts: list[int], captions: int | list[int] = 5) -> WordTable:
    """One word over a few images."""
    each = [captions] * len(counts) if isinstance(captions, int) else captions
    truth = CaptionCounts(np.array(counts)[:, None], np.array(each))
    return evaluate_words(np.array(scores)[:, None], truth, ["dog"], ["NN"])


def slow_ap(scores: Floats, hits: Floats, misses: Floats) -> float:
    """Thresholds from high to low; each keeps every image at or above it."""
    points = []
    for threshold in sorted(set(scores.tolist()), reverse=True):
        kept = scores >= threshold
        true, false = hits[kept].sum(), misses[kept].sum()
        points.append((true / hits.sum(), true / (true + false)))
    area, before = 0.0, 0.0
    for i, (recall, _) in enumerate(points):
        area += (recall - before) * max(p for _, p in points[i:])
        before = recall
    return area


def test_hand_worked_weighted_form() -> None:
    # In falling order of score c = 5, 0, 1: true positives 4, 0, .8; false positives 0, 1, .2.
    table = judge([0.9, 0.8, 0.7], [5, 0, 1])
    first, last = 1.0, 4.8 / 6.0
    assert table.ap[0] == pytest.approx((4 * first + 0.8 * last) / 4.8)
    assert table.ap_plain[0] == pytest.approx((1 + 2 / 3) / 2)
    assert table.positives.tolist() == [2]


def test_human_agreement_hand_worked() -> None:
    # c_1 = 2, c_3 = 1: n = 3*2/5 = 1.2; precision 1.2/(1.2 + 2/5); recall 1.2/((2 + 3)*4/5).
    table = judge([0.9, 0.8, 0.7, 0.1], [3, 1, 1, 0])
    assert table.human_precision[0] == pytest.approx(1.2 / 1.6)
    assert table.human_recall[0] == pytest.approx(1.2 / 4.0)
    # The first image alone reaches recall 2.4/4 >= .3, at precision 1.
    assert table.phr[0] == pytest.approx(1.0)


def test_phr_reads_the_raw_precision_at_the_first_rank_that_reaches_human_recall() -> None:
    # Ranked: c = 0, 1, 3, 0. Recall after rank 2 is .2 (< .36), after rank 3 1.0.
    table = judge([0.9, 0.8, 0.7, 0.6], [0, 1, 3, 0])
    assert table.human_recall[0] == pytest.approx((6 / 5) / (4 * 4 / 5))
    assert table.phr[0] == pytest.approx(3.2 / (3.2 + 1.2))


def test_full_human_recall_is_reached_exactly() -> None:
    table = judge([0.1 * i for i in range(7)], [5] * 7)
    assert table.human_recall[0] == 1.0
    assert table.phr[0] == 1.0


def test_a_word_that_no_caption_repeats_counts_as_in_the_authors_code() -> None:
    # Human recall is 0, which the first rank reaches whatever it holds.
    right, wrong = judge([0.9, 0.1], [1, 0]), judge([0.1, 0.9], [1, 0])
    assert right.human_recall[0] == right.human_precision[0] == 0.0
    assert right.phr[0] == pytest.approx(0.8)  # one caption in five judges the image wrong
    assert wrong.phr[0] == 0.0
    means = summarise(right)[-1]
    assert (means.words_with_phr, means.human_agreement) == (1, 0.0)


def authors_phr(scores: np.ndarray, counts: np.ndarray, captions: int) -> tuple[float, float]:
    """PHR and human precision of one word, written after the definition, rank by rank."""
    order = np.argsort(-scores)
    true = false = 0.0
    share = np.bincount(counts, minlength=captions + 1) / len(counts)
    repeated = sum(i * (i - 1) * share[i] for i in range(captions + 1)) / captions
    said = sum(i * share[i] * (captions - 1) for i in range(captions + 1)) / captions
    human_precision = repeated / (repeated + share[1] / captions)
    for image in order:
        c = counts[image]
        true += c * (1 - 1 / captions)
        false += 1.0 if c == 0 else (1 / captions if c == 1 else 0.0)
        if true / (said * len(counts)) >= repeated / said - 1e-12:
            return true / (true + false), human_precision
    raise AssertionError("recall 1 reaches every human recall")


def test_phr_equals_a_second_implementation() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        counts = rng.choice(6, 30, p=[0.6, 0.2, 0.1, 0.05, 0.03, 0.02])
        counts[0] = max(1, counts[0])
        scores = rng.permutation(30) / 30
        table = judge(scores.tolist(), counts.tolist())
        found = table.phr[0], table.human_precision[0]
        assert found == pytest.approx(authors_phr(scores, counts, 5))


def test_a_word_without_positives_is_undefined_and_left_out_of_means() -> None:
    truth = CaptionCounts(np.array([[5, 0], [0, 0]]), np.array([5, 5]))
    table = evaluate_words(np.array([[0.9, 0.9], [0.1, 0.2]]), truth, ["dog", "yak"], ["NN", "NN"])
    assert np.isnan([table.ap[1], table.ap_plain[1], table.chance[1], table.phr[1]]).all()
    everything = summarise(table)[-1]
    assert (everything.words, everything.words_with_ap, everything.ap) == (2, 1, 1.0)


def test_ties_pass_together_whatever_the_order_of_images() -> None:
    counts = [5, 0, 2, 0, 1]
    forward, backward = judge([0.5] * 5, counts), judge([0.5] * 5, counts[::-1])
    assert forward.ap[0] == backward.ap[0] == forward.chance[0]
    assert forward.ap_plain[0] == forward.chance_plain[0] == pytest.approx(3 / 5)
    assert forward.phr[0] == forward.chance[0]


def test_images_with_fewer_captions_use_their_own_number() -> None:
    # k = 4: 2 captions with the word are 1.5 true positives; k = 5: one is .8 and .2 false.
    table = judge([0.9, 0.8], [2, 1], [4, 5])
    assert table.ap[0] == pytest.approx((1.5 * 1.0 + 0.8 * 2.3 / 2.5) / 2.3)
    assert table.human_recall[0] == pytest.approx((2 / 4) / 2.3)


def test_the_first_five_captions_count() -> None:
    captions: list[list[tuple[str, ...]]] = [
        [("a", "dog")] * 4 + [("cat",), ("dog",)],
        [("dog", "dog")] * 4,
    ]
    counts = count_words(captions, ["dog", "cat"])
    assert counts.counts.tolist() == [[4, 1], [4, 0]]
    assert counts.captions.tolist() == [5, 4]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 130))
def test_every_word_equals_the_slow_definition(seed: int, images: int, words: int) -> None:
    rng = np.random.default_rng(seed)
    captions = rng.integers(2, 7, images)
    counts = rng.binomial(captions[:, None], rng.uniform(0, 0.5, words))
    scores = rng.integers(0, 8, (images, words)).astype(np.float32)  # full of ties
    table = evaluate_words(scores, CaptionCounts(counts, captions), ["w"] * words, ["NN"] * words)
    share = 1 / captions
    for word in rng.choice(words, size=min(words, 5), replace=False):
        c, s = counts[:, word], scores[:, word].astype(np.float64)
        if not c.any():
            assert math.isnan(table.ap[word])
            continue
        misses = np.where(c == 0, 1.0, np.where(c == 1, share, 0.0))
        hits = (c * (1 - share)).astype(np.float64)
        assert table.ap[word] == pytest.approx(slow_ap(s, hits, misses))
        positive = (c > 0).astype(np.float64)
        assert table.ap_plain[word] == pytest.approx(slow_ap(s, positive, 1 - positive))


def test_means_by_part_of_speech() -> None:
    truth = CaptionCounts(np.array([[5, 5, 0], [0, 0, 5]]), np.array([5, 5]))
    scores = np.array([[0.9, 0.1, 0.1], [0.1, 0.9, 0.9]])
    table = evaluate_words(scores, truth, ["dog", "runs", "xyz"], ["NN", "VB", "UH"])
    means = {m.pos: m for m in summarise(table)}
    assert list(means) == ["NN", "VB", "JJ", "DT", "PRP", "IN", "Others", "All"]
    assert (means["NN"].ap, means["Others"].ap, means["All"].words) == (1.0, 1.0, 3)
    assert means["VB"].ap == pytest.approx(4 / 5)
    assert means["All"].ap == pytest.approx((1 + 1 + 4 / 5) / 3)
    assert means["All"].human_agreement == 1.0
    assert means["All"].chance_plain == pytest.approx(0.5)
    assert (means["JJ"].words, math.isnan(means["JJ"].ap)) == (0, True)
    assert "captions:5|ties:together" in table.signature


def test_precision_recall_points() -> None:
    precision, recall = precision_recall(
        np.array([0.9, 0.5, 0.5, 0.1]), np.array([5, 1, 0, 0]), np.full(4, 5)
    )
    assert precision == pytest.approx([1.0, 4.8 / 6.0, 4.8 / 7.0])
    assert recall == pytest.approx([4 / 4.8, 1.0, 1.0])


def test_what_cannot_be_ranked_is_refused() -> None:
    truth = CaptionCounts(np.array([[1], [0]]), np.array([5, 5]))
    with pytest.raises(ScoreError, match=r"'dog'.*1.*NaN"):
        evaluate_words(np.array([[0.5], [np.nan]]), truth, ["dog"], ["NN"])
    with pytest.raises(ScoreError, match=r"\(2, 2\)"):
        evaluate_words(np.zeros((2, 2)), truth, ["dog"], ["NN"])
    with pytest.raises(ScoreError, match=r"2 .*1 "):
        evaluate_words(np.zeros((2, 1)), truth, ["dog", "cat"], ["NN"])
    with pytest.raises(ScoreError, match="2"):
        CaptionCounts(np.array([[1]]), np.array([1]))
    with pytest.raises(ScoreError):
        CaptionCounts(np.array([[6]]), np.array([5]))
