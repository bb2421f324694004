"""NPZ files and zips that were cut or changed are refused by name, whoever reads them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightwords.bundle import open_bundle
from sightwords.errors import SightwordsError
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.language.table_file import ARRAYS_NAME, read_model
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.language.data import read_detections
from sightwords.train.language.state import load_state
from sightwords.train.rerank.lists import Lists

NAMES = ("context", "features", "format", "ids", "scores", "table", "words")
READERS: dict[str, Callable[[Path], object]] = {
    "word scores": read_word_scores,
    "detections": read_detections,
    "lists": Lists.load,
    "image features": ImageFeatures.load,
    "checkpoint": load_state,
}


def cut(path: Path) -> None:
    """Its second half is gone."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(path: Path) -> None:
    """What every member is packed as is no packing at all."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as stored:
        for member in stored.infolist():
            name, extra = (int.from_bytes(data[member.header_offset + at :][:2], "little")
                           for at in (26, 28))  # fmt: skip
            start = member.header_offset + 30 + name + extra
            data[start : start + 8] = b"\xff" * min(8, member.compress_size)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, changed])
@pytest.mark.parametrize("reader", READERS)
def test_arrays(tmp_path: Path, reader: str, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **{name: np.arange(1000) for name in NAMES})  # type: ignore[arg-type]
    damage(path)
    with pytest.raises(SightwordsError, match=r"arrays\.npz"):
        READERS[reader](path)


@pytest.mark.parametrize("damage", [cut, changed])
def test_a_language_model(
    tiny_bundle: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    for file in (tiny_bundle / "language").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    damage(tmp_path / ARRAYS_NAME)
    with pytest.raises(SightwordsError, match=ARRAYS_NAME):
        read_model(tmp_path)


@pytest.mark.parametrize("damage", [cut, changed])
def test_a_zipped_bundle(tiny_bundle: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stored:
        for file in sorted(tiny_bundle.rglob("*.*")):
            stored.write(file, file.relative_to(tiny_bundle).as_posix())
    damage(path)
    with pytest.raises(SightwordsError, match=r"bundle\.zip"), open_bundle(path):
        pass
