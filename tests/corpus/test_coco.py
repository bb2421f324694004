from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightwords.corpus import Kind, open_corpus
from sightwords.errors import CorpusError

Make = Callable[..., bytes]


def coco(tmp_path: Path, images: list[Any], annotations: list[Any], year: int = 2014) -> Path:
    (tmp_path / "annotations").mkdir(exist_ok=True)
    path = tmp_path / "annotations" / f"captions_val{year}.json"
    document = {
        "info": {"year": year},
        "images": images,
        "licenses": [],
        "annotations": annotations,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def says(image: int, caption: object) -> dict[str, object]:
    return {"image_id": image, "id": 1, "caption": caption}


@pytest.mark.parametrize("written", ["COCO_val2014_000000000009.jpg", "000000000009.jpg"])
@pytest.mark.parametrize("on_disk", ["COCO_val2014_000000000009.jpg", "000000000009.jpg"])
def test_2014_and_2017_names_serve_each_other(
    tmp_path: Path, picture: Make, written: str, on_disk: str
) -> None:
    (tmp_path / "val2014").mkdir()
    (tmp_path / "val2014" / on_disk).write_bytes(picture(kind="JPEG"))
    path = coco(
        tmp_path, [{"id": 9, "file_name": written}], [says(9, "A dog.\n"), says(9, "Dogs.")]
    )
    [example] = open_corpus(path)  # the folder is found next door
    assert (example.id, example.captions) == ("000000000009", ("A dog.", "Dogs."))
    assert (example.split, example.dataset) == ("val", "coco")
    assert example.image is not None
    assert Path(example.image.location).name == on_disk


def test_without_a_folder_it_is_text(tmp_path: Path) -> None:
    path = coco(tmp_path, [{"id": 9, "file_name": "a.jpg"}], [says(9, "A dog.")], year=2017)
    corpus = open_corpus(path)
    [example] = corpus
    assert example.image is None
    assert "no image folder" in corpus.describe()[0]


def test_the_folder_of_a_download_is_a_source(tmp_path: Path, picture: Make) -> None:
    (tmp_path / "val2017").mkdir()
    (tmp_path / "val2017" / "000000000009.jpg").write_bytes(picture(kind="JPEG"))
    coco(tmp_path, [{"id": 9, "file_name": "000000000009.jpg"}], [says(9, "A dog.")], year=2017)
    [example] = open_corpus(tmp_path)
    assert example.image is not None


def test_every_bad_entry_is_named_and_costs_only_itself(folder: Path) -> None:
    images = [
        {"id": 1, "file_name": "a.jpg"},
        {"id": 2, "file_name": "gone.jpg"},
        {"id": 1, "file_name": "b.jpg"},
        {"file_name": "b.jpg"},
        "not an object",
        {"id": 3, "file_name": "c.jpg"},
        {"id": 4, "file_name": "b.jpg"},
    ]
    annotations = [
        says(1, "Fine."), says(1, " "), says(7, "Whose?"), says(3, "ok"), says(2, "x"),
        {"image_id": 1}, {"caption": "Whose?"}, says(3, 5),
    ]  # fmt: skip
    path = coco(folder, images, annotations)
    corpus = open_corpus(path, images=folder / "images")
    assert [(e.id[-1], e.captions) for e in corpus] == [("1", ("Fine.",)), ("3", ("ok",))]
    assert {str(k): n for k, n in corpus.problems.counts.items()} == {
        "duplicate-id": 1,
        "malformed-record": 4,
        "caption-without-image": 2,
        "empty-caption": 1,
        "missing-image": 1,
        "no-captions": 1,
    }
    assert "images[2]" in corpus.problems.first(Kind.DUPLICATE_ID)[0].where
    assert "gone.jpg" in corpus.problems.first(Kind.MISSING_IMAGE)[0].found


def test_wrong_encoding_spoils_one_caption(tmp_path: Path) -> None:
    path = coco(tmp_path, [{"id": 1}, {"id": 2}], [says(1, "CAFE"), says(1, "ok"), says(2, "ok")])
    path.write_bytes(path.read_bytes().replace(b"CAFE", b"caf\xe9"))
    corpus = open_corpus(path)
    assert [e.captions for e in corpus] == [("ok",), ("ok",)]
    [problem] = corpus.problems
    assert problem.kind is Kind.WRONG_ENCODING
    assert r"caf\xe9" in problem.found
    assert [e.captions[0] for e in open_corpus(path, encoding="latin-1")] == ["café", "ok"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_file_gives_what_is_before_the_cut(tmp_path: Path, packed: bool) -> None:
    images = [{"id": n} for n in range(1, 40)]
    path = coco(tmp_path, images, [says(n, f"caption {n}") for n in range(1, 40)])
    text = path.read_bytes()
    cut = text.index(b"caption 20")
    data = text[:cut]
    if packed:
        path = path.with_suffix(".json.gz")
        data = gzip.compress(text, compresslevel=0)[: cut + 20]
    path.write_bytes(data)
    corpus = open_corpus(path)
    assert len(list(corpus)) in ((19,) if not packed else (18, 19, 20))
    assert corpus.problems.counts[Kind.TRUNCATED_FILE] == 1


def test_other_json_is_refused_with_what_is_supported(tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    path.write_text('{"1": [{"label": "dog"}]}', encoding="utf-8")
    with pytest.raises(CorpusError, match=r"boxes\.json"):
        open_corpus(path)
    path.write_text('[{"image_id": 1, "caption": "a dog"}]', encoding="utf-8")
    with pytest.raises(CorpusError, match="evaluate"):
        open_corpus(path)


def test_boxes_instead_of_captions_say_so(tmp_path: Path) -> None:
    path = coco(tmp_path, [{"id": 1}], [{"image_id": 1, "bbox": [0, 0, 1, 1]}])
    with pytest.raises(CorpusError, match=path.name):
        list(open_corpus(path))
