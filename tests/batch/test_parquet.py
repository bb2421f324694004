"""Parquet: the records of JSONL, the same bytes for the same records."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from sightwords.batch import BatchOptions, Format, open_source, run_batch
from sightwords.batch.parquet import read_parquet, write_parquet

pytest.importorskip("pyarrow")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, colour in enumerate(("red", "lime", "blue", "white")):
        Image.new("RGB", (12, 12), colour).save(folder / f"{number}.png")
    (folder / "bad.png").write_bytes(b"no image")
    return folder


def _run(photos: Path, out: Path, bundle: Path, n_best: int) -> None:
    kind: Format = "parquet" if out.suffix == ".parquet" else "jsonl"
    options = BatchOptions(
        out=out, format=kind, bundle=str(bundle), workers=1, n_best=n_best, overwrite="missing"
    )
    run_batch(open_source(str(photos)), options)


@pytest.mark.parametrize("n_best", [0, 2])
def test_parquet_holds_what_jsonl_holds(
    photos: Path, tiny_bundle: Path, tmp_path: Path, n_best: int
) -> None:
    for name in ("c.jsonl", "c.parquet"):
        _run(photos, tmp_path / name, tiny_bundle, n_best)
    lines = (tmp_path / "c.jsonl").read_text().splitlines()
    records = list(read_parquet(tmp_path / "c.parquet"))
    assert len(lines) == 4
    assert [json.dumps(record, ensure_ascii=False) for record in records] == lines


def test_missing_captions_are_added(photos: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "c.parquet", tmp_path / "whole.parquet"
    late = photos / "2.png"
    data = late.read_bytes()
    late.unlink()
    _run(photos, out, tiny_bundle, 0)
    late.write_bytes(data)
    _run(photos, out, tiny_bundle, 0)
    _run(photos, whole, tiny_bundle, 0)
    assert len(list(read_parquet(out))) == 4
    assert out.read_bytes() == whole.read_bytes()


def test_another_parquet_file_is_refused(photos: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [1]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"c\.parquet"):
        _run(photos, tmp_path / "c.parquet", tiny_bundle, 0)


def test_names_that_are_not_unicode_are_escaped(tmp_path: Path) -> None:
    stream = io.BytesIO()
    record: dict[str, object] = {
        "id": "caf\udce9.png",
        "caption": "a dog",
        "confidence": None,
        "words": [],
    }
    write_parquet(stream, [record])
    (tmp_path / "c.parquet").write_bytes(stream.getvalue())
    assert [r["id"] for r in read_parquet(tmp_path / "c.parquet")] == ["caf\\udce9.png"]
