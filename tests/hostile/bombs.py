"""Files that try to exhaust memory or time: small on disk, huge or endless when they are opened.

`bombs(seed)` gives name -> what writes the file. All are made here, none is downloaded.
"""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

Writer = Callable[[Path], None]


def bombs(seed: int = 0) -> dict[str, Writer]:
    """Every bomb by its file name; the seed varies sizes and fillings."""
    rng = random.Random(seed)
    made: dict[str, Writer] = {}
    for family in (_png, _jpeg, _gif, _webp, _boxes, _tiff, _j2k, _ppm, _bmp, _special):
        made.update(family(rng))
    return made


def _file(make: bytes | Callable[..., bytes], *arguments: int, **options: Any) -> Writer:
    """Writes these bytes, or what is made only when the file is written."""

    def write(path: Path) -> None:
        path.write_bytes(make if isinstance(make, bytes) else make(*arguments, **options))

    return write


def _sparse(head: bytes, size: int) -> Writer:
    """A file that claims gigabytes and takes none of the disk."""

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            stream.write(head)
            stream.truncate(size)

    return write


# PNG


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int, height: int, depth: int, colour: int, rows: int | None = None, extra: bytes = b""
) -> bytes:
    """A PNG of zeros; `rows` fewer than its height are really there."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    line = 1 + (width * channels * depth + 7) // 8
    packer = zlib.compressobj(9)
    body = bytearray()
    zeros = bytes(min(line, 1 << 20))
    for _ in range(height if rows is None else rows):
        left = line
        while left > 0:
            body += packer.compress(zeros[: min(left, len(zeros))])
            left -= len(zeros)
    body += packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    palette = _chunk(b"PLTE", bytes(3)) if colour == 3 else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + extra
        + palette
        + _chunk(b"IDAT", bytes(body))
        + _chunk(b"IEND", b"")
    )


def _packed_text(kind: bytes, start: bytes) -> bytes:
    return png(8, 8, 8, 2, extra=_chunk(kind, start + zlib.compress(bytes(100 << 20), 9)))


def _many_texts() -> bytes:
    texts = (_chunk(b"tEXt", b"k%d\0v" % n) for n in range(200_000))
    return png(8, 8, 8, 2, extra=b"".join(texts))


def _png(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    sides = [(170_000_000, 1), (1, 60_000_000), (100_000, 100), (3, 1_000_000)]
    for width, height in sides:
        made[f"long-{width}x{height}.png"] = _file(png, width, height, 8, 0, rows=1)
    for colour, depth in (
        (0, 1),
        (0, 8),
        (0, 16),
        (2, 8),
        (2, 16),
        (3, 8),
        (4, 8),
        (6, 8),
        (6, 16),
    ):
        side = rng.randint(12_000, 13_300)
        made[f"claims-{side}-c{colour}d{depth}.png"] = _file(png, side, side, depth, colour, rows=2)
        real = rng.randint(5_000, 6_000)
        made[f"real-{real}-c{colour}d{depth}.png"] = _file(png, real, real, depth, colour)
    made["largest-grey.png"] = _file(png, 13_000, 13_000, 8, 0)
    made["largest-black-and-white.png"] = _file(png, 13_377, 13_377, 1, 0)
    made["48-megapixels.png"] = _file(png, 8_000, 6_000, 8, 2)
    for kind, start in ((b"zTXt", b"a\0\0"), (b"iCCP", b"a\0\0"), (b"iTXt", b"a\0\1\0\0\0")):
        made[f"packed-{kind.decode()}.png"] = _file(_packed_text, kind=kind, start=start)
    made["many-texts.png"] = _file(_many_texts)
    made["many-chunks.png"] = _file(png, 8, 8, 8, 2, extra=_chunk(b"abCd", b"") * 400_000)
    made["zero-size.png"] = _file(png, 0, 0, 8, 2, rows=0)
    frames = _chunk(b"acTL", struct.pack(">II", 0xFFFFFFFF, 0))
    made["animated.png"] = _file(png, 64, 64, 8, 2, extra=frames)
    made["sparse.png"] = _sparse(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", b""), 10 << 30)
    made["endless-chunk.png"] = _file(
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
        + struct.pack(">I", 0x7FFFFFFF) + b"tEXt"
    )  # fmt: skip
    return made


# JPEG


def jpeg(size: tuple[int, int] = (64, 64), **options: object) -> bytes:
    """A plain JPEG."""
    stream = io.BytesIO()
    Image.new("RGB", size, (90, 120, 60)).save(stream, "JPEG", **options)
    return stream.getvalue()


def _resized(data: bytes, width: int, height: int) -> bytes:
    """The same JPEG with another size in its frame header."""
    at = next(data.find(mark) for mark in (b"\xff\xc0", b"\xff\xc2") if mark in data)
    return data[: at + 5] + struct.pack(">HH", height, width) + data[at + 9 :]


def _scans(count: int, size: tuple[int, int]) -> bytes:
    """A progressive JPEG whose last scan is there many times."""
    data = _resized(jpeg((64, 64), progressive=True), *size)
    last = data.rfind(b"\xff\xda")
    return data[:last] + data[last:-2] * count + b"\xff\xd9"


def _jpeg(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    for count in (20_000, 5_000, 499):
        for size in ((64, 64), (4_000, 4_000), (13_000, 13_000)):
            made[f"scans-{count}-{size[0]}.jpg"] = _file(_scans(count, size))
    for progressive in (False, True):
        for width, height in ((65_500, 65_500), (65_500, 2_700), (13_000, 13_000), (1, 65_500)):
            data = _resized(jpeg((64, 64), progressive=progressive), width, height)
            made[f"claims-{width}x{height}-{progressive:d}.jpg"] = _file(data)
    made["many-segments.jpg"] = _file(b"\xff\xd8" + b"\xff\xe5\x00\x02" * 500_000 + jpeg()[2:])
    made["fill-bytes.jpg"] = _file(b"\xff\xd8" + b"\xff" * 5_000_000 + jpeg()[2:])
    made["many-tables.jpg"] = _file(
        b"\xff\xd8" + (b"\xff\xdb\x00\x43\x00" + b"\1" * 64) * 100_000 + jpeg()[2:]
    )
    made["many-ends.jpg"] = _file(jpeg() + b"\xff\xd9" * 1_000_000)
    exif = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 1) + struct.pack(
        "<HHII", 0x8769, 4, 1, 8
    ) + struct.pack("<I", 8)  # fmt: skip
    segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    made["exif-loop.jpg"] = _file(b"\xff\xd8" + segment + jpeg()[2:])
    huge = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 1) + struct.pack(
        "<HHII", 0x0112, 3, 0xFFFFFFF, 26
    )  # fmt: skip
    segment = b"\xff\xe1" + struct.pack(">H", len(huge) + 2) + huge
    made["exif-count.jpg"] = _file(b"\xff\xd8" + segment + jpeg()[2:])
    made["sparse.jpg"] = _sparse(jpeg()[:-2], 10 << 30)
    made["sparse-400-mb.jpg"] = _sparse(jpeg()[:-2], 400 << 20)
    made["108-megapixels.jpg"] = partial(_large_jpeg, size=(12_000, 9_000))
    made["50-megapixels-progressive.jpg"] = partial(
        _large_jpeg, size=(8_000, 6_250), progressive=True
    )
    del rng
    return made


def _large_jpeg(path: Path, *, size: tuple[int, int], progressive: bool = False) -> None:
    Image.new("L", size, 128).save(path, "JPEG", progressive=progressive, quality=30)


# GIF


def _gif(rng: random.Random) -> dict[str, Writer]:
    def head(width: int, height: int) -> bytes:
        return b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + bytes(6)

    def frame(width: int, height: int) -> bytes:
        return b"," + struct.pack("<HHHH", 0, 0, width, height) + b"\0\x02\x02\x4c\x01\x00"

    made = {
        "claims.gif": _file(head(65_535, 65_535) + frame(65_535, 65_535) + b";"),
        "claims-13000.gif": _file(head(13_000, 13_000) + frame(13_000, 13_000) + b";"),
        "many-frames.gif": _file(head(2_000, 2_000) + frame(2_000, 2_000) * 50_000 + b";"),
        "comments.gif": _file(head(8, 8) + (b"!\xfe\xff" + b"a" * 255 + b"\0") * 80_000),
        "extensions.gif": _file(head(8, 8) + b"!\xfe\0" * 2_000_000 + frame(8, 8) + b";"),
        "sparse.gif": _sparse(head(64, 64), 10 << 30),
        "sparse-400-mb.gif": _sparse(head(64, 64), 400 << 20),
        "sparse-data.gif": _sparse(head(64, 64) + frame(64, 64)[:-1], 400 << 20),
        "junk.gif": _file(head(64, 64) + rng.randbytes(3_000_000)),
        "offset.gif": _file(head(8, 8) + b"," + struct.pack("<HHHH", 65_000, 65_000, 535, 535)
                            + b"\0\x02\x02\x4c\x01\x00;"),
    }  # fmt: skip
    return made


# WebP


def _riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(k + struct.pack("<I", len(d)) + d + b"\0" * (len(d) % 2) for k, d in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _webp(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    for width, height in ((16_384, 16_384), (16_384, 8_000), (16_777_216, 1), (9_000, 9_000)):
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        made[f"vp8x-{width}x{height}.webp"] = _file(_riff((b"VP8X", b"\x02\0\0\0" + size)))
        made[f"vp8x-lossy-{width}x{height}.webp"] = _file(
            _riff((b"VP8X", b"\0\0\0\0" + size), (b"VP8 ", rng.randbytes(30)))
        )
    for width, height in ((16_384, 16_384), (16_000, 4_000)):
        bits = (width - 1) | (height - 1) << 14
        made[f"vp8l-{width}x{height}.webp"] = _file(
            _riff((b"VP8L", b"\x2f" + struct.pack("<I", bits) + bytes(4)))
        )
        made[f"vp8-{width}x{height}.webp"] = _file(
            _riff((b"VP8 ", b"\x10\x02\0\x9d\x01\x2a"
                   + struct.pack("<HH", min(width, 16_383), min(height, 16_383)) + bytes(20)))
        )  # fmt: skip

    def solid(path: Path, side: int) -> None:
        Image.new("RGB", (side, side), "red").save(path, "WEBP", lossless=True, method=0)

    made["solid-4000.webp"] = partial(solid, side=4_000)
    made["solid-6000.webp"] = partial(solid, side=6_000)
    made["sparse.webp"] = _sparse(_riff((b"VP8X", b"\x02\0\0\0" + bytes(6))), 10 << 30)
    made["sparse-90-mb.webp"] = _sparse(_riff((b"VP8X", b"\x02\0\0\0" + bytes(6))), 90 << 20)
    frames = [(b"ANMF", bytes(6) + bytes(6) + bytes(3) + b"\0" + rng.randbytes(20))] * 100_000
    made["many-frames.webp"] = _file(
        _riff((b"VP8X", b"\x02\0\0\0" + bytes(6)), (b"ANIM", bytes(6)), *frames)
    )
    return made


# AVIF and HEIC: boxes of ISO media files


def _box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data) + 8) + kind + data


def _boxes(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    for brand in (b"avif", b"heic", b"mif1", b"avis"):
        name = brand.decode()
        top = _box(b"ftyp", brand + bytes(4) + brand)
        made[f"sparse-{name}.avif"] = _sparse(top, 10 << 30)
        made[f"sparse-90-mb-{name}.avif"] = _sparse(top, 90 << 20)
        made[f"junk-{name}.avif"] = _file(top + rng.randbytes(100_000))
        deep = b""
        for _ in range(2_000):
            deep = _box(b"meta", bytes(4) + deep)
        made[f"deep-{name}.avif"] = _file(top + deep)
        many = _box(b"free", b"") * 300_000
        made[f"many-{name}.avif"] = _file(top + many)

    def solid(path: Path, side: int) -> None:
        Image.new("RGB", (side, side), "red").save(path, "AVIF", speed=10)

    def grown(path: Path, side: int) -> None:
        stream = io.BytesIO()
        Image.new("RGB", (64, 64), "red").save(stream, "AVIF", speed=10)
        size = struct.pack(">II", 64, 64)
        path.write_bytes(stream.getvalue().replace(size, struct.pack(">II", side, side)))

    made["solid-4500.avif"] = partial(solid, side=4_500)
    made["solid-6500.avif"] = partial(solid, side=6_500)
    for side in (5_000, 13_000, 30_000, 16_777_216):
        made[f"claims-{side}.avif"] = partial(grown, side=side)
    return made


# TIFF


def tiff(
    tags: list[tuple[int, int, int, int]], extra: bytes = b"", *, after: int = 0, big: bool = False
) -> bytes:
    """A little-endian TIFF of one directory; `extra` follows it."""
    assert not big
    tags = sorted(tags)
    ifd = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0\x08\0\0\0" + ifd + struct.pack("<I", after) + extra


def _plain_tiff(
    width: int, height: int, *, bits: int, samples: int, kind: int, packing: int, data: bytes,
    more: tuple[tuple[int, int, int, int], ...] = (), counted: int | None = None,
) -> bytes:  # fmt: skip
    count = 9 + len(more)
    at = 8 + 2 + 12 * count + 4
    tags = [
        (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, bits), (259, 3, 1, packing),
        (262, 3, 1, 2 if samples == 3 else 1), (273, 4, 1, at), (277, 3, 1, samples),
        (279, 4, 1, len(data) if counted is None else counted), (339, 3, 1, kind), *more,
    ]  # fmt: skip
    return tiff(tags, data)


def _deflated(side: int, bits: int, kind: int) -> bytes:
    zeros = zlib.compress(bytes(min(side * side * bits // 8, 300 << 20)), 9)
    return _plain_tiff(side, side, bits=bits, samples=1, kind=kind, packing=8, data=zeros)


def _tiff(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    deep = ((16_000, 32, 3), (8_000, 32, 3), (8_000, 32, 2), (13_000, 16, 1), (8_500, 64, 3))
    for side, bits, kind in (*deep, (13_000, 8, 1), (13_000, 1, 1), (60_000, 1, 1)):
        made[f"deflate-{side}-b{bits}k{kind}.tif"] = _file(_deflated, side, bits, kind)
    for_fax = ((2, "ccitt"), (3, "fax3"), (4, "fax4"))
    others = ((1, "raw"), (5, "lzw"), (7, "jpeg"), (32773, "packbits"), (34925, "lzma"))
    for packing, name in (*for_fax, *others, (50000, "zstd")):
        for side in (5_000, 12_000):
            made[f"{name}-{side}.tif"] = _file(
                _plain_tiff(side, side, bits=1 if packing in (2, 3, 4) else 8, samples=1, kind=1,
                            packing=packing, data=rng.randbytes(2_000_000))
            )  # fmt: skip
    made["loop.tif"] = _file(tiff([(256, 4, 1, 8), (257, 4, 1, 8)], after=8))
    made["many-entries.tif"] = _file(
        b"II*\0\x08\0\0\0" + struct.pack("<H", 65_535)
        + struct.pack("<HHII", 270, 2, 60_000, 8) * 65_535 + bytes(4)
    )  # fmt: skip
    made["count.tif"] = _file(
        _plain_tiff(64, 64, bits=8, samples=1, kind=1, packing=1, data=bytes(4096),
                    more=((320, 3, 0xFFFFFFF, 8), (700, 1, 0xFFFFFFF, 8)))
    )  # fmt: skip
    made["samples.tif"] = _file(
        _plain_tiff(2_000, 2_000, bits=8, samples=65_535, kind=1, packing=8, data=bytes(100))
    )
    made["rows.tif"] = _file(
        _plain_tiff(64, 60_000, bits=8, samples=1, kind=1, packing=5, data=bytes(100),
                    more=((278, 4, 1, 1),))
    )  # fmt: skip
    made["sparse.tif"] = _sparse(tiff([(256, 4, 1, 8), (257, 4, 1, 8)]), 10 << 30)
    made["far-directory.tif"] = _sparse(b"II*\0" + struct.pack("<I", 500 << 20), 510 << 20)
    return made


# JPEG 2000, PPM, BMP


def _j2k(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    for side, components in ((30_000, 3), (13_000, 3), (13_000, 1), (3_800, 3), (3_900, 4)):
        for tile in (side, 64):
            body = struct.pack(">HIIIIIIIIH", 0, side, side, 0, 0, tile, tile, 0, 0, components)
            body += b"\x07\x01\x01" * components
            data = b"\xff\x4f\xff\x51" + struct.pack(">H", len(body) + 2) + body
            data += b"\xff\x52\x00\x0c\x00\x00\x00\x01\x01\x05\x04\x04\x00\x01"
            data += b"\xff\x5c\x00\x13\x40" + bytes(16)
            data += b"\xff\x90\x00\x0a\x00\x00" + struct.pack(">IBB", 0, 0, 1) + b"\xff\x93"
            made[f"j2k-{side}-{components}-t{tile}.j2k"] = _file(data + rng.randbytes(60))

    def solid(path: Path, side: int) -> None:
        Image.new("RGB", (side, side), "red").save(path, "JPEG2000")

    made["solid-3500.jp2"] = partial(solid, side=3_500)
    made["sparse.jp2"] = _sparse(b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(20), 10 << 30)
    return made


def _ppm(rng: random.Random) -> dict[str, Writer]:
    made = {
        "comments.ppm": _file(b"P6\n" + b"#" + b"a" * 20_000_000 + b"\n8 8\n255\n" + bytes(192)),
        "many-comments.ppm": _file(b"P6\n" + b"#\n" * 5_000_000 + b"8 8\n255\n" + bytes(192)),
        "blanks.pgm": _file(b"P5" + b" " * 10_000_000 + b"8 8 255\n" + bytes(64)),
        "digits.ppm": _file(b"P6\n" + b"9" * 5_000_000 + b" 8\n255\n"),
        "plain.ppm": _file(b"P3\n2000 2000\n255\n" + b"1 " * 8_000_000),
        "plain-large.pgm": _file(b"P2\n12000 12000\n255\n" + b"1 " * 1_000_000),
        "bits.pbm": _file(b"P1\n8000 8000\n" + b"1" * 3_000_000),
        "sparse.ppm": _sparse(b"P6\n60000 2800\n255\n", 500 << 20),
        "sparse-grey.pgm": _sparse(b"P5\n20000 8000\n255\n", 160 << 20),
        "sparse-10-gb.ppm": _sparse(b"P6\n60000 60000\n255\n", 10 << 30),
        "junk.pam": _file(
            b"P7\nWIDTH 9000\nHEIGHT 9000\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n"
        ),
    }
    for side in (6_000, 8_500, 30_000):
        made[f"claims-{side}.pfm"] = _file(b"PF\n%d %d\n-1.0\n" % (side, side) + rng.randbytes(99))
        made[f"claims-{side}.ppm"] = _file(b"P6\n%d %d\n65535\n" % (side, side))
        made[f"sparse-{side}.pfm"] = _sparse(
            b"Pf\n%d %d\n-1.0\n" % (side, side), min(4 * side * side + 30, 500 << 20)
        )
    return made


def _bmp(rng: random.Random) -> dict[str, Writer]:
    made: dict[str, Writer] = {}
    for width, height in ((30_000, 30_000), (13_000, 13_000), (6_000, -6_000), (1, 60_000)):
        for bits, packing in ((8, 1), (4, 2), (24, 0), (32, 3), (1, 0)):
            head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, packing, 0, 0, 0, 0, 0)
            body = (b"\xff\x00" if packing else b"\0\0") * 50_000
            made[f"b{bits}p{packing}-{width}x{height}.bmp"] = _file(
                b"BM" + struct.pack("<IHHI", 54 + len(body), 0, 0, 54) + head + bytes(1024) + body
            )
    made["sparse.bmp"] = _sparse(b"BM" + bytes(8) + struct.pack("<I", 54) + struct.pack(
        "<IiiHHIIiiII", 40, 12_000, 12_000, 1, 24, 0, 0, 0, 0, 0, 0), 450 << 20)  # fmt: skip
    made["junk.bmp"] = _file(b"BM" + rng.randbytes(200_000))
    return made


def _special(rng: random.Random) -> dict[str, Writer]:
    def pipe(path: Path) -> None:
        os.mkfifo(path)

    def link(path: Path) -> None:
        path.symlink_to(path.name)

    def device(path: Path) -> None:
        path.symlink_to("/dev/zero")

    return {
        "pipe.jpg": pipe,
        "link-to-itself.jpg": link,
        "device.jpg": device,
        "sparse-zeros.jpg": _sparse(b"", 10 << 30),
        "sparse-zeros-500-mb.png": _sparse(b"", 500 << 20),
        "empty.jpg": _file(b""),
        "noise.jpg": _file(rng.randbytes(5_000_000)),
        "line-break\nand\x1b[31mescape.jpg": _file(b"no image"),
    }
