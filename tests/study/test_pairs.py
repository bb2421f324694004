"""What is drawn, and that a seed draws the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from sightwords.errors import StudyError
from sightwords.study.draw import draw_checks, draw_pairs, text_similarity

CAPTIONS = {f"{n}": (f"human {n} a", f"human {n} b", f"human {n} c") for n in range(40)}
SYSTEM = {f"{n}": f"system {n}" for n in range(40)}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_human_caption_is_drawn_and_leaves_the_references() -> None:
    drawn = draw_pairs(CAPTIONS, SYSTEM, None, count=20, rng=rng())
    assert len({pair.image for pair in drawn.pairs}) == 20
    for pair in drawn.pairs:
        assert pair.first == SYSTEM[pair.image]
        assert pair.second in CAPTIONS[pair.image]
        assert set(drawn.references[pair.image]) == {*CAPTIONS[pair.image]} - {pair.second}
    assert len({pair.second[-1] for pair in drawn.pairs}) == 3  # not always the first


def test_the_seed_decides_whatever_the_order_of_the_files() -> None:
    turned = dict(reversed(SYSTEM.items()))
    first = draw_pairs(CAPTIONS, SYSTEM, None, count=9, rng=rng())
    assert draw_pairs(CAPTIONS, turned, None, count=9, rng=rng()) == first
    assert draw_pairs(CAPTIONS, SYSTEM, None, count=9, rng=rng(1)) != first


def test_two_systems_share_all_references() -> None:
    other = {f"{n}": f"other {n}" for n in range(10)}
    drawn = draw_pairs(CAPTIONS, SYSTEM, other, count=None, rng=rng())
    assert len(drawn.pairs) == 10
    assert all(len(drawn.references[pair.image]) == 3 for pair in drawn.pairs)


def test_a_reference_that_is_shown_is_no_reference() -> None:
    """A second system may well repeat what a person wrote; it must not score as perfect."""
    other = {"1": "human 1 B ."}
    drawn = draw_pairs(CAPTIONS, SYSTEM, other, count=1, rng=rng())
    assert drawn.references == {"1": ("human 1 a", "human 1 c")}


def test_asking_for_too_much_says_how_much_there_is() -> None:
    with pytest.raises(StudyError, match=r"41 pairs .* 40 images"):
        draw_pairs(CAPTIONS, SYSTEM, None, count=41, rng=rng())
    with pytest.raises(StudyError, match="image ids"):
        draw_pairs(CAPTIONS, {"x": "y"}, None, count=1, rng=rng())


def test_equal_captions_are_kept_and_said(caplog: pytest.LogCaptureFixture) -> None:
    drawn = draw_pairs({"1": ("A dog.",)}, {"1": "a dog"}, None, count=1, rng=rng())
    assert len(drawn.pairs) == 1
    assert "1 of 1 pairs" in caplog.text


def test_checks_by_a_similarity_of_the_caller() -> None:
    """With DMSM's place taken by one that knows: wrong captions come from the far tenth."""

    def similarity(images: Sequence[str], captions: Sequence[str]) -> npt.NDArray[np.float64]:
        numbers = [int(caption.split()[1]) for caption in captions]
        near = [[-abs(int(image) - n) for n in numbers] for image in images]
        best = [[0.5 if caption.endswith("c") else 0.0 for caption in captions] for _ in images]
        return np.add(near, best, dtype=np.float64)

    checks = draw_checks(CAPTIONS, sorted(CAPTIONS), count=8, similarity=similarity, rng=rng())
    assert len(checks) == 8
    for check in checks:
        assert check.is_check
        assert check.first == CAPTIONS[check.image][2]  # fits best
        distance = abs(int(check.image) - int(check.second.split()[1]))
        farthest = sorted(abs(int(check.image) - n) for n in range(40))[-5:]
        assert distance >= min(farthest)


def test_checks_by_words_share_none() -> None:
    captions = {
        "1": ("a red bus on a street", "the red bus"),
        "2": ("two dogs play", "dogs playing in snow"),
        "3": ("a bus stop", "people wait for the bus"),
    }
    checks = draw_checks(
        captions, ["1", "2", "3"], count=3, similarity=text_similarity(captions), rng=rng()
    )
    wrong = {check.image: check.second for check in checks}
    assert wrong["1"] == "two dogs play"
    assert wrong["3"] == "two dogs play"


def test_no_captions_no_checks() -> None:
    with pytest.raises(StudyError, match="checks=0"):
        draw_checks({"1": ()}, ["1"], count=1, similarity=text_similarity({"1": ()}), rng=rng())
