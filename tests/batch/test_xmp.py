"""XMP sidecars and embedded XMP, read back by Exiv2 and compared by exiftool.

Photos that could be damaged are in test_xmp_safety.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from sightwords.batch.xmp import EmbedError, description_of, embed, write_xmp
from sightwords.cli.main import main

pyexiv2 = pytest.importorskip("pyexiv2")
needs_exiftool = pytest.mark.skipif(
    shutil.which("exiftool") is None, reason="exiftool is not installed"
)

MINE = {
    "Exif.Image.Artist": "Ada",
    "Exif.Photo.UserComment": "a comment",
    "Exif.GPSInfo.GPSLatitudeRef": "N",
    "Exif.GPSInfo.GPSLatitude": "52/1 31/1 0/1",
}


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    """With EXIF, a place, IPTC, a rating, a keyword and a description in German only."""
    path = tmp_path / "photos" / "red.jpg"
    path.parent.mkdir()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.new("RGB", (40, 30), "red").save(path, icc_profile=profile, comment=b"hello")
    with pyexiv2.Image(str(path)) as file:
        file.modify_exif(MINE)
        file.modify_iptc({"Iptc.Application2.Byline": ["Ada"]})
        file.modify_xmp({
            "Xmp.xmp.Rating": "4",
            "Xmp.dc.subject": ["garden"],
            "Xmp.dc.description": {'lang="de-DE"': "ein rotes Bild"},
        })  # fmt: skip
    return path


def _pixels(path: Path) -> str:
    with Image.open(path) as image:
        return hashlib.sha256(np.asarray(image).tobytes()).hexdigest()


def _exiftool(path: Path) -> dict[str, Any]:
    """Everything exiftool sees, by group and name, but for the file's own dates and size."""
    command = ["exiftool", "-json", "-G1", "-a", "-struct", str(path)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    [found] = json.loads(done.stdout)
    return {k: v for k, v in found.items() if not k.startswith(("System:", "SourceFile"))}


def _xmp(path: Path) -> dict[str, Any]:
    with pyexiv2.Image(str(path)) as file:
        found: dict[str, Any] = file.read_xmp()
        return found


@needs_exiftool
def test_embedding_changes_nothing_else(photograph: Path) -> None:
    before, pixels = _exiftool(photograph), _pixels(photograph)
    caption = "ein größeres Bild & <mehr>"
    assert embed(photograph, photograph, caption, ["red", "garden"], keep=False) is None
    after = _exiftool(photograph)
    assert _pixels(photograph) == pixels
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    assert changed <= {
        "XMP-dc:Description", "XMP-dc:Subject", "XMP-iptcCore:AltTextAccessibility",
        "XMP-x:XMPToolkit",
    }  # fmt: skip
    assert after["XMP-dc:Subject"] == ["garden", "red"]
    # Structured output has every language: the photographer's German one is still there.
    assert caption in str(after["XMP-dc:Description"])
    with pyexiv2.Image(str(photograph)) as file:
        packet = file.read_raw_xmp()
        assert file.read_exif()["Exif.GPSInfo.GPSLatitude"] == "52/1 31/1 0/1"
    assert "ein rotes Bild" in packet
    assert "<rdf:Bag>" in packet
    assert caption.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in packet


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
def test_every_kind_of_photograph(tmp_path: Path, ending: str) -> None:
    path, copy = tmp_path / f"a.{ending}", tmp_path / "out" / f"a.{ending}"
    Image.new("RGB", (40, 30), "red").save(path)
    data = path.read_bytes()
    assert embed(path, copy, "a red image", ["red"], keep=True) is None
    assert path.read_bytes() == data
    assert description_of(copy) == "a red image"
    # What the page copies as alt text, too: screen readers pause at the full stop.
    assert _xmp(copy)["Xmp.iptc.AltTextAccessibility"] == {'lang="x-default"': "A red image."}
    assert _pixels(copy) == _pixels(path)


def test_formats_that_hold_no_xmp_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.avif"
    Image.new("RGB", (40, 30), "red").save(path)
    with pytest.raises(EmbedError, match=r"a\.avif: .*JPEG"):
        embed(path, tmp_path / "b.avif", "a red image", [], keep=True)
    assert {p.name for p in tmp_path.iterdir()} == {"a.avif"}


def test_a_description_is_kept_unless_told(tmp_path: Path) -> None:
    sidecar = tmp_path / "red.xmp"
    assert write_xmp(sidecar, "mine", ["garden"], keep=True) is None
    assert write_xmp(sidecar, "mine", ["garden"], keep=True) is None  # as after a kill
    wrong = write_xmp(sidecar, "yours", ["red"], keep=True)
    assert wrong is not None
    assert description_of(sidecar) == "mine"
    with pyexiv2.Image(str(sidecar)) as file:
        file.modify_xmp({"Xmp.xmp.Rating": "4"})
    assert write_xmp(sidecar, "yours", ["red"], keep=False) is None
    found = _xmp(sidecar)
    assert found["Xmp.xmp.Rating"] == "4"
    assert found["Xmp.dc.subject"] == ["garden", "red"]
    assert description_of(sidecar) == "yours"


@pytest.mark.parametrize("kind", ["alt text", "iptc"])
def test_other_words_of_a_persons_are_a_description_too(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "red.jpg"
    Image.new("RGB", (40, 30), "red").save(path)
    with pyexiv2.Image(str(path)) as file:
        if kind == "iptc":
            file.modify_iptc({"Iptc.Application2.Caption": "Grün"}, "latin-1")
        else:
            said = {'lang="x-default"': "Our door in May"}
            file.modify_xmp({"Xmp.iptc.AltTextAccessibility": said})
    before = path.read_bytes()
    assert description_of(path) == ("Grün" if kind == "iptc" else "Our door in May")
    wrong = embed(path, path, "a red door", ["red"], keep=True)
    assert wrong is not None
    assert path.read_bytes() == before
    assert embed(path, path, "a red door", ["red"], keep=False) is None
    assert description_of(path) == "a red door"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("kind", ["xmp", "embedded"])
def test_a_name_that_is_not_utf8_is_captioned_as_others(
    tmp_path: Path, tiny_bundle: Path, kind: str
) -> None:
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    Image.new("RGB", (40, 30), "red").save(photos / "z.png")
    try:
        shutil.copyfile(photos / "z.png", photos / os.fsdecode(b"a\xff.png"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    assert _batch(photos, out, tiny_bundle, "--format", kind) == 0
    ending = b".xmp" if kind == "xmp" else b".png"
    for stem in (b"z", b"a\xff"):
        assert description_of(out / os.fsdecode(stem + ending)) is not None


def _batch(photos: Path, out: Path, bundle: Path, *options: object) -> int:
    arguments = ["batch", photos, "--out", out, "--bundle", bundle, "--workers", 1, *options]
    return main([str(argument) for argument in arguments])


def test_a_copy_is_made_again_of_a_photo_that_changed(tiny_bundle: Path, tmp_path: Path) -> None:
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    Image.new("RGB", (40, 30), "red").save(photos / "a.png")
    assert _batch(photos, out, tiny_bundle, "--format", "embedded") == 0
    before = (out / "a.png").read_bytes()
    options = ("--format", "embedded", "--overwrite")
    assert _batch(photos, out, tiny_bundle, *options, "missing") == 0
    assert (out / "a.png").read_bytes() == before  # it has a caption: left as it is
    for overwrite, colour, other in (("missing", "blue", "red"), ("always", "red", "blue")):
        Image.new("RGB", (40, 30), colour).save(photos / "a.png")
        assert _batch(photos, out, tiny_bundle, *options, overwrite) == 0
        assert _pixels(out / "a.png") == _pixels(photos / "a.png")
        assert colour in _xmp(out / "a.png")["Xmp.dc.subject"]
        assert other not in _xmp(out / "a.png")["Xmp.dc.subject"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
def test_names_of_any_bytes(tmp_path: Path) -> None:
    photo = tmp_path / "a\udcff.jpg"
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").rename(photo)
    sidecar = photo.with_suffix(".xmp")
    for _ in range(2):  # the second time it is there
        assert write_xmp(sidecar, "a red image", ["red"], keep=True) is None
        assert embed(photo, photo, "a red image", ["red"], keep=True) is None
    assert description_of(sidecar) == description_of(photo) == "a red image"
    folder = tmp_path / "b\udcff"
    folder.mkdir()
    assert write_xmp(folder / "a.xmp", "a red image", [], keep=True) is None
    assert description_of(folder / "a.xmp") == "a red image"


def test_on_the_command_line(
    photograph: Path, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, out = photograph.parent, tmp_path / "out"
    (photos / "more").mkdir()
    Image.new("RGB", (30, 30), "blue").save(photos / "more" / "sky.png")
    before = {p: p.read_bytes() for p in photos.rglob("*") if p.is_file()}
    assert _batch(photos, out, tiny_bundle, "--format", "xmp") == 0
    assert description_of(out / "more" / "sky.xmp") is not None
    assert "blue" in _xmp(out / "more" / "sky.xmp")["Xmp.dc.subject"]
    copies = tmp_path / "copies"
    assert _batch(photos, copies, tiny_bundle, "--format", "embedded") == 1
    assert "red.jpg" in (copies / "sightwords-errors.jsonl").read_text()  # described in German
    assert description_of(copies / "more" / "sky.png") is not None
    assert {p: p.read_bytes() for p in before} == before
    capsys.readouterr()
    assert _batch(photos, photos, tiny_bundle, "--format", "embedded") == 1
    assert "--in-place" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in before} == before
    options = ("--format", "embedded", "--in-place", "--overwrite", "missing")
    assert _batch(photos, photos, tiny_bundle, *options) == 0
    assert photograph.read_bytes() == before[photograph]
    assert description_of(photos / "more" / "sky.png") is not None
    names = {p.name for p in photos.rglob("*") if p.is_file()}
    assert names == {"red.jpg", "sky.png"}  # nothing else is left behind
    with pytest.raises(SystemExit):
        _batch(photos, out, tiny_bundle, "--in-place", "--format", "csv")
