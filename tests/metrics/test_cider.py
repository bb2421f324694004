from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import ScoreError
from sightwords.metrics.cider import CiderIdf, candidate_scores, cider, cider_plain, scores_of
from sightwords.metrics.ngrams import count_ngrams
from sightwords.metrics.score import Comparison

sentence = st.lists(st.sampled_from("abcdef"), max_size=9).map(tuple)
references = st.lists(sentence, min_size=1, max_size=3)
corpora = st.lists(references, min_size=1, max_size=5)

Tokens = tuple[str, ...]
Images = list[tuple[list[Tokens], list[Tokens]]]


def grams(tokens: Tokens, n: int) -> Counter[Tokens]:
    return Counter(tokens[i : i + n] for i in range(len(tokens) - n + 1))


def ciders(
    candidates: Sequence[Tokens],
    references: Sequence[Sequence[Tokens]],
    *,
    corpus: Sequence[Sequence[Tokens]],
    plain: bool = False,
) -> list[float]:
    seen = Counter[Tokens]()
    for refs in corpus:
        seen.update({g for r in refs for n in range(1, 5) for g in grams(r, n)})
    log_images = math.log(len(corpus))

    def vector(tokens: Tokens, n: int) -> dict[Tokens, float]:
        return {
            g: c * (log_images - math.log(max(1, seen[g]))) for g, c in grams(tokens, n).items()
        }

    def cosine(mine: dict[Tokens, float], theirs: dict[Tokens, float]) -> float:
        norm = math.sqrt(sum(v * v for v in mine.values()) * sum(v * v for v in theirs.values()))
        clipped = {g: v if plain else min(v, theirs.get(g, 0.0)) for g, v in mine.items()}
        return sum(v * theirs.get(g, 0.0) for g, v in clipped.items()) / norm if norm else 0.0

    def penalty(candidate: Tokens, reference: Tokens) -> float:
        delta = max(len(candidate) - 1, 0) - max(len(reference) - 1, 0)
        return 1.0 if plain else math.exp(-(delta**2) / 72)

    return [
        10
        * sum(
            penalty(c, r) * sum(cosine(vector(c, n), vector(r, n)) for n in range(1, 5)) / 4
            for r in refs
        )
        / len(refs)
        for c, refs in zip(candidates, references, strict=True)
    ]


@given(st.lists(st.tuples(sentence, references), min_size=1, max_size=6))
def test_both_variants_equal_the_definition(images: list[tuple[Tokens, list[Tokens]]]) -> None:
    candidates, refs = [c for c, _ in images], [r for _, r in images]
    pairs = Comparison(
        tuple(map(str, range(len(images)))), tuple(candidates), tuple(map(tuple, refs))
    )
    expected = ciders(candidates, refs, corpus=refs)
    assert cider(pairs).per_image == pytest.approx(expected, abs=1e-9)
    assert cider(pairs).value == pytest.approx(np.mean(expected), abs=1e-9)
    plain = ciders(candidates, refs, corpus=refs, plain=True)
    assert cider_plain(pairs).per_image == pytest.approx(plain, abs=1e-9)


@given(st.lists(st.tuples(st.lists(sentence, max_size=4), references), min_size=1), corpora)
def test_frequencies_from_elsewhere_and_many_candidates(images: list, corpus: list) -> None:  # type: ignore[type-arg]
    found = scores_of([c for c, _ in images], [r for _, r in images], idf=CiderIdf.of(corpus))
    flat = [(c, refs) for cs, refs in images for c in cs]
    expected = ciders([c for c, _ in flat], [r for _, r in flat], corpus=corpus)
    assert found == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.lists(sentence, max_size=3), references), min_size=1, max_size=6))
def test_frequencies_of_the_same_references_change_nothing(images: Images) -> None:
    refs = [r for _, r in images]
    table = count_ngrams([c for c, _ in images], refs)
    given_idf = candidate_scores(table, idf=CiderIdf.of(refs))
    assert candidate_scores(table) == pytest.approx(given_idf, abs=1e-12)


def test_hand_worked() -> None:
    # idf of 'dog' and 'a dog' is log 2, of 'a' 0; with one unigram of weight the cosine is 1.
    pairs = Comparison(("1", "2"), (("a", "dog"), ("a",)), ((("a", "dog"),), (("a", "cat"),)))
    assert cider(pairs).per_image == pytest.approx([10 * 2 / 4, 0.0])


def test_a_longer_candidate_is_penalised_by_d_alone() -> None:
    one, other = tuple("abcd"), tuple("efgh")
    pairs = Comparison(("1", "2"), (one + tuple("xy"), other), ((one,), (other,)))
    free = ciders([one + tuple("xy"), other], [[one], [other]], corpus=[[one], [other]], plain=True)
    assert cider_plain(pairs).per_image == pytest.approx(free)
    assert cider(pairs).per_image[0] == pytest.approx(free[0] * np.exp(-4 / 72))


def test_one_image_scores_zero_unless_frequencies_are_given() -> None:
    dog = ("a", "dog", "runs", "fast")
    pairs = Comparison(("1",), (dog,), ((dog,),))
    assert cider(pairs).value == 0.0
    idf = CiderIdf.of([[dog], [("a", "cat")]])
    assert cider(pairs, idf=idf).value == pytest.approx(10.0)
    assert "idf:given-2-images" in cider(pairs, idf=idf).signature
    assert "idf:references" in cider(pairs).signature


def test_no_references_to_count_is_an_error() -> None:
    with pytest.raises(ScoreError):
        CiderIdf.of([])
