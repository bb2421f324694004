"""Small photos of every format, valid and damaged, for `fuzz.py` and `fuzz_in_place.py`."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin

from sightwords.samples import sample_paths

VARIANTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("jpg", "JPEG", "RGB", {}),
    ("jpg-progressive", "JPEG", "RGB", {"progressive": True}),
    ("jpg-cmyk", "JPEG", "CMYK", {}),
    ("jpg-grey", "JPEG", "L", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
    ("mpo", "MPO", "RGB", {"save_all": True}),
    ("png", "PNG", "RGB", {}),
    ("png-alpha", "PNG", "RGBA", {}),
    ("png-palette", "PNG", "P", {"transparency": 0}),
    ("png-deep", "PNG", "I;16", {}),
    ("png-bits", "PNG", "1", {}),
    ("png-animated", "PNG", "RGB", {"save_all": True}),
    ("webp", "WEBP", "RGB", {}),
    ("webp-lossless", "WEBP", "RGBA", {"lossless": True}),
    ("webp-animated", "WEBP", "RGB", {"save_all": True}),
    ("avif", "AVIF", "RGB", {"speed": 10}),
    ("gif", "GIF", "P", {}),
    ("gif-animated", "GIF", "P", {"save_all": True}),
    ("bmp", "BMP", "RGB", {}),
    ("bmp-palette", "BMP", "P", {}),
    ("tif", "TIFF", "RGB", {}),
    ("tif-lzw", "TIFF", "RGB", {"compression": "tiff_lzw"}),
    ("tif-deflate", "TIFF", "RGBA", {"compression": "tiff_adobe_deflate"}),
    ("tif-packbits", "TIFF", "L", {"compression": "packbits"}),
    ("tif-jpeg", "TIFF", "RGB", {"compression": "jpeg"}),
    ("tif-fax", "TIFF", "1", {"compression": "group4"}),
    ("tif-float", "TIFF", "F", {}),
    ("tif-pages", "TIFF", "RGB", {"save_all": True}),
    ("ppm", "PPM", "RGB", {}),
    ("pgm", "PPM", "L", {}),
    ("pbm", "PPM", "1", {}),
    ("pfm", "PPM", "F", {}),
    ("jp2", "JPEG2000", "RGB", {}),
    ("j2k", "JPEG2000", "L", {"no_jp2": True}),
]
"""What a file is called, and how Pillow makes it: format, mode, options."""

EXTREMES = (
    b"\0\0",
    b"\xff\xff",
    b"\x7f\xff",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
)


def damaged_photos(count: int, seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Variant, file name and bytes: samples in every format, each damaged."""
    rng = random.Random(seed)
    found = _originals()
    kinds = sorted(found)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        data = damaged(rng, rng.choice(found[kind]), rng.choice(found[kind]))
        yield kind, f"{number:05d}.{kind.partition('-')[0]}", data


def _originals() -> dict[str, list[bytes]]:
    """Small valid files by variant."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for path in sample_paths()[:3]:
        photo = Image.open(path).convert("RGB").resize((96, 72))
        for kind, *_ in VARIANTS:
            try:
                found[kind].append(_saved(photo, kind))
            except (OSError, KeyError, ValueError):  # a Pillow without that codec
                continue
    return {kind: files for kind, files in found.items() if files}


def _saved(photo: Image.Image, kind: str, **more: Any) -> bytes:
    _, file_format, mode, options = next(row for row in VARIANTS if row[0] == kind)
    if mode in ("I;16", "F"):
        grey = np.asarray(photo.convert("L"))
        values = grey.astype(np.uint16) * 257 if mode == "I;16" else grey.astype(np.float32) / 255
        image = Image.fromarray(values)
    else:
        image = photo.convert(mode)
    options = {**options, **more}
    if options.get("save_all"):
        options["append_images"] = [image.rotate(angle) for angle in (90, 180)]
    stream = io.BytesIO()
    image.save(stream, file_format, **options)
    return stream.getvalue()


def damaged(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A file with one to three things done to it: bytes changed, lost, added or mixed."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(found)) if found else 0
        length = rng.randint(1, 64)
        deed = rng.randrange(8)
        if deed == 0:
            for _ in range(rng.randint(1, 16)):
                found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        elif deed == 1:
            del found[at:]
        elif deed == 2:
            found[at : at + length] = bytes(length)
        elif deed == 3:
            found[at:at] = rng.randbytes(length)
        elif deed == 4:
            del found[at : at + length]
        elif deed == 5:
            found[at:] = other[rng.randrange(len(other)) :]
        elif deed == 6:
            found[at:at] = found[at : at + length] * rng.randint(1, 200)
        else:
            value = rng.choice(EXTREMES)
            near = rng.randrange(min(len(found), 200) or 1)
            found[near : near + len(value)] = value
        if not found:
            found = bytearray(b"\0")
    return bytes(found)


# --- with metadata, for in-place rewrites ---------------------------------------------------------

_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
_PACKET = (
    b'<?xpacket begin="\xef\xbb\xbf" id="W5M0MpCehiHzreSzNTczkc9d"?>\n<x:xmpmeta '
    b'xmlns:x="adobe:ns:meta/" x:xmptk="Other 1.0"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/'
    b'22-rdf-syntax-ns#"><rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    b'xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:o="http://example.org/own/" xmp:Rating="4" '
    b'o:note="mine"><dc:subject><rdf:Seq><rdf:li>garden</rdf:li></rdf:Seq></dc:subject>'
    b'<dc:description><rdf:Alt><rdf:li xml:lang="de">ein Hund</rdf:li></rdf:Alt></dc:description>'
    b"<o:list><rdf:Bag><rdf:li>a</rdf:li><rdf:li>b</rdf:li></rdf:Bag></o:list>"
    b'</rdf:Description></rdf:RDF></x:xmpmeta>\n<?xpacket end="w"?>'
)
_HELD = [row[0] for row in VARIANTS if row[1] not in ("PPM",)]
"""The formats that may hold a caption come up more often."""
_WEIGHTS = [3 if kind[:3] in ("jpg", "png", "tif", "web", "jp2") else 1 for kind in _HELD]


def photo_with_metadata(rng: random.Random) -> tuple[str, bytes]:
    """A variant and a file of it, with other people's metadata; six in ten are damaged."""
    kind = rng.choices([*_HELD, "tif-strips", "tif-big", "png-interlaced"], [*_WEIGHTS, 12, 1, 1])[
        0
    ]
    data = _with_metadata(rng, kind)
    if rng.random() < 0.15:
        data += rng.randbytes(rng.randint(1, 3000))  # a trailer, as of motion photos
    if rng.random() < 0.6:
        at = data.find(b"<x:xmpmeta")
        if at >= 0 and rng.random() < 0.3:  # letters for letters, so that some of it stays XML
            changed = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                place = at + rng.randrange(min(1000, len(data) - at))
                changed[place] = rng.choice(b"aeZ09<>/\"' :=&\xff")
            data = bytes(changed)
        else:
            data = damaged(rng, data, _with_metadata(rng, kind))
    return kind, data


def _with_metadata(rng: random.Random, kind: str) -> bytes:
    if kind in _MAKERS:
        return _MAKERS[kind](rng)
    draw = np.random.default_rng(rng.randrange(1 << 32))
    noise = draw.integers(0, 60, (rng.randint(1, 90), rng.randint(1, 90), 3), dtype=np.uint8)
    photo = Image.fromarray(noise + np.uint8(rng.randrange(196)))

    def some(share: float, **options: Any) -> dict[str, Any]:
        return options if rng.random() < share else {}

    options = {**some(0.3, exif=_exif(rng)), **some(0.3, icc_profile=_PROFILE)}
    family = kind.partition("-")[0]
    if family in ("jpg", "webp"):
        options |= some(0.3, xmp=_PACKET) | (some(0.3, comment=b"hello") if family == "jpg" else {})
    elif family == "png":
        options["pnginfo"] = _texts(rng)
    elif family == "tif":
        options = some(0.3, icc_profile=_PROFILE) | some(0.5, tiffinfo={315: "Ada", 700: _PACKET})
    elif family != "mpo":
        options = {}
    data = _saved(photo, kind, **options)
    if family == "jpg":
        at = 20 if data[2:4] == b"\xff\xe0" else 2
        return data[:at] + _segments(rng) + data[at:]
    if kind == "jp2" and rng.random() < 0.4:
        box = b"uuid" + bytes.fromhex("be7acfcb97a942e89c71999491e3afac") + _PACKET
        return data + struct.pack(">I", len(box) + 4) + box
    return data


def _exif(rng: random.Random) -> bytes:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110], exif[0x0112] = "Maker", "Model", rng.randint(1, 8)
    exif.get_ifd(0x8769)[0x927C] = rng.randbytes(rng.randint(4, 400))  # maker note
    exif.get_ifd(0x8825)[1] = "N"
    return bytes(exif.tobytes())


def _texts(rng: random.Random) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    if rng.random() < 0.4:
        info.add_text("Title", "a title", zip=rng.random() < 0.5)
    if rng.random() < 0.3:
        info.add_itxt("XML:com.adobe.xmp", _PACKET.decode(), zip=rng.random() < 0.3)
    return info


def _segments(rng: random.Random) -> bytes:
    """IPTC, a segment of a stranger, further XMP: each now and then."""
    iptc = b"\x1c\x02\x50\x00\x03Ada\x1c\x02\x78\x00\x05mine."
    photoshop = b"Photoshop 3.0\x008BIM\x04\x04\0\0" + struct.pack(">I", len(iptc)) + iptc
    more = b"http://ns.adobe.com/xmp/extension/\0" + b"A" * 32 + struct.pack(">II", 30, 0)
    found = b""
    for share, marker, body in (
        (0.3, 0xED, photoshop),
        (0.2, rng.randint(0xE2, 0xEC), b"Own\0" + rng.randbytes(40)),
        (0.1, 0xE1, more + b"x" * 30),
    ):
        if rng.random() < share:
            found += bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body
    return found


def _tiff_strips(rng: random.Random) -> bytes:
    """Uncompressed, in strips or tiles, of either byte order; the lengths may be bad or missing."""
    order, bits = rng.choice("<>"), rng.choice((8, 16))
    tiled, rows, first = rng.random() < 0.3, rng.choice((8, 16, 32)), rng.random() < 0.5
    size, count = (16 * 16, 4) if tiled else (32 * rows, 32 // rows)
    pieces = [rng.randbytes(size * bits // 8) for _ in range(count)]
    lengths = [len(piece) for piece in pieces]
    told = rng.choice(
        (lengths, lengths, [], [0] * count, [n // 3 for n in lengths], [n + 50 for n in lengths],
         [0x7FFFFFFF] * count, lengths[:1])
    )  # fmt: skip
    fields = {256: (3, [32]), 257: (3, [32]), 258: (3, [bits]), 259: (3, [1]), 262: (3, [1]),
              277: (3, [1]), **({322: (3, [16]), 323: (3, [16])} if tiled else {278: (3, [rows])}),
              324 if tiled else 273: (4, [0] * count)}  # fmt: skip
    if told:
        fields[325 if tiled else 279] = (4, told)
    directory = 2 + 12 * len(fields) + 4
    behind = sum(4 * len(values) for kind, values in fields.values() if len(values) > 1)
    # The pixels lie before the directory or behind it.
    start, at = (8, 8 + sum(lengths)) if first else (8 + directory + behind, 8)
    fields[324 if tiled else 273] = (4, list(accumulate([start, *lengths[:-1]])))
    body, extra = b"", b""
    for tag, (kind, values) in sorted(fields.items()):
        packed = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else 'I'}", *values)
        if len(packed) > 4:
            packed, held = struct.pack(order + "I", at + directory + len(extra)), packed
            extra += held
        body += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    whole = struct.pack(order + "H", len(fields)) + body + b"\0\0\0\0" + extra
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, at)
    return head + (b"".join(pieces) + whole if first else whole + b"".join(pieces))


def _png_interlaced(rng: random.Random) -> bytes:
    """Adam7 of one 8 x 8 block of grey."""
    passes = ((1, 1), (1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8))
    raw = b"".join(b"\0" + rng.randbytes(width) for rows, width in passes for _ in range(rows))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 1)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def _tiff_big(rng: random.Random) -> bytes:
    return _saved(Image.new("RGB", (rng.randint(1, 90), 9), "red"), "tif", big_tiff=True)


_MAKERS: dict[str, Callable[[random.Random], bytes]] = {
    "tif-strips": _tiff_strips,
    "tif-big": _tiff_big,
    "png-interlaced": _png_interlaced,
}
