"""Every format, mode, orientation and kind of damage a photograph arrives with."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import sys
import tarfile
import threading
import warnings
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from sightwords import sandbox
from sightwords.errors import ImageError, SandboxError
from sightwords.images import ImageLimits, decode, decode_apart, to_array
from sightwords.types import ImageRef

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quadrants(size: tuple[int, int] = (32, 16)) -> Image.Image:
    """Red, green above blue, white: no orientation maps it onto itself."""
    width, height = size
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = RED
    pixels[: height // 2, width // 2 :] = GREEN
    pixels[height // 2 :, : width // 2] = BLUE
    pixels[height // 2 :, width // 2 :] = WHITE
    return Image.fromarray(pixels)


def encoded(image: Image.Image, file_format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=file_format, **options)
    return buffer.getvalue()


def corners(image: Image.Image) -> list[npt.NDArray[np.uint8]]:
    pixels = to_array(image)
    return [pixels[2, 2], pixels[2, -3], pixels[-3, 2], pixels[-3, -3]]


def assert_upright(image: Image.Image, tolerance: int = 40) -> None:
    assert image.mode == "RGB"
    for found, expected in zip(corners(image), (RED, GREEN, BLUE, WHITE), strict=True):
        assert np.abs(found.astype(int) - expected).max() <= tolerance


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("JPEG", {"quality": 95, "subsampling": 0}),
        ("JPEG", {"quality": 95, "progressive": True, "subsampling": 0}),
        ("PNG", {}),
        ("WEBP", {"quality": 95}),
        ("WEBP", {"lossless": True}),
        ("AVIF", {"quality": 95}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("PPM", {}),
        ("JPEG2000", {}),
    ],
)
def test_formats_come_out_as_the_same_picture(file_format: str, options: dict[str, Any]) -> None:
    image = decode(encoded(quadrants(), file_format, **options))
    assert image.size == (32, 16)
    assert_upright(image)


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation(file_format: str) -> None:
    frames = [Image.new("RGB", (16, 16), "black")]
    data = encoded(quadrants((16, 16)), file_format, save_all=True, append_images=frames)
    assert_upright(decode(data))


# What a camera held that way stores, for the values 1 to 8 of EXIF tag 274: which corner of the
# upright picture (0 top left, 1 top right, 2 bottom left, 3 bottom right) ends up at the stored
# top left, top right, bottom left, bottom right. Worked out from the standard's table: for 6, row 0
# of the file is the right-hand side of the scene and column 0 is its top.
STORED = {1: "0123", 2: "1032", 3: "3210", 4: "2301", 5: "0213", 6: "1302", 7: "3120", 8: "2031"}


def stored_for(orientation: int) -> Image.Image:
    """The quadrant picture as a camera held that way writes it."""
    width, height = (16, 32) if orientation >= 5 else (32, 16)
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    rows = (slice(0, height // 2), slice(height // 2, None))
    columns = (slice(0, width // 2), slice(width // 2, None))
    for index, corner in enumerate(STORED[orientation]):
        pixels[rows[index // 2], columns[index % 2]] = (RED, GREEN, BLUE, WHITE)[int(corner)]
    return Image.fromarray(pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
def test_all_eight_orientations_are_undone(orientation: int, file_format: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"quality": 95} if file_format in ("JPEG", "WEBP", "AVIF") else {}
    if file_format == "JPEG":
        options["subsampling"] = 0
    stored = stored_for(orientation)
    image = decode(encoded(stored, file_format, exif=exif, **options))
    assert image.size == (32, 16)
    assert_upright(image)
    assert not image.getexif()  # or the next reader would turn it again


def test_a_pillow_image_is_turned_too_and_left_as_it_was() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    given_image = Image.open(io.BytesIO(encoded(stored_for(6), "PNG", exif=exif)))
    assert_upright(decode(given_image))
    assert given_image.size == (16, 32)
    assert decode(decode(given_image)).size == (32, 16)


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_outside_the_standard_means_upright(value: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    assert_upright(decode(encoded(quadrants(), "PNG", exif=exif)))


@pytest.mark.parametrize(
    "block", [b"Exif\0\0", b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*"]
)
def test_bad_exif_does_not_cost_the_photograph(block: bytes) -> None:
    data = encoded(quadrants(), "JPEG", quality=95, subsampling=0)
    segment = b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_upright(decode(data[:2] + segment + data[2:]))


def test_16_bit_grey_is_scaled_not_clipped() -> None:
    values = np.array([[0, 256, 32768, 65535]], dtype=np.uint16)
    for file_format in ("PNG", "TIFF", "PPM"):
        image = decode(encoded(Image.fromarray(values), file_format))
        assert to_array(image)[0, :, 0].tolist() == [0, 1, 128, 255], file_format


def png_16_bit(pixels: list[int], colour_type: int) -> bytes:
    """A 1-row PNG with 16-bit samples, which Pillow itself cannot write."""
    samples = {0: 1, 2: 3, 4: 2, 6: 4}[colour_type]
    header = struct.pack(">IIBBBBB", len(pixels) // samples, 1, 16, colour_type, 0, 0, 0)
    body = zlib.compress(b"\0" + struct.pack(f">{len(pixels)}H", *pixels))

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def test_16_bit_colour_and_alpha() -> None:
    rgb = decode(png_16_bit([65535, 0, 32768, 0, 65535, 0], colour_type=2))
    assert to_array(rgb)[0].tolist() == [[255, 0, 128], [0, 255, 0]]
    rgba = decode(png_16_bit([65535, 0, 0, 65535, 65535, 0, 0, 0], colour_type=6))
    assert to_array(rgba)[0].tolist() == [[255, 0, 0], [255, 255, 255]]
    grey_alpha = decode(png_16_bit([0, 65535, 0, 0], colour_type=4))
    assert to_array(grey_alpha)[0].tolist() == [[0, 0, 0], [255, 255, 255]]


@pytest.mark.parametrize(
    ("mode", "values", "expected"),
    [
        ("I", [0, 100, 255], [0, 100, 255]),
        ("I", [-5, 32768, 65535], [0, 128, 255]),
        ("I", [0, 600_000, 1_000_000], [0, 153, 255]),
        ("F", [0.0, 0.5, 1.0], [0, 128, 255]),
        ("F", [0.0, 100.0, 255.0], [0, 100, 255]),
        ("F", [float("nan"), 1.0, float("inf")], [0, 255, 0]),
        ("F", [-3.0, -2.0, -1.0], [0, 0, 0]),
    ],
)
def test_deep_modes_are_scaled_by_the_range_in_use(
    mode: str, values: list[float], expected: list[int]
) -> None:
    array = np.array([values], dtype=np.int32 if mode == "I" else np.float32)
    image = Image.fromarray(array)
    assert image.mode == mode
    assert to_array(decode(image))[0, :, 0].tolist() == expected
    assert to_array(decode(encoded(image, "TIFF")))[0, :, 0].tolist() == expected


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_a_float_map_is_not_black(scale: float) -> None:
    pixels = np.array([[0.0, 0.25], [0.5, 1.0]], np.float32) * scale
    data = b"Pf\n2 2\n-1.0\n" + pixels[::-1].tobytes()  # its rows go upwards
    expected = [0, 64, 128, 255] if scale == 1 else [0, 50, 100, 200]
    assert to_array(decode(data))[:, :, 0].ravel().tolist() == expected


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "I;16", "F", "CMYK"])
def test_a_large_image_is_reduced_by_a_whole_factor(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[decode.__module__], "REDUCED_ABOVE", 3000)
    monkeypatch.setattr("sightwords.images.pixels.BAND_PIXELS", 700)  # several bands
    grey = np.tile(np.repeat([0, 255], 50).astype(np.uint8), (61, 1))
    deep = {"I;16": np.uint16(257) * grey.astype(np.uint16), "F": grey.astype(np.float32)}
    image = Image.fromarray(deep[mode]) if mode in deep else Image.fromarray(grey).convert(mode)
    reduced = decode(image)
    assert reduced.size == (50, 31)  # 100 x 61, halved, nothing cut off
    assert to_array(reduced)[30, [0, 24, 25, 49], 0].tolist() == [0, 0, 255, 255]
    assert decode(image, whole=True).size == (100, 61)


def test_a_large_jpeg_is_decoded_at_a_smaller_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[decode.__module__], "REDUCED_ABOVE", 10_000)
    data = encoded(quadrants((320, 160)), "JPEG", quality=95)
    small, whole = decode(data), decode(data, whole=True)
    assert small.size == (80, 40)  # libjpeg halves it, and it is halved once more
    wanted = np.asarray(whole.resize(small.size, Image.Resampling.BOX), float)
    assert np.abs(np.asarray(small, float) - wanted).mean() < 4


def test_a_pipe_that_says_nothing_is_not_waited_for_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match=r"pipe\.jpg: .*0\.2"):
        decode(tmp_path / "pipe.jpg", limits=ImageLimits(seconds=0.2))


def test_without_a_helper_process_the_photo_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    sandbox.stop_helpers()
    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(SandboxError, match="helper"):
        decode_apart(encoded(quadrants(), "PNG"))


def test_devices_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="device"):
        decode("/dev/zero")
    with (tmp_path / "huge.jpg").open("wb") as stream:
        stream.truncate(10 << 30)
    with pytest.raises(ImageError, match=r"10,240 MB.* 512"):
        decode(tmp_path / "huge.jpg")
    with pytest.raises(ImageError, match="0 MB"):
        decode(b"1234", limits=ImageLimits(held_bytes=3))


def test_cmyk_jpegs_hold_inverted_ink_as_adobe_writes_it() -> None:
    cmyk = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # magenta and yellow ink: red
    data = encoded(cmyk, "JPEG", quality=95)
    start = data.index(b"\xff\xee")
    assert data[start + 4 : start + 9] == b"Adobe"
    unmarked = data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]
    for source in (data, unmarked, encoded(cmyk, "TIFF")):
        assert np.abs(to_array(decode(source)).astype(int) - RED).max() < 8


def test_transparency_is_laid_on_white() -> None:
    half = Image.new("RGBA", (1, 1), (0, 0, 0, 128))
    assert to_array(decode(half)).tolist() == [[[127, 127, 127]]]
    for file_format in ("PNG", "WEBP", "AVIF", "TIFF"):
        hidden = encoded(Image.new("RGBA", (16, 16), (200, 10, 10, 0)), file_format)
        assert to_array(decode(hidden)).min() >= 250, file_format
    assert to_array(decode(Image.new("LA", (1, 1), (0, 0)))).tolist() == [[[255] * 3]]


def test_palette_with_and_without_transparency() -> None:
    palette = quadrants().quantize(8)
    assert palette.mode == "P"
    for file_format in ("PNG", "GIF", "BMP", "TIFF"):
        assert_upright(decode(encoded(palette, file_format)))
    red_index = palette.getpixel((0, 0))
    for file_format in ("PNG", "GIF"):
        image = decode(encoded(palette, file_format, transparency=red_index))
        assert to_array(image)[0, 0].tolist() == list(WHITE)
        assert to_array(image)[0, -1].tolist() == list(GREEN)
    in_bytes = decode(encoded(palette, "PNG", transparency=bytes([0] * 256)))
    assert to_array(in_bytes).min() == 255


def test_a_colour_key_is_transparent_in_grey_and_rgb() -> None:
    grey = encoded(Image.new("L", (4, 4), 10), "PNG", transparency=10)
    assert to_array(decode(grey)).min() == 255
    rgb = encoded(Image.new("RGB", (4, 4), RED), "PNG", transparency=RED)
    assert to_array(decode(rgb)).min() == 255


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = decode(Image.new(mode, (3, 2)))
    assert (image.mode, image.size) == ("RGB", (3, 2))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.full((2, 3), 7, np.uint8), [7, 7, 7]),
        (np.full((2, 3, 1), 7, np.uint8), [7, 7, 7]),
        (np.full((2, 3, 3), 7, np.uint8), [7, 7, 7]),
        (np.full((2, 3, 4), 0, np.uint8), [255, 255, 255]),
        (np.ones((2, 3), bool), [255, 255, 255]),
        (np.full((2, 3), 65535, np.uint16), [255, 255, 255]),
        (np.full((2, 3, 3), 0.5, np.float32), [128, 128, 128]),
        (np.full((3, 6, 3), 7, np.uint8)[::-1, ::2][:2], [7, 7, 7]),
    ],
)
def test_arrays(array: npt.NDArray[Any], expected: list[int]) -> None:
    image = decode(array)
    assert image.size == (3, 2)
    assert to_array(image)[1, 2].tolist() == expected


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((2, 3, 2), np.uint8), r"shape \(2, 3, 2\)"),
        (np.zeros((1, 2, 3, 3), np.uint8), r"shape \(1, 2, 3, 3\)"),
        (np.zeros((3,), np.uint8), "no pixels"),
        (np.zeros((0, 3), np.uint8), "no pixels"),
        (np.full((2, 3), 7.0), "0 to 1"),
        (np.full((2, 3), np.nan), "0 to 1"),
        (np.zeros((2, 3), np.int64), "int64"),
    ],
)
def test_arrays_that_are_no_image_are_refused(array: npt.NDArray[Any], said: str) -> None:
    with pytest.raises(ImageError, match=said):
        decode(array)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims this size; its pixels are not there."""
    data = bytearray(encoded(Image.new("RGB", (1, 1)), "PNG"))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def test_bombs_are_refused_by_their_header() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ImageError, match=r"12000 x 9000 .*108 megapixels.* 9"):
            decode(bomb(12000, 9000), limits=ImageLimits(pixels=90_000_000))
        with pytest.raises(ImageError, match="too large"):
            decode(bomb(60000, 60000))
        with pytest.raises(ImageError, match=r"412 MB.* 300"):
            decode(bomb(12000, 9000))
        # within the limits, but over the size at which Pillow warns: it gets as far as its pixels
        with pytest.raises(ImageError, match="PNG"):
            decode(bomb(12000, 9000), limits=ImageLimits(memory_bytes=1 << 29))
    with pytest.raises(ImageError, match="limit"):
        decode(np.zeros((10, 10), np.uint8), limits=ImageLimits(pixels=99))
    assert decode(np.zeros((10, 10), np.uint8), limits=ImageLimits(pixels=100)).size == (10, 10)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF", "BMP", "GIF"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.9])
def test_truncated_files_are_errors_that_name_the_file(
    tmp_path: Path, file_format: str, kept: float
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), file_format)
    path = tmp_path / "photo.bin"
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ImageError) as caught:
        decode(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert "; " in message


@given(st.binary(max_size=200), st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"]))
def test_damage_anywhere_is_an_image_or_an_image_error(noise: bytes, file_format: str) -> None:
    data = bytearray(encoded(quadrants(), file_format))
    at = 4 + sum(noise) % (len(data) - 4)
    data[at : at + len(noise)] = noise
    for source in (bytes(data), noise):
        with contextlib.suppress(ImageError):  # any other exception fails the test
            assert decode(source, limits=ImageLimits(pixels=1_000_000)).mode == "RGB"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty file"),
        (b"hello world", "not a readable image"),
        (b"\n <!DOCTYPE html><title>404</title>", "a web page"),
        (b"<?xml version='1.0'?><svg/>", "SVG"),
        (b"%PDF-1.7", "PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "PostScript"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", "video"),
        (b"\0\0\0\x18ftypavif\0\0\0\0", "AVIF"),
        (b"\x89PNG\r\n\x1a\n", "starts like a PNG"),
        (b'{"a": 1}', "JSON"),
    ],
)
def test_what_is_no_image_is_described(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=said) as caught:
        decode(str(path))
    assert str(path) in str(caught.value)


def test_heic_is_read_where_its_plug_in_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plug-in is looked for by the first HEIC; one that is none gets no such advice."""

    class Opened(PngImagePlugin.PngImageFile):
        format = "HEIF"

        def _open(self) -> None:
            assert self.fp is not None
            self.fp = io.BytesIO(self.fp.read()[16:])
            super()._open()

    def register(decode_threads: int) -> None:
        Image.register_open("HEIF", Opened, lambda head: head[4:12] == b"ftypheic")

    monkeypatch.setattr(Image, "OPEN", {k: v for k, v in Image.OPEN.items() if k != "HEIF"})
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "HEIF"])
    head = b"\0\0\0\x18ftypheic\0\0\0\0"
    stream = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(stream, "PNG")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # not installed
    with pytest.raises(ImageError, match=r"sightwords\[heic\]"):
        decode(head + stream.getvalue())
    plugin = SimpleNamespace(register_heif_opener=register)
    monkeypatch.setitem(sys.modules, "pillow_heif", plugin)
    assert decode(head + stream.getvalue()).getpixel((0, 0)) == (255, 0, 0)
    with pytest.raises(ImageError, match=r"HEIC.*damaged"):
        decode(head)


def test_heic_itself(tmp_path: Path) -> None:
    plugin = pytest.importorskip("pillow_heif")
    plugin.register_heif_opener()
    path = tmp_path / "IMG_0001.HEIC"
    Image.new("RGB", (64, 48), "red").save(path, "HEIF")
    assert np.allclose(to_array(decode(path)), (255, 0, 0), atol=8)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_heic_rows_are_those_of_the_whole(tmp_path: Path, mode: str) -> None:
    plugin = pytest.importorskip("pillow_heif")
    plugin.register_heif_opener()
    noise = np.random.default_rng(1).integers(0, 256, (67, 101, 3), dtype=np.uint8)
    image = Image.fromarray(noise).convert(mode)
    if mode == "RGBA":
        image.putalpha(128)
    image.save(tmp_path / "photo.heic", quality=80)
    with Image.open(tmp_path / "photo.heic") as opened:
        opened.load()  # Pillow's way; ours takes the decoder's rows
        wanted = to_array(decode(opened))
    assert np.array_equal(to_array(decode(tmp_path / "photo.heic")), wanted)


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"missing\.jpg"):
        decode(tmp_path / "missing.jpg")
    with pytest.raises(ImageError, match="sightwords batch"):
        decode(tmp_path)
    with pytest.raises(ImageError, match=r"b\.jpg"):
        decode("a\0b.jpg")
    with pytest.raises(ImageError, match="int"):
        decode(3)  # type: ignore[arg-type]
    with pytest.raises(ImageError, match="is a directory"):
        decode("")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read anything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "private.png"
    path.write_bytes(encoded(quadrants(), "PNG"))
    path.chmod(0)
    with pytest.raises(ImageError, match=r"private\.png.*permission"):
        decode(path)


def test_permission_denied_whoever_runs_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ImageError, match=r"private\.png.*permission"):
        decode(tmp_path / "private.png")
    monkeypatch.setattr(Path, "stat", refuse)  # as in a folder that is shut
    with pytest.raises(ImageError, match=r"private\.png.*permission"):
        decode(tmp_path / "private.png")


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no such names of open files")
def test_a_pipe_is_an_image_or_an_image_error() -> None:
    for content in (encoded(quadrants(), "PNG"), b"no image" * 100):
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        try:
            if content.startswith(b"\x89PNG"):
                assert decode(f"/dev/fd/{reading}").size == (32, 16)
            else:
                with pytest.raises(ImageError, match="not a readable image"):
                    decode(f"/dev/fd/{reading}")
        finally:
            os.close(reading)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that opens and fails")
def test_a_disk_that_fails_is_an_image_error() -> None:
    with pytest.raises(ImageError, match=r"^/proc/self/mem: cannot be read"):
        decode("/proc/self/mem")


def test_a_file_that_is_open_already(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encoded(quadrants(), "PNG"))
    with path.open("rb") as file:
        assert to_array(decode(file)).tolist() == to_array(decode(path)).tolist()
        assert not file.closed
        with pytest.raises(ImageError, match="<BufferedReader>"):  # nothing is left to read
            decode(file)
    with path.open(encoding="latin-1") as text, pytest.raises(ImageError, match="binary mode"):
        decode(text)  # type: ignore[arg-type]
    with pytest.raises(ImageError, match="<BufferedReader>"):
        decode(file)


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        decode(tmp_path / "a\nb.jpg")
    assert "\n" not in str(caught.value)


def test_image_references(tmp_path: Path) -> None:
    data = encoded(quadrants(), "PNG")
    path, shard = tmp_path / "a.png", tmp_path / "a.tar"
    path.write_bytes(data)
    with tarfile.open(shard, "w") as tar:
        tar.add(path, "one.png")
    assert_upright(decode(ImageRef(str(path))))
    assert_upright(decode(ImageRef("gone.tar", member="one.png", data=data)))
    assert_upright(decode(ImageRef(str(shard), member="one.png")))
    with pytest.raises(ImageError, match=r"a\.tar::two\.png"):
        decode(ImageRef(str(shard), member="two.png"))
    with pytest.raises(ImageError, match=r"a\.png::one\.png"):
        decode(ImageRef(str(path), member="one.png"))
    with pytest.raises(ImageError, match=r"a\.tar::one\.png"):
        decode(ImageRef("a.tar", member="one.png", data=b""))


def test_a_url_is_read_through_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://photos/a.png", "wb") as file:
        file.write(encoded(quadrants(), "PNG"))
    assert_upright(decode("memory://photos/a.png"))
    with pytest.raises(ImageError, match=r"memory://photos/b\.png"):
        decode("memory://photos/b.png")
    with pytest.raises(ImageError, match="cannot be fetched"):
        decode("nonsense://photos/b.png")


def test_a_url_whose_package_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    def absent(*_: Any, **__: Any) -> Any:
        raise ImportError('HTTPFileSystem requires "requests" and "aiohttp" to be installed')

    monkeypatch.setattr(fsspec, "open", absent)
    with pytest.raises(ImageError, match=r"not installed .*\[remote\]'$"):
        decode("https://photos.example/a.png")


def test_the_extra_for_urls_brings_what_reads_http() -> None:
    settings = Path(__file__).parents[2] / "pyproject.toml"
    assert 'remote = ["fsspec[http]' in settings.read_text(encoding="utf-8")


def test_no_file_is_left_open(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.tif", tmp_path / "bad.tif"
    data = encoded(quadrants(), "TIFF")
    good.write_bytes(data)
    bad.write_bytes(data[:200])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        decode(good)
        with pytest.raises(ImageError):
            decode(bad)
    descriptors = Path("/proc/self/fd")
    if descriptors.is_dir():
        names = [os.path.realpath(link) for link in descriptors.iterdir()]
        assert not [name for name in names if name.endswith(".tif")]


def test_threads_decode_side_by_side_and_leave_warning_filters_alone() -> None:
    data = encoded(quadrants(), "JPEG", quality=95, subsampling=0)
    before = list(warnings.filters)
    images: list[Image.Image] = []
    threads = [
        threading.Thread(target=lambda: images.extend(decode(data) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(images) == 80
    assert list(warnings.filters) == before


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 8))
def test_orientation_round_trip(width: int, height: int, orientation: int) -> None:
    """Storing a picture turned and decoding it gives the picture back, pixel for pixel."""
    rng = np.random.default_rng(width * 61 + height)
    upright = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    stored = {  # by array indexing, apart from Pillow's transposes
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: upright.transpose(1, 0, 2)[::-1],
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: upright.transpose(1, 0, 2)[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = decode(encoded(Image.fromarray(np.ascontiguousarray(stored)), "PNG", exif=exif))
    np.testing.assert_array_equal(to_array(image), upright)
