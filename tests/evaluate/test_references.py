"""References of every form say the same, and give their images to the page."""

from __future__ import annotations

import gzip
import io
import json
import logging
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from sightwords.errors import SightwordsError
from sightwords.evaluate.references import find_images, read_references

CAPTIONS = {"9": ("a dog", "Dogs."), "25": ("a cat", "two cats")}


def coco(folder: Path) -> Path:
    path = folder / "captions_val2014.json"
    content = {
        "images": [
            {"id": int(i), "file_name": f"COCO_val2014_{int(i):012d}.jpg"} for i in CAPTIONS
        ],
        "annotations": [
            {"id": n, "image_id": int(i), "caption": c}
            for n, (i, c) in enumerate((i, c) for i, said in CAPTIONS.items() for c in said)
        ],
    }
    path.write_text(json.dumps(content))
    return path


def jsonl(folder: Path) -> Path:
    path = folder / "refs.jsonl.gz"
    lines = [json.dumps({"id": i, "captions": said}) for i, said in CAPTIONS.items()]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def shard(folder: Path) -> Path:
    path = folder / "refs-00.tar"
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "green").save(picture, "JPEG")
    with tarfile.open(path, "w") as archive:
        for i, said in CAPTIONS.items():
            record = json.dumps({"key": f"{int(i):012d}", "captions": said}).encode()
            for ending, data in (("jpg", picture.getvalue()), ("json", record)):
                member = tarfile.TarInfo(f"{int(i):012d}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("make", [coco, jsonl, shard])
def test_every_form_says_the_same(tmp_path: Path, make: object) -> None:
    assert callable(make)
    assert read_references(make(tmp_path)) == CAPTIONS


def test_images_come_out_of_shards_by_canonical_id(tmp_path: Path) -> None:
    found = find_images(shard(tmp_path), ["25", "77"])
    assert list(found) == ["25"]
    assert found["25"].data is not None
    assert find_images(jsonl(tmp_path), ["25"]) == {}


def test_unusable_records_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "refs.jsonl"
    path.write_text('{"id": "1", "captions": ["a dog", " "]}\n{"id": "2", "captions": 5}\n')
    with caplog.at_level(logging.WARNING):
        assert read_references(path) == {"1": ("a dog",)}
    assert "2 problems in the references" in caplog.text
    assert "refs.jsonl:1" in caplog.text


def test_two_spellings_of_one_image_are_ambiguous(tmp_path: Path) -> None:
    path = tmp_path / "refs.jsonl"
    path.write_text('{"id": "1", "captions": ["a"]}\n{"id": "01", "captions": ["b"]}\n')
    with pytest.raises(SightwordsError, match=r"'1'.*'01'"):
        read_references(path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(SightwordsError, match=r"nowhere\.tar"):
        read_references(tmp_path / "nowhere.tar")
