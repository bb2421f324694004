"""A submission to the COCO server obeys its rules, or is refused before it is uploaded."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from sightwords.errors import ScoreError
from sightwords.evaluate.server import (
    check_name,
    other_split,
    read_image_list,
    submission_text,
    write_submission,
    write_zip,
)

VAL, TEST = "captions_val2014_mine_results.json", "captions_test2014_mine_results.json"


def test_file_is_an_array_of_whole_records_in_the_order_of_the_list(tmp_path: Path) -> None:
    out = write_submission({"000000000009": "a dog", "25": "ein Löwe"}, [25, 9], tmp_path / VAL)
    assert json.loads(out.read_text(encoding="utf-8")) == [
        {"image_id": 25, "caption": "ein Löwe"},
        {"image_id": 9, "caption": "a dog"},
    ]


def test_line_breaks_in_captions_become_spaces() -> None:
    content = json.loads(submission_text({"1": " a dog\nand\u2028a\tcat "}, [1]))
    assert content[0]["caption"] == "a dog and a cat"


@pytest.mark.parametrize(
    ("captions", "images", "message"),
    [
        ({"1": "x"}, [1, 2], "1 of 2.*2"),
        ({"1": "x", "2": "y"}, [1], "1 .*2"),
        ({"1": "x"}, [1, 1], "1"),
        ({"dog": "x"}, ["dog"], "'dog'"),
    ],
)
def test_every_image_once_and_no_other(
    tmp_path: Path, captions: dict[str, str], images: list[int], message: str
) -> None:
    with pytest.raises(ScoreError, match=message):
        write_submission(captions, images, tmp_path / VAL)
    assert not (tmp_path / VAL).exists()


@pytest.mark.parametrize(
    "name",
    [
        "results.json",
        "captions_val2017_mine_results.json",
        "captions_val2014__results.json",
        "captions_val2014_my system_results.json",
        "captions_train2014_mine_results.json",
        "captions_val2014_mine_results.json.gz",
    ],
)
def test_names_the_server_would_not_find(name: str) -> None:
    with pytest.raises(ScoreError, match=repr(name)):
        check_name(name)


def test_image_lists(tmp_path: Path) -> None:
    coco = tmp_path / "info.json"
    coco.write_text(json.dumps({"images": [{"id": 9, "file_name": "x.jpg"}, {"id": 25}]}))
    lines = tmp_path / "list.txt"
    lines.write_text("COCO_test2014_000000000009.jpg\n\n25\n")
    assert read_image_list(coco) == read_image_list(lines) == [9, 25]
    lines.write_text("9\n009\n")
    with pytest.raises(ScoreError, match="'9'"):
        read_image_list(lines)
    lines.write_text("\n")
    with pytest.raises(ScoreError, match=r"list\.txt"):
        read_image_list(lines)


def test_zip_holds_both_splits_at_its_root(tmp_path: Path) -> None:
    val = write_submission({"1": "a"}, [1], tmp_path / VAL)
    test = write_submission({"2": "b"}, [2], tmp_path / TEST)
    assert other_split(val) == test
    archive = write_zip([val, test], tmp_path / "results.zip")
    with zipfile.ZipFile(archive) as opened:
        assert sorted(opened.namelist()) == sorted([VAL, TEST])
        assert json.loads(opened.read(TEST)) == [{"image_id": 2, "caption": "b"}]


def test_half_a_submission_is_refused(tmp_path: Path) -> None:
    val = write_submission({"1": "a"}, [1], tmp_path / VAL)
    with pytest.raises(ScoreError, match=TEST):
        write_zip([val, other_split(val)], tmp_path / "results.zip")
    with pytest.raises(ScoreError, match=VAL):
        write_zip([val], tmp_path / "results.zip")
    with pytest.raises(ScoreError, match=r"mine\.zip.*results\.zip"):
        write_zip([val, val], tmp_path / "mine.zip")
