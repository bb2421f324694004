"""Image ids of different tools meet, and ambiguous ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.corpus.ids import canonical_id, canonical_ids
from sightwords.errors import ScoreError


@pytest.mark.parametrize(
    "written",
    [
        9,
        "9",
        "000000000009",
        "000000000009.jpg",
        "COCO_val2014_000000000009",
        "COCO_train2014_000000000009.jpg",
        "COCO_test2015_000000000009",
        "val2014/COCO_val2014_000000000009.jpg",
        " 9\n",
    ],
)
def test_one_coco_image_has_one_id(written: int | str) -> None:
    assert canonical_id(written) == "9"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("2008_000032", "2008_000032"),
        ("2008_000032.jpg", "2008_000032"),
        ("1056338697_4f7d7ce270.JPG", "1056338697_4f7d7ce270"),
        ("train/0001.png", "train/0001"),
        ("0", "0"),
        ("000", "0"),
        ("Dog", "Dog"),
        ("COCO_val2014_x", "COCO_val2014_x"),
        ("report.final", "report.final"),
        ("٠٩", "٠٩"),  # digits of another script are not COCO's
    ],
)
def test_other_ids_stay_as_written(written: str, kept: str) -> None:
    assert canonical_id(written) == kept


@given(st.integers(0, 10**12 - 1))
def test_every_coco_number_in_every_spelling(number: int) -> None:
    spellings: list[int | str] = [
        number,
        str(number),
        f"{number:012d}",
        f"COCO_val2014_{number:012d}.jpg",
    ]
    assert {canonical_id(s) for s in spellings} == {str(number)}


@given(st.text())
def test_canonical_ids_are_stable(text: str) -> None:
    once = canonical_id(text)
    if not once.lower().endswith((".jpg", ".png")):  # "a.jpg.jpg" is somebody's odd file name
        assert canonical_id(once) == once or once != once.strip()


def test_two_spellings_of_one_image_in_a_file_are_ambiguous() -> None:
    with pytest.raises(ScoreError, match=r"refs\.json.*'9' and '000000000009'.*'9'"):
        canonical_ids(["9", "000000000009"], where="refs.json")
