"""What a file looks like that is not an image: the second half of an error message."""

from __future__ import annotations

_HEIF_BRANDS = (
    b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1",
)  # fmt: skip

_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "a PDF; export the page as PNG or JPEG"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x1f\x8b", "gzip-compressed; unpack it first"),
    (b"%!PS", "PostScript; export it as PNG"),
    (b"version https://git-lfs", "a Git LFS pointer, not the image itself; run git lfs pull"),
    (b"{", "JSON text, not an image; give the image file it names"),
)

_DAMAGED: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG", "PNG"),
    (b"GIF8", "GIF"),
    (b"RIFF", "WebP"),
    (b"BM", "BMP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
)


def is_heif(head: bytes) -> bool:
    """Whether a file starts like the HEIC photos of phones."""
    return head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS


def describe(head: bytes, *, reads_heif: bool = False) -> str:
    r"""What was found, from the first bytes of a file Pillow could not open, and what to do.

    >>> describe(b"")
    'an empty file (0 bytes); copy or download it again'
    >>> describe(b"\xff\xd8\xff\xe0")
    'starts like a JPEG, but its header is damaged or cut off; copy or download it again'
    """
    if not head:
        return "an empty file (0 bytes); copy or download it again"
    if head[4:8] == b"ftyp":
        return _describe_iso_media(head[8:12], reads_heif)
    for magic, kind in _DAMAGED:
        if head.startswith(magic):
            again = "copy or download it again"
            return f"starts like a {kind}, but its header is damaged or cut off; {again}"
    for magic, advice in _OTHERS:
        if head.startswith(magic):
            return f"is {advice}"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in text:
        return "is an SVG drawing; export it as PNG"
    if text.startswith((b"<!doctype html", b"<html")):
        return "is a web page, not an image (a failed download?); fetch the image itself"
    return f"is not a readable image (it starts with {head[:8]!r}); use JPEG, PNG, WebP or AVIF"


def _describe_iso_media(brand: bytes, reads_heif: bool) -> str:
    if brand in _HEIF_BRANDS and reads_heif:
        return "starts like a HEIC, but is damaged or cut off; copy or download it again"
    if brand in _HEIF_BRANDS:
        return (
            "is a HEIC photo, which needs pillow-heif; install it with: pip install "
            "'sightwords[heic]', or convert the photo to JPEG"
        )
    if brand in (b"avif", b"avis"):
        return "starts like an AVIF, but is damaged or cut off; copy or download it again"
    return "is a video or another ISO media file; give a photo (or extract a frame)"


def read_as_a_whole(head: bytes) -> bool:
    """Whether a decoder takes the whole file into memory: WebP, AVIF and HEIC."""
    return head[4:8] == b"ftyp" or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def webp_size(head: bytes) -> tuple[int, int] | None:
    r"""Width and height that a WebP file claims; None for other files and damaged headers.

    >>> webp_size(b"RIFF....WEBPVP8X" + bytes(4) + bytes(4) + b"\x0f\x00\x00\x07\x00\x00")
    (16, 8)
    """
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP" or len(head) < 30:
        return None
    kind, body = head[12:16], head[20:]
    if kind == b"VP8X":
        width, height = int.from_bytes(body[4:7], "little"), int.from_bytes(body[7:10], "little")
        return width + 1, height + 1
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
        return width & 0x3FFF, height & 0x3FFF
    return None
