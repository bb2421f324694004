"""Tiny pictures and tars, made on the fly."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

MakePicture = Callable[..., bytes]
MakeTar = Callable[..., bytes]


@pytest.fixture(scope="session")
def picture() -> MakePicture:
    def make(size: tuple[int, int] = (8, 6), shade: int = 0, kind: str = "PNG") -> bytes:
        buffer = io.BytesIO()
        Image.new("RGB", size, (shade, 100, 200)).save(buffer, kind)
        return buffer.getvalue()

    return make


@pytest.fixture(scope="session")
def make_tar(picture: MakePicture) -> MakeTar:
    """A tar of records KEY -> captions, each KEY.png beside KEY.json; or of any (name, bytes)."""

    def make(records: dict[str, list[str]] | Sequence[tuple[str, bytes]]) -> bytes:
        if isinstance(records, dict):
            files = []
            for shade, (key, captions) in enumerate(records.items()):
                files.append((f"{key}.png", picture(shade=shade)))
                files.append((f"{key}.json", json.dumps({"captions": captions}).encode()))
        else:
            files = list(records)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, data in files:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return buffer.getvalue()

    return make


@pytest.fixture
def folder(tmp_path: Path, picture: MakePicture) -> Path:
    """A folder with images a.jpg, b.jpg and c.jpg."""
    (tmp_path / "images").mkdir()
    for shade, name in enumerate("abc"):
        (tmp_path / "images" / f"{name}.jpg").write_bytes(picture(shade=shade, kind="JPEG"))
    return tmp_path
