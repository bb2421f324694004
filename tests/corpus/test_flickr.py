from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sightwords.corpus import Kind, open_corpus
from sightwords.errors import CorpusError

Make = Callable[..., bytes]

TOKENS = "a.jpg#0\tA dog .\na.jpg#1\tDogs , #1 !\nb.jpg#0\tA cat .\nc.jpg#0\tA cow .\n"


@pytest.fixture
def flickr8k(folder: Path) -> Path:
    (folder / "images").rename(folder / "Flicker8k_Dataset")
    (folder / "Flickr8k.token.txt").write_text(TOKENS, encoding="utf-8")
    for split, name in (("train", "a"), ("dev", "b"), ("test", "c")):
        (folder / f"Flickr_8k.{split}Images.txt").write_text(f"{name}.jpg\n", encoding="utf-8")
    return folder


def test_tokens_with_official_splits_and_images(flickr8k: Path) -> None:
    examples = list(open_corpus(flickr8k / "Flickr8k.token.txt"))
    assert [(e.id, e.split) for e in examples] == [("a", "train"), ("b", "dev"), ("c", "test")]
    assert examples[0].captions == ("A dog .", "Dogs , #1 !")
    assert examples[0].dataset == "flickr8k"
    assert examples[0].image is not None
    assert examples[0].image.location.endswith("a.jpg")
    assert [e.id for e in open_corpus(flickr8k, split="dev,test")] == ["b", "c"]


def test_the_at_sign_of_copies_in_circulation(tmp_path: Path) -> None:
    text = "a.jpg#0@A dog .\na.jpg#1@me@home\nb.jpg.1@0@people waiting\n"
    path = tmp_path / "Flickr8k.token.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    examples = {e.id: e.captions for e in open_corpus(path)}
    assert examples == {"a": ("A dog .", "me@home"), "b": ("people waiting",)}


def test_scattered_rows_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "results_20130124.token"
    path.write_text("a.jpg#0\tone\nb.jpg#0\ttwo\na.jpg#1\tthree\n", encoding="utf-8")
    assert [(e.id, e.captions) for e in open_corpus(path)] == [
        ("b", ("two",)),
        ("a", ("one", "three")),
    ]
    assert next(iter(open_corpus(path))).dataset == "flickr30k"


def test_bad_rows_are_named_and_cost_only_themselves(flickr8k: Path) -> None:
    path = flickr8k / "Flickr8k.token.txt"
    bad = "no number here\n#0\tNo image .\ngone.jpg#0\tGone .\nb.jpg#1\t\n"
    path.write_bytes(TOKENS.encode() + bad.encode() + b"c.jpg#1\tcaf\xe9\n")
    (flickr8k / "Flickr_8k.devImages.txt").write_text("b.jpg\nd.jpg\n", encoding="utf-8")
    (flickr8k / "Flicker8k_Dataset" / "d.jpg").write_bytes(b"x")
    corpus = open_corpus(path)
    assert {e.id for e in corpus} == {"a", "b", "c"}
    assert {str(k): n for k, n in corpus.problems.counts.items()} == {
        "malformed-record": 1,
        "caption-without-image": 1,
        "missing-image": 1,
        "empty-caption": 1,
        "wrong-encoding": 1,
        "no-captions": 1,
    }
    assert corpus.problems.first(Kind.MALFORMED_RECORD)[0].where == f"{path}:5"
    assert "'d'" in corpus.problems.first(Kind.NO_CAPTIONS)[0].found


def karpathy(path: Path, images: list[object], dataset: str = "flickr8k") -> Path:
    path.write_text(json.dumps({"images": images, "dataset": dataset}), encoding="utf-8")
    return path


def test_karpathy_splits_for_a_token_file(flickr8k: Path) -> None:
    path = karpathy(
        flickr8k / "dataset_flickr8k.json",
        [
            {"filename": f"{n}.jpg", "split": s, "sentences": []}
            for n, s in zip("abc", ["val"] * 3, strict=True)
        ],
    )
    corpus = open_corpus(flickr8k / "Flickr8k.token.txt", splits=path)
    assert {e.split for e in corpus} == {"val"}
    with pytest.raises(CorpusError, match="Flicker8k_Dataset"):
        list(open_corpus(flickr8k / "Flickr8k.token.txt", splits=flickr8k / "Flicker8k_Dataset"))


def test_karpathy_json_of_coco(tmp_path: Path, picture: Make) -> None:
    (tmp_path / "val2014").mkdir()
    name = "COCO_val2014_000000391895.jpg"
    (tmp_path / "val2014" / name).write_bytes(picture(kind="JPEG"))
    image = {"filepath": "val2014", "filename": name, "cocoid": 391895, "split": "restval",
             "sentences": [{"raw": "A man.", "tokens": ["a", "man"]}, {"raw": "Men."}]}  # fmt: skip
    path = karpathy(tmp_path / "dataset_coco.json", [image], "coco")
    [example] = open_corpus(path, images=tmp_path)
    assert (example.id, example.captions) == ("000000391895", ("A man.", "Men."))
    assert (example.split, example.dataset) == ("restval", "coco")
    assert example.image is not None
    assert example.image.location == str(tmp_path / "val2014" / name)
    [text] = open_corpus(path)
    assert text.image is None


def test_karpathy_bad_entries(tmp_path: Path) -> None:
    images: list[object] = [
        {"filename": "a.jpg", "split": "train", "sentences": [{"raw": "A."}, {"tokens": []}]},
        {"split": "train", "sentences": [{"raw": "no name"}]},
        {"filename": "b.jpg", "split": "test", "sentences": []},
        7,
    ]
    corpus = open_corpus(karpathy(tmp_path / "dataset_flickr30k.json", images))
    assert [(e.id, e.captions) for e in corpus] == [("a", ("A.",))]
    assert corpus.problems.counts[Kind.MALFORMED_RECORD] == 3
    assert corpus.problems.counts[Kind.NO_CAPTIONS] == 1
