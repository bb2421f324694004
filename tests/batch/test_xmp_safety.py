"""Embedding never damages a photo: it is replaced by an equal copy, or left byte for byte."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightwords.batch import xmp
from sightwords.batch.xmp import (
    ChangedError,
    EmbedError,
    description_of,
    embed,
    packet,
    readback,
    write_xmp,
)
from sightwords.cli.main import main
from sightwords.errors import SandboxError

pyexiv2 = pytest.importorskip("pyexiv2")

CAPTION = "a red image"
FOREIGN = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Other"><rdf:RDF '
    b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" '
    b'xmlns:o="http://example.org/own/" o:note="mine"><o:deep rdf:parseType="Resource">'
    b"<o:inner><rdf:Bag><rdf:li>a</rdf:li></rdf:Bag></o:inner></o:deep></rdf:Description>"
    b"</rdf:RDF></x:xmpmeta>"
)


def _grey16() -> Image.Image:
    return Image.fromarray(np.arange(0, 48000, 40, dtype=np.uint16).reshape(30, 40))


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _red(kind: str, **options: Any) -> bytes:
    return _saved(Image.new("RGB", (40, 30), "red"), kind, **options)


def _frames(kind: str, **options: Any) -> bytes:
    more = [Image.new("RGB", (40, 30), colour) for colour in ("blue", "green")]
    return _red(kind, save_all=True, append_images=more, **options)


def _decoded(data: bytes) -> list[tuple[str, tuple[int, int], str]]:
    found = []
    with Image.open(io.BytesIO(data)) as image:
        for frame in range(getattr(image, "n_frames", 1)):
            image.seek(frame)
            image.load()
            digest = hashlib.sha256(image.tobytes()).hexdigest()
            found.append((image.mode, image.size, digest))
    return found


def _tiff(counts: tuple[int, ...] | None) -> bytes:
    """Uncompressed grey of 40 x 30 in two strips, with these StripByteCounts."""
    fields = [(256, 40), (257, 30), (258, 8), (259, 1), (262, 1), (277, 1), (278, 15)]
    entries = [struct.pack("<HHII", tag, 3, 1, value) for tag, value in fields]
    tail = 8 + 2 + 12 * (len(fields) + 1 + (counts is not None)) + 4
    entries.insert(5, struct.pack("<HHII", 273, 4, 2, tail))
    if counts is not None:
        entries.append(struct.pack("<HHII", 279, 4, 2, tail + 8))
    start = tail + (16 if counts is not None else 8)
    head = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries))
    arrays = struct.pack("<II", start, start + 600) + struct.pack("<II", *(counts or (0, 0)))
    return head + b"".join(entries) + b"\0\0\0\0" + arrays[: start - tail] + bytes(range(240)) * 5


WHOLE: dict[str, Callable[[], bytes]] = {
    "grey16.jp2": lambda: _saved(_grey16(), "JPEG2000"),
    "trailer.png": lambda: _red("PNG") + b"behind IEND",
    "motion.jpg": lambda: _red("JPEG") + b"\0\0\0\x18ftypmp42" + b"video" * 100,
    "trailer.webp": lambda: _red("WEBP") + b"behind",
    "frames.webp": lambda: _frames("WEBP", duration=70, loop=2),
    "frames.png": lambda: _frames("PNG", duration=70, loop=2),
    "frames.jpg": lambda: _frames("MPO"),
    "pages.tif": lambda: _frames("TIFF"),
    "strips.tif": lambda: _tiff((600, 600)),
    "grey16.tif": lambda: _saved(_grey16(), "TIFF"),
    "lzw.tif": lambda: _red("TIFF", compression="tiff_lzw"),
    "alpha.webp": lambda: _saved(Image.new("RGBA", (9, 7), "#ff000080"), "WEBP", lossless=True),
    "cmyk.jpg": lambda: _saved(Image.new("CMYK", (9, 7), (9, 8, 7, 6)), "JPEG", xmp=FOREIGN),
}


@pytest.mark.parametrize("name", WHOLE)
def test_all_else_in_a_photo_stays(tmp_path: Path, name: str) -> None:
    path, data = tmp_path / name, WHOLE[name]()
    path.write_bytes(data)
    assert embed(path, path, CAPTION, ["red"], keep=True) is None
    new = path.read_bytes()
    assert description_of(path) == CAPTION
    assert _decoded(new) == _decoded(data)
    if path.suffix == ".tif":
        assert sum(a != b for a, b in zip(data, new, strict=False)) <= 8
    else:
        assert data[-22:-10] in new
    if "trailer" in name or "motion" in name:
        assert new.endswith(data[-6:])
    assert embed(path, path, CAPTION, ["red"], keep=True) is None  # as after a kill
    assert path.read_bytes() == new


def _c2pa_png() -> bytes:
    chunk = b"caBX" + b"\0" * 8
    whole = struct.pack(">I", 8) + chunk + struct.pack(">I", zlib.crc32(chunk))
    data = _red("PNG")
    return data[:33] + whole + data[33:]


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "missing.tif": (lambda: _tiff(None), "strips or tiles"),
    "zero.tif": (lambda: _tiff((0, 0)), "strips or tiles"),
    "huge.tif": (lambda: _tiff((600, 10**6)), "strips or tiles"),
    "sensor.tif": (lambda: _tiff((600, 600)).replace(struct.pack("<HHII", 262, 3, 1, 1),
                                                     struct.pack("<HHII", 262, 3, 1, 32803)),
                   "raw file"),
    "big.tif": (lambda: _red("TIFF", big_tiff=True), "JPEG, PNG"),
    "cut.jpg": (lambda: _red("JPEG")[:-20], "damaged"),
    "cut.png": (lambda: _red("PNG")[:-20], "damaged"),
    "cut.webp": (lambda: _red("WEBP")[:-5], "damaged"),
    "a.gif": (lambda: _red("GIF"), "JPEG, PNG"),
    "a.bmp": (lambda: _red("BMP"), "JPEG, PNG"),
    "a.avif": (lambda: _red("AVIF"), "JPEG, PNG"),
    "signed.png": (_c2pa_png, "C2PA"),
    "xmp.jpg": (lambda: _red("JPEG", xmp=b"<x>not RDF"), "XMP"),
    "meta.jpg": (lambda: _red("JPEG", xmp=FOREIGN.replace(b"ns:meta", b"ns:mesa")),
                 "rdf:RDF"),
    "head.jpg": (lambda: _red("JPEG", xmp=FOREIGN).replace(b"com/xap/1.0", b"comqxap/1.0"),
                 "XMP"),
    "two.jpg": (lambda: _red("JPEG", xmp=FOREIGN)[:2] + _red("JPEG", xmp=FOREIGN)[2:20]
                + _segment(FOREIGN) + _red("JPEG", xmp=FOREIGN)[20:], "XMP packets"),
}  # fmt: skip


def _segment(content: bytes) -> bytes:
    body = b"http://ns.adobe.com/xap/1.0/\0" + content
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


@pytest.mark.parametrize("name", REFUSED)
def test_a_photo_at_risk_is_left_byte_for_byte(tmp_path: Path, name: str) -> None:
    make, reason = REFUSED[name]
    path, data = tmp_path / name, make()
    path.write_bytes(data)
    before = path.stat()
    for target in (path, tmp_path / "out" / name):
        with pytest.raises(EmbedError, match=f"{name}: .*{reason}"):
            embed(path, target, CAPTION, ["red"], keep=True)
    assert path.read_bytes() == data
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [name]


def test_a_preview_behind_the_image_is_not_lost(tmp_path: Path) -> None:
    """EXIF that gives the place of a second JPEG would be wrong once something is inserted."""
    preview, exif = _red("JPEG"), Image.Exif()
    exif[0x010F] = "12345678"
    data = _red("JPEG", exif=exif)
    base = data.index(b"Exif\0\0") + 6
    data = data.replace(b"12345678", struct.pack("<I", len(data) - base) + b"5678") + preview
    (path := tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(EmbedError, match="preview"):
        embed(path, path, CAPTION, [], keep=True)
    assert path.read_bytes() == data


def test_foreign_xmp_keeps_its_bytes() -> None:
    changed = packet.with_caption(FOREIGN, CAPTION, ["red"])
    head, tail = FOREIGN.split(b"</rdf:RDF>")
    assert changed.startswith(head)
    assert changed.endswith(tail)
    assert packet.with_caption(changed, CAPTION, ["red"]) == changed
    again = packet.with_caption(changed, "a blue image", ["red", "blue"])
    assert again.startswith(head)
    assert CAPTION.encode() not in again
    assert again.count(b"<rdf:li>red</rdf:li>") == again.count(b"<rdf:li>blue</rdf:li>") == 1


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photos" / "a.jpg"
    path.parent.mkdir()
    path.write_bytes(_red("JPEG"))
    return path


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_owner_mode_times_and_attributes_stay(photo: Path) -> None:
    photo.chmod(0o2640)
    if os.geteuid() == 0:
        os.chown(photo, 12345, 12346)
        photo.chmod(0o2640)
    os.utime(photo, ns=(1_000_000_000_123_456_789, 1_100_000_000_123_456_789))
    named = getattr(os, "setxattr", None)
    try:
        if named:
            named(photo, "user.rating", b"five")
    except OSError:
        named = None
    before = photo.stat()
    assert embed(photo, photo, CAPTION, ["red"], keep=True) is None
    after = photo.stat()
    assert after.st_ino != before.st_ino
    for name in ("st_uid", "st_gid", "st_mode", "st_atime_ns", "st_mtime_ns"):
        assert getattr(after, name) == getattr(before, name)
    if named:
        assert os.getxattr(photo, "user.rating") == b"five"


def test_hard_links_are_not_separated(photo: Path, tmp_path: Path) -> None:
    (tmp_path / "b.jpg").hardlink_to(photo)
    data = photo.read_bytes()
    with pytest.raises(EmbedError, match="2 hard links"):
        embed(photo, photo, CAPTION, [], keep=True)
    assert photo.samefile(tmp_path / "b.jpg")
    assert photo.read_bytes() == data


def test_a_symbolic_link_stays_and_its_photo_changes(photo: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jpg"
    link.symlink_to(photo)
    assert embed(link, link, CAPTION, [], keep=True) is None
    assert link.is_symlink()
    assert description_of(photo) == CAPTION


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_read_only_photo_is_left(photo: Path) -> None:
    data = photo.read_bytes()
    photo.chmod(0o444)
    with pytest.raises(EmbedError, match="read-only"):
        embed(photo, photo, CAPTION, [], keep=True)
    assert photo.read_bytes() == data
    assert stat.S_IMODE(photo.stat().st_mode) == 0o444


def test_a_change_in_between_is_not_lost(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = _red("JPEG", quality=20)

    def meanwhile(*_: object) -> None:
        photo.write_bytes(theirs)

    monkeypatch.setattr(xmp, "keep_attributes", meanwhile)
    with pytest.raises(ChangedError, match=r"a\.jpg"):
        embed(photo, photo, CAPTION, [], keep=True)
    assert photo.read_bytes() == theirs
    assert [p.name for p in photo.parent.iterdir()] == ["a.jpg"]


def test_another_photo_than_the_captioned_one_is_left(photo: Path) -> None:
    data = photo.read_bytes()
    captioned = hashlib.sha256(b"another photo").hexdigest()
    with pytest.raises(ChangedError, match=r"a\.jpg"):
        embed(photo, photo, CAPTION, [], keep=True, sha256=captioned)
    assert photo.read_bytes() == data
    same = hashlib.sha256(data).hexdigest()
    assert embed(photo, photo, CAPTION, [], keep=True, sha256=same) is None


@pytest.mark.parametrize("differing", ["pixels", "EXIF"])
def test_a_copy_that_reads_back_otherwise_is_thrown_away(
    photo: Path, monkeypatch: pytest.MonkeyPatch, differing: str
) -> None:
    data, real = photo.read_bytes(), readback.contents_of

    def read(path: Path, names: tuple[str, ...]) -> dict[str, str]:
        found = real(path, names)
        return found if path == photo else {**found, differing: "another"}

    monkeypatch.setattr(xmp, "contents_of", read)
    with pytest.raises(EmbedError, match=f"{differing}"):
        embed(photo, photo, CAPTION, [], keep=True)
    assert photo.read_bytes() == data
    assert [p.name for p in photo.parent.iterdir()] == ["a.jpg"]


def test_contents_differ_where_a_photo_does(photo: Path) -> None:
    names = ("JPEG", "MPO")
    before = readback.contents_of(photo, names)
    with pyexiv2.Image(str(photo)) as file:
        file.modify_exif({"Exif.Image.Artist": "Ada"})
        file.modify_iptc({"Iptc.Application2.Byline": ["Ada"]})
        file.modify_xmp({"Xmp.xmp.Rating": "4"})
        file.modify_comment("hello")
    after = readback.contents_of(photo, names)
    differing = {name for name in before if before[name] != after[name]}
    assert differing >= {"EXIF", "IPTC", "other XMP", "comment"}
    assert before["pixels"] == after["pixels"]


def test_a_library_that_crashes_costs_one_photo(
    photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise SandboxError("crash", "the helper process ended by SIGSEGV")

    data = photo.read_bytes()
    monkeypatch.setattr("sightwords.sandbox.run_apart", crash)
    with pytest.raises(EmbedError, match="SIGSEGV"):
        embed(photo, photo, CAPTION, [], keep=True)
    assert photo.read_bytes() == data


def _batch(photos: Path, bundle: Path, *options: str) -> int:
    arguments = ["batch", photos, "--out", photos, "--bundle", bundle, "--workers", 1]
    return main([*map(str, arguments), "--format", "embedded", "--in-place", *options])


def _errors(photos: Path) -> dict[str, str]:
    lines = (photos / "sightwords-errors.jsonl").read_text().splitlines()
    return {record["id"]: record["error"] for record in map(json.loads, lines)}


def test_a_batch_goes_on_and_writes_sidecars(photo: Path, tiny_bundle: Path) -> None:
    photos = photo.parent
    (photos / "b.bmp").write_bytes(_red("BMP"))
    (photos / "c.jpg").write_bytes(_red("JPEG"))
    (photos / "d.jpg").hardlink_to(photos / "c.jpg")
    (photos / "e.jpg").write_bytes(_red("JPEG"))
    (photos / "e.jpg").chmod(0o444)
    (photos / "f.png").write_bytes(_red("PNG"))
    left = {name: (photos / name).read_bytes() for name in ("b.bmp", "c.jpg", "d.jpg", "e.jpg")}
    assert _batch(photos, tiny_bundle) == 1
    assert {name: (photos / name).read_bytes() for name in left} == left
    errors = _errors(photos)
    assert errors.keys() == left.keys()
    for name, error in errors.items():
        sidecar = (photos / name).with_suffix(".xmp")
        assert str(sidecar) in error
        assert description_of(sidecar) is not None
    assert description_of(photo) is not None
    assert description_of(photos / "f.png") is not None
    assert not list(photos.glob(".*"))


def test_missing_captions_are_those_that_a_sidecar_lacks_too(
    tmp_path: Path, tiny_bundle: Path
) -> None:
    (tmp_path / "b.bmp").write_bytes(_red("BMP"))
    assert _batch(tmp_path, tiny_bundle, "--overwrite", "missing") == 1
    written = (tmp_path / "b.xmp").read_bytes()
    assert _batch(tmp_path, tiny_bundle, "--overwrite", "missing") == 0
    assert (tmp_path / "b.xmp").read_bytes() == written


def test_a_sidecar_of_the_users_is_kept(tmp_path: Path, tiny_bundle: Path) -> None:
    (tmp_path / "b.bmp").write_bytes(_red("BMP"))
    assert write_xmp(tmp_path / "b.xmp", "our door in May", ["door"], keep=True) is None
    before = (tmp_path / "b.xmp").read_bytes()
    assert _batch(tmp_path, tiny_bundle) == 1
    assert (tmp_path / "b.xmp").read_bytes() == before
    assert str(tmp_path / "b.xmp") in _errors(tmp_path)["b.bmp"]
    assert _batch(tmp_path, tiny_bundle, "--overwrite", "always") == 1
    assert description_of(tmp_path / "b.xmp") != "our door in May"


def test_a_run_that_was_stopped_at_its_end_lists_the_same(
    photo: Path, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = photo.parent
    (photos / "b.bmp").write_bytes(_red("BMP"))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sightwords.batch.run.write_errors", stop)
        assert _batch(photos, tiny_bundle, "--overwrite", "missing") == 130
    assert description_of(photos / "b.xmp") is not None  # written, but not listed yet
    assert _batch(photos, tiny_bundle, "--overwrite", "missing", "--resume") == 1
    assert _errors(photos).keys() == {"b.bmp"}
    assert {p.name for p in photos.iterdir()} == {
        "a.jpg", "b.bmp", "b.xmp", "sightwords-errors.jsonl",
    }  # fmt: skip


def test_in_place_looks_at_all_targets_first(photo: Path, tiny_bundle: Path) -> None:
    outside = photo.parent.parent / "outside.jpg"
    shutil.copyfile(photo, outside)
    names = photo.parent / "list.txt"
    names.write_text(f"{photo.name}\n{outside}\n")
    before = photo.read_bytes()
    options = ["--format", "embedded", "--in-place", "--bundle", str(tiny_bundle)]
    assert main(["batch", str(names), "--out", str(photo.parent), *options]) == 1
    assert photo.read_bytes() == before
    assert not (photo.parent / ".sightwords-batch.part").exists()
