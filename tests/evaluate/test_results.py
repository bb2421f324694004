"""Results files: both forms, and every way in which one can be wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_results


def write(folder: Path, text: str, name: str = "results.json") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_coco_array_and_jsonl_say_the_same(tmp_path: Path) -> None:
    array = write(tmp_path, json.dumps([{"image_id": 9, "caption": "a dog"}]))
    for field in ("id", "image_id", "key", "image"):
        line = json.dumps({field: "000000000009", "caption": "a dog", "confidence": 0.5})
        lines = write(tmp_path, line + "\n\n", f"{field}.jsonl")
        assert read_results(lines) == read_results(array) == {"9": "a dog"}


def test_gzip_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl.gz"
    path.write_bytes(gzip.compress("\ufeff".encode() + '{"id": 1, "caption": "café"}'.encode()))
    assert read_results(path) == {"1": "café"}


def test_order_of_the_file_is_kept_and_empty_captions_pass(tmp_path: Path) -> None:
    path = write(tmp_path, '[{"image_id":2,"caption":""},{"image_id":1,"caption":"x"}]')
    assert list(read_results(path).items()) == [("2", ""), ("1", "x")]


@pytest.mark.parametrize("second", ["a dog", "a cat"])
def test_an_image_twice_is_refused_even_with_the_same_caption(tmp_path: Path, second: str) -> None:
    rows = [{"image_id": 9, "caption": "a dog"}, {"image_id": "09", "caption": second}]
    with pytest.raises(ScoreError, match=r"element 1.*'9'.*element 0"):
        read_results(write(tmp_path, json.dumps(rows)))


def test_csv_as_a_batch_writes_it(tmp_path: Path) -> None:
    text = 'id,caption,confidence\r\n9.jpg,"a dog, a cat",0.5\r\n10.jpg,,0.1\r\n'
    assert list(read_results(write(tmp_path, text)).values()) == ["a dog, a cat", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("image;caption", "'i'"),
        ("image,caption", ""),
        ("caption,words\na dog,dog\n", "line 2"),
        ("id,caption\n9," + 200_000 * "a", "line 2"),
        (200_000 * "a", "'a'"),
        ("[]", ""),
        ("[1]", "element 0: a number"),
        ('[{"image_id": 9, "caption": "a', "JSON"),
        ('[{"caption": "a dog"}]', "id, image_id, key, image"),
        ('[{"image_id": 9}]', "'caption' is missing"),
        ('[{"image_id": 9, "caption": ["a dog"]}]', "'caption' is a list"),
        ('[{"image_id": 9.0, "caption": "a dog"}]', "'image_id' is a number"),
        ('[{"image_id": true, "caption": "a dog"}]', "'image_id' is a truth value"),
        ('[{"image_id": "", "caption": "a dog"}]', "'image_id' is an empty string"),
        ('{"id": 1, "caption": "x"}\n{"id": 2,', "line 2"),
        ('{"id": 1, "caption": "x"}\n3', "line 2: a number"),
        ('{"images": [], "annotations": []}', "--references"),
    ],
)
def test_bad_files_say_where_and_what(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ScoreError, match=message or None) as caught:
        read_results(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_wrong_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(ScoreError, match=r"nowhere\.json.*No such file"):
        read_results(tmp_path / "nowhere.json")
    latin = tmp_path / "latin.json"
    latin.write_bytes('[{"image_id":1,"caption":"café"}]'.encode("latin-1"))
    with pytest.raises(ScoreError, match=r"latin\.json.*29"):
        read_results(latin)


def test_truncated_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1, "caption": "a dog"}' * 50)[:-12])
    with pytest.raises(ScoreError, match=r"cut\.jsonl\.gz"):
        read_results(path)
