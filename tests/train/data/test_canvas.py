"""Pixels for training do not depend on which decoder is installed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightwords.train.data import canvas as canvases
from sightwords.train.data.canvas import canvas
from sightwords.types import Example, ImageRef

simplejpeg = pytest.importorskip("simplejpeg")


def _picture(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * height)
    noise = Image.fromarray(rng.integers(0, 256, (9, 13, 3)).astype(np.uint8))
    return noise.resize((width, height), Image.Resampling.BICUBIC)


def _jpeg(image: Image.Image, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", **options)
    return stream.getvalue()


def _turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x112] = orientation
    return exif


def _ycck() -> bytes:
    """CMYK whose Adobe marker says that the first three are stored as YCbCr, as Photoshop does."""
    data = bytearray(_jpeg(_picture(48, 48).convert("CMYK")))
    data[data.index(b"Adobe") + 11] = 2
    return bytes(data)


XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
    b'xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="8"/></rdf:RDF></x:xmpmeta>'
)

IMAGES = {
    "as cameras write": _jpeg(_picture(97, 61)),
    "of the canvas' size": _jpeg(_picture(48, 48), quality=90),
    "progressive": _jpeg(_picture(97, 61), progressive=True, quality=60),
    "colours whole": _jpeg(_picture(48, 48), subsampling="4:4:4"),
    "colours halved": _jpeg(_picture(61, 97), subsampling="4:2:2"),
    "restarts": _jpeg(_picture(97, 61), restart_marker_blocks=2),
    "grey": _jpeg(_picture(48, 48).convert("L")),
    "stored as RGB": _jpeg(_picture(48, 48), keep_rgb=True),
    "for print": _jpeg(_picture(48, 48).convert("CMYK")),
    "for print, by Photoshop": _ycck(),
    "turned": _jpeg(_picture(48, 48), exif=_turned(6)),
    "mirrored": _jpeg(_picture(97, 61), exif=_turned(2)),
    "turned by XMP": _jpeg(_picture(48, 48), xmp=XMP),
    "one pixel": _jpeg(_picture(1, 1)),
    "something behind": _jpeg(_picture(48, 48)) + b"more" * 99,
    "cut": _jpeg(_picture(48, 48))[:-40],
    "cut in its header": _jpeg(_picture(48, 48))[:100],
    "changed": _jpeg(_picture(97, 61)).replace(b"\xff\xda", b"\xff\xdb", 1),
    "no JPEG": b"\xff\xd8 is not enough",
    "nothing": b"",
}
HARD = ("for print", "for print, by Photoshop", "turned", "mirrored", "turned by XMP", "cut",
        "cut in its header", "changed", "no JPEG", "nothing")  # fmt: skip


@pytest.mark.parametrize("mode", ["square", "paper"])
@pytest.mark.parametrize("name", IMAGES)
def test_pixels_and_errors_equal_pillow_s(
    name: str, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Example(name, ImageRef("shard.tar", "a.jpg", IMAGES[name]), ("a",), "train", "test")
    found = canvas(example, side_px=48, mode=mode)
    monkeypatch.setattr(canvases, "_turbo", lambda: None)
    expected = canvas(example, side_px=48, mode=mode)
    if isinstance(expected, str):
        assert found == expected
        return
    assert not isinstance(found, str)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]
    assert found[0].shape == (48, 48, 3)


@pytest.mark.parametrize("name", IMAGES)
def test_simple_jpegs_are_decoded_without_pillow(name: str) -> None:
    pixels = canvases._jpeg(ImageRef("shard.tar", "a.jpg", IMAGES[name]))
    assert (pixels is None) == (name in HARD)


def test_a_picture_that_unpacks_to_gigabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvases, "REDUCED_ABOVE", 48 * 48 - 1)
    assert canvases._jpeg(ImageRef("s", "a.jpg", IMAGES["of the canvas' size"])) is None


def test_files_are_left_to_pillow(tmp_path: Any) -> None:
    (tmp_path / "a.jpg").write_bytes(IMAGES["as cameras write"])
    file = ImageRef(str(tmp_path / "a.jpg"))
    assert canvases._jpeg(file) is None
    example = Example("a", file, ("a",), "train", "test")
    assert not isinstance(canvas(example, side_px=48, mode="square"), str)
