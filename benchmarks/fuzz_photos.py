"""Small photos of every format, valid and damaged, for `fuzz_in_place.py`."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin

Random = np.random.Generator

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
_ENDINGS = {"jpeg": "jpg", "png": "png", "tiff": "tif", "bigtiff": "tif", "webp": "webp",
            "gif": "gif", "jp2": "jp2", "bmp": "bmp", "avif": "avif", "mpo": "jpg"}  # fmt: skip
FORMATS = tuple(_ENDINGS)
_WEIGHTS = {"jpeg": 5, "png": 5, "tiff": 6, "webp": 3, "jp2": 2}


def mutant(random: Random) -> tuple[str, str, bytes]:
    """A format, the ending of its files, and a file of it."""
    weights = np.array([_WEIGHTS.get(kind, 1) for kind in FORMATS], dtype=float)
    kind = str(random.choice(FORMATS, p=weights / weights.sum()))
    data = _MAKERS[kind](random)
    if random.random() < 0.15:
        data += random.bytes(int(random.integers(1, 3000)))  # a trailer, as of motion photos
    if random.random() < 0.6:
        data = _MUTATIONS[int(random.integers(len(_MUTATIONS)))](data, random)
    return kind, _ENDINGS[kind], data


def _photo(random: Random, mode: str = "") -> Image.Image:
    mode = mode or str(random.choice(["RGB", "L", "RGBA", "1", "P", "LA", "I;16"]))
    width, height = (int(n) for n in random.integers(1, 90, 2))
    rows, columns = np.mgrid[0:height, 0:width]
    noise = random.integers(0, 40, (height, width))
    grey = ((rows * 2 + columns + noise) % 256).astype(np.uint8)
    if mode == "I;16":
        return Image.fromarray(grey.astype(np.uint16) * 256 + noise.astype(np.uint16))
    image = Image.merge("RGB", [Image.fromarray(np.roll(grey, n)) for n in (0, 3, 9)])
    if mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray(255 - grey))
    return image.quantize(int(random.integers(2, 256))) if mode == "P" else image.convert(mode)


def _exif(random: Random) -> bytes:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110], exif[0x0112] = "Maker", "Model", int(random.integers(1, 9))
    exif[0x013B] = "Ada"
    exif.get_ifd(0x8769)[0x927C] = random.bytes(int(random.integers(4, 400)))  # maker note
    exif.get_ifd(0x8825)[1] = "N"
    return bytes(exif.tobytes())


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _maybe(random: Random, share: float = 0.5) -> bool:
    return bool(random.random() < share)


def _jpeg(random: Random) -> bytes:
    image = _photo(random, str(random.choice(["RGB", "L", "CMYK"])))
    options: dict[str, Any] = {
        "progressive": _maybe(random),
        "quality": int(random.integers(30, 95)),
    }
    if _maybe(random):
        options["exif"] = _exif(random)
    if _maybe(random, 0.3):
        options["icc_profile"] = _PROFILE
    if _maybe(random, 0.3):
        options["comment"] = b"hello"
    if _maybe(random, 0.3):
        options["xmp"] = _PACKET
    data = _saved(image, "JPEG", **options)
    more = b""
    if _maybe(random, 0.3):
        iptc = b"\x1c\x02\x50\x00\x03Ada\x1c\x02\x78\x00\x05mine."
        more += _segment(
            0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0" + struct.pack(">I", len(iptc)) + iptc
        )
    if _maybe(random, 0.2):
        more += _segment(0xE2 + int(random.integers(0, 12)), b"Own\0" + random.bytes(40))
    if _maybe(random, 0.1):
        head = b"http://ns.adobe.com/xmp/extension/\0" + b"A" * 32 + struct.pack(">II", 30, 0)
        more += _segment(0xE1, head + b"x" * 30)
    return (
        data[:2] + data[2:20] + more + data[20:]
        if data[2:4] == b"\xff\xe0"
        else data[:2] + more + data[2:]
    )


def _segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def _mpo(random: Random) -> bytes:
    images = [_photo(random, "RGB") for _ in range(int(random.integers(2, 4)))]
    options = {"exif": _exif(random)} if _maybe(random) else {}
    return _saved(images[0], "MPO", save_all=True, append_images=images[1:], **options)


def _png(random: Random) -> bytes:
    options: dict[str, Any] = {}
    info = PngImagePlugin.PngInfo()
    if _maybe(random, 0.4):
        info.add_text("Title", "a title", zip=_maybe(random))
    if _maybe(random, 0.3):
        info.add_itxt("Author", "Ada", "de", "Autorin", zip=_maybe(random))
    if _maybe(random, 0.3):
        info.add_itxt("XML:com.adobe.xmp", _PACKET.decode(), zip=_maybe(random, 0.3))
    if _maybe(random, 0.3):
        options["exif"] = _exif(random)
    if _maybe(random, 0.3):
        options["icc_profile"] = _PROFILE
    if _maybe(random, 0.2):
        image = _photo(random, "RGBA")
        more = [image.rotate(90 * n).resize(image.size) for n in range(1, 4)]
        options |= {"save_all": True, "append_images": more, "duration": 70, "loop": 3}
        return _saved(image, "PNG", pnginfo=info, **options)
    if _maybe(random, 0.15):
        return _interlaced(random)
    return _saved(_photo(random), "PNG", pnginfo=info, **options)


def _interlaced(random: Random) -> bytes:
    side = 8  # Adam7 of one 8 x 8 block of grey
    passes = ((1, 1), (1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8))
    raw = b"".join(b"\0" + random.bytes(width) for rows, width in passes for _ in range(rows))
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 1)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def _tiff(random: Random) -> bytes:
    pick = random.random()
    if pick < 0.35:
        return _own_tiff(random)
    packing = random.choice(["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"])
    image = _photo(random, "RGB" if packing == "jpeg" else "")
    options: dict[str, Any] = {"compression": None if packing == "raw" else str(packing)}
    if _maybe(random, 0.3):
        options["icc_profile"] = _PROFILE
    if _maybe(random, 0.3):
        options["tiffinfo"] = {
            315: "Ada",
            270: "a title",
            **({700: _PACKET} if _maybe(random) else {}),
        }
    if _maybe(random, 0.3):
        more = [_photo(random, image.mode if image.mode != "P" else "RGB") for _ in range(2)]
        options |= {"save_all": True, "append_images": more}
    if packing == "raw" and _maybe(random):
        options["exif"] = _exif(random)
    return _saved(image, "TIFF", **options)


def _own_tiff(random: Random) -> bytes:
    """Uncompressed, in strips or tiles, of either byte order; the lengths may be bad or missing."""
    order = str(random.choice(["<", ">"]))
    bits = int(random.choice([8, 16]))
    tiled = _maybe(random, 0.3)
    width, height, rows = 32, 32, int(random.choice([8, 16, 32]))
    pieces = [random.bytes(16 * 16 * bits // 8) for _ in range(4)] if tiled else [
        random.bytes(width * rows * bits // 8) for _ in range(height // rows)]  # fmt: skip
    first = bool(_maybe(random))  # pixels before or behind the directory
    fields: list[tuple[int, int, list[int]]] = [
        (256, 3, [width]), (257, 3, [height]), (258, 3, [bits]), (259, 3, [1]), (262, 3, [1]),
        (277, 3, [1]),
    ]  # fmt: skip
    fields += [(322, 3, [16]), (323, 3, [16])] if tiled else [(278, 3, [rows])]
    lengths = [len(piece) for piece in pieces]
    bad = str(random.choice(["good", "good", "missing", "zero", "short", "long", "huge", "few"]))
    told = {
        "zero": [0] * len(lengths), "short": [n // 3 for n in lengths],
        "long": [n + 50 for n in lengths], "huge": [0x7FFFFFFF] * len(lengths),
        "few": lengths[:1],
    }.get(bad, lengths)  # fmt: skip
    fields.append((324 if tiled else 273, 4, [0] * len(pieces)))
    if bad != "missing":
        fields.append((325 if tiled else 279, 4, told))
    fields.sort()
    size = 2 + 12 * len(fields) + 4
    more = sum(4 * len(v) for _, t, v in fields if t == 4 and len(v) > 1)
    start = 8 if first else 8 + size + more
    directory = 8 + sum(lengths) if first else 8
    directory += directory % 2
    places = list(np.cumsum([start, *lengths[:-1]]))
    return _assembled(order, fields, places, pieces, directory, size, first=first)


def _assembled(
    order: str, fields: Any, places: Any, pieces: Any, directory: int, size: int, *, first: bool
) -> bytes:
    body, extra, at = b"", b"", directory + size
    for tag, kind, values in fields:
        values = [int(p) for p in places] if tag in (273, 324) else values
        letter = "H" if kind == 3 else "I"
        packed = struct.pack(f"{order}{len(values)}{letter}", *values)
        if len(packed) > 4:
            body += struct.pack(order + "HHII", tag, kind, len(values), at + len(extra))
            extra += packed
        else:
            body += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    whole = struct.pack(order + "H", len(fields)) + body + b"\0\0\0\0" + extra
    pixels = b"".join(pieces)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, directory)
    if first:
        return head + pixels + b"\0" * (directory - 8 - len(pixels)) + whole
    return head + whole + pixels


def _bigtiff(random: Random) -> bytes:
    return _saved(_photo(random, "RGB"), "TIFF", big_tiff=True)


def _webp(random: Random) -> bytes:
    image = _photo(random, str(random.choice(["RGB", "RGBA"])))
    options: dict[str, Any] = {"lossless": _maybe(random)}
    if _maybe(random, 0.3):
        options["exif"] = _exif(random)
    if _maybe(random, 0.3):
        options["icc_profile"] = _PROFILE
    if _maybe(random, 0.3):
        options["xmp"] = _PACKET
    if _maybe(random, 0.25):
        more = [image.rotate(90 * n).resize(image.size) for n in range(1, 4)]
        options |= {"save_all": True, "append_images": more, "duration": 80, "loop": 2}
    return _saved(image, "WEBP", **options)


def _gif(random: Random) -> bytes:
    image = _photo(random, "P")
    if _maybe(random):
        return _saved(image, "GIF", save_all=True, append_images=[image.rotate(90), image])
    return _saved(image, "GIF")


def _jp2(random: Random) -> bytes:
    image = _photo(random, str(random.choice(["RGB", "L", "RGBA", "I;16"])))
    data = _saved(image, "JPEG2000", no_jp2=_maybe(random, 0.2))
    if _maybe(random, 0.3):
        box = b"uuid" + bytes.fromhex("be7acfcb97a942e89c71999491e3afac") + _PACKET
        return data + struct.pack(">I", len(box) + 4) + box
    return data


_MAKERS: dict[str, Callable[[Random], bytes]] = {
    "jpeg": _jpeg, "mpo": _mpo, "png": _png, "tiff": _tiff, "bigtiff": _bigtiff, "webp": _webp,
    "gif": _gif, "jp2": _jp2,
    "bmp": lambda random: _saved(_photo(random, "RGB"), "BMP"),
    "avif": lambda random: _saved(_photo(random, "RGB"), "AVIF", speed=10),
}  # fmt: skip


def _flip(data: bytes, random: Random, reach: int | None = None) -> bytes:
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 12))):
        at = int(random.integers(0, min(len(data), reach or len(data))))
        changed[at] = int(random.integers(0, 256))
    return bytes(changed)


def _flip_head(data: bytes, random: Random) -> bytes:
    return _flip(data, random, 400)


def _flip_bit(data: bytes, random: Random) -> bytes:
    at = int(random.integers(0, len(data)))
    return data[:at] + bytes([data[at] ^ 1 << int(random.integers(8))]) + data[at + 1 :]


def _flip_tail(data: bytes, random: Random) -> bytes:
    return _flip(data[::-1], random, 200)[::-1]


def _truncate(data: bytes, random: Random) -> bytes:
    return data[: int(random.integers(1, len(data)))]


def _truncate_little(data: bytes, random: Random) -> bytes:
    return data[: -int(random.integers(1, 30))] or data


def _splice(data: bytes, random: Random) -> bytes:
    a, b, c = sorted(int(n) for n in random.integers(0, len(data) + 1, 3))
    return [data[:a] + data[b:], data[:b] + data[a:b] + data[b:], data[:a] + data[b:c] + data[b:]][
        int(random.integers(3))
    ]


def _insert(data: bytes, random: Random) -> bytes:
    at = int(random.integers(0, len(data)))
    return data[:at] + random.bytes(int(random.integers(1, 40))) + data[at:]


def _odd_number(data: bytes, random: Random) -> bytes:
    at = int(random.integers(0, min(600, len(data))))
    number = random.choice([0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF])
    return data[:at] + struct.pack(str(random.choice(["<I", ">I"])), int(number)) + data[at + 4 :]


def _flip_xmp(data: bytes, random: Random) -> bytes:
    """Change an older packet: letters for letters, so that some of it stays XML."""
    at = data.find(b"<x:xmpmeta")
    if at < 0:
        return _flip(data, random)
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        place = at + int(random.integers(0, min(1000, len(data) - at)))
        changed[place] = int(random.choice(list(b"aeZ09<>/\"' :=&\xff")))
    return bytes(changed)


_MUTATIONS = (
    _flip_xmp,
    _flip, _flip_head, _flip_bit, _flip_tail, _truncate, _truncate_little, _splice, _insert,
    _odd_number,
)  # fmt: skip
