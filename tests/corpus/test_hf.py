from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightwords.corpus import Kind, open_corpus
from sightwords.errors import CorpusError

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

Make = Callable[..., bytes]


def parquet(path: Path, columns: dict[str, list[Any]]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_structs_of_bytes_with_numbered_captions(tmp_path: Path, picture: Make) -> None:
    images = [{"bytes": picture(), "path": "a.png"}, {"bytes": picture(shade=1), "path": None}]
    path = parquet(
        tmp_path / "p.parquet",
        {"image": images, "caption_0": ["A dog.", "x"], "caption_1": ["Dogs.", None]},
    )
    examples = list(open_corpus(path))
    assert [(e.id, e.captions) for e in examples] == [("a", ("A dog.", "Dogs.")), ("p:1", ("x",))]
    assert examples[0].image is not None
    assert examples[0].image.data == picture()


def test_a_dataset_with_the_image_feature(tmp_path: Path, picture: Make) -> None:
    text = datasets.Value("string")
    features = datasets.Features(
        {"photo": datasets.Image(), "sentences": [{"raw": text}], "split": text}
    )
    rows = {
        "photo": [{"bytes": picture(), "path": "a.png"}],
        "sentences": [[{"raw": "A dog."}, {"raw": "Dogs."}]],
        "split": ["test"],
    }
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "p.parquet"))
    [example] = open_corpus(tmp_path)
    assert (example.captions, example.split) == (("A dog.", "Dogs."), "test")
    assert example.image is not None
    assert example.image.data == picture()


def test_one_caption_a_row_is_merged_and_bad_rows_are_named(tmp_path: Path, picture: Make) -> None:
    path = parquet(
        tmp_path / "p.parquet",
        {
            "jpg": [picture(), picture(), None, picture(), picture()],
            "image_id": [1, 1, 2, 3, 1],
            "alt": ["A dog.", "Dogs.", "lost", " ", "late"],
        },
    )
    corpus = open_corpus(path, captions="alt")
    assert [(e.id, e.captions) for e in corpus] == [("1", ("A dog.", "Dogs."))]
    assert {str(k): n for k, n in corpus.problems.counts.items()} == {
        "missing-image": 1,
        "empty-caption": 1,
        "no-captions": 1,
        "duplicate-id": 1,
    }
    assert corpus.problems.first(Kind.MISSING_IMAGE)[0].where == f"{path} row 2"


def test_columns_that_are_not_there_are_named(tmp_path: Path, picture: Make) -> None:
    path = parquet(tmp_path / "p.parquet", {"image": [picture()], "label": ["dog"]})
    with pytest.raises(CorpusError, match="image, label"):
        list(open_corpus(path))


def test_a_broken_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(CorpusError, match=r"p\.parquet"):
        list(open_corpus(tmp_path / "p.parquet"))
