from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from sightwords.cli.data import parse_size
from sightwords.cli.main import main
from sightwords.errors import InputError


def photo(size: tuple[int, int], kind: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two good photographs, a truncated one, a missing one and an empty caption."""
    (tmp_path / "a.jpg").write_bytes(photo((640, 480)))
    (tmp_path / "b.png").write_bytes(photo((30, 40), "PNG"))
    (tmp_path / "cut.jpg").write_bytes(photo((640, 480))[:900])
    rows = ["image,caption", "a.jpg,A dog runs.", "a.jpg,Two dogs.", "b.png,A cat.", "b.png,"]
    rows += ["cut.jpg,Cut off.", "gone.jpg,Gone."]
    path = tmp_path / "photos.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_inspect_prints_counts_words_images_and_problems(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "inspect", str(manifest)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "manifest (a header of 2 columns)" in out
    for line in (
        "images              3",
        "captions            4",
        "captions each       2 with 1, 1 with 2",
        "tokens a caption    mean 2.25, min 2, 25% 2, 50% 2, 75% 2, 95% 3, max 3 (longest: a)",
        "vocabulary          8 words in 9 tokens",
        "coverage            100.00% by the 1000 most frequent",
        "image formats       JPEG 1, PNG 1; 30 x 40 to 640 x 480 px",
        "problems            3",
        "  missing-image 1: put the image there",
        "  unreadable-image 1: ",
        f"    {manifest}:5: caption 1 of id 'b' is empty",
    ):
        assert line in out, line
    assert "cut.jpg: a damaged or truncated JPEG" in out


def test_inspect_json_and_a_full_list_of_problems(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "bad.jsonl"
    assert main(["data", "inspect", str(manifest), "--json", "--set", f"problems={listed}"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["images"], report["captions"], report["vocabulary"]) == (3, 4, 8)
    assert report["sources"][0]["format"] == "manifest"
    assert report["largest_image"] == [640, 480]
    assert report["problems"]["empty-caption"]["count"] == 1
    problems = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
    assert {p["kind"] for p in problems} == {"missing-image", "unreadable-image", "empty-caption"}
    assert all(p["where"] and p["found"] and p["remedy"] for p in problems)


def test_strict_ends_at_the_first_problem(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "inspect", str(manifest), "--set", "strict=true"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sightwords: error: ")
    assert err.count("\n") == 1


def test_unchecked_images_are_not_opened(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "inspect", str(manifest), "--set", "check_images=false"]) == 0
    assert "unreadable-image" not in capsys.readouterr().out


def test_nothing_to_read_still_names_the_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.csv"
    path.write_text("picture,words\na,b\n", encoding="utf-8")
    assert main(["data", "inspect", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "missing-columns 1" in out
    assert "holds no captioned image" in err


def test_unknown_source_lists_what_is_supported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.xyz").write_text("what", encoding="utf-8")
    assert main(["data", "inspect", str(tmp_path / "m.xyz")]) == 1
    err = capsys.readouterr().err
    assert "webdataset shards" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("kind", "ending"), [("avif", "avif"), ("jpeg", "jpg")])
def test_convert_shrinks_turns_upright_and_says_what_it_left_out(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, ending: str
) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn
    (tmp_path / "a.jpg").write_bytes(photo((640, 480), exif=turned))
    out = tmp_path / "out"
    command = ["data", "convert", str(manifest), "--out", str(out)]
    assert main([*command, "--format", kind, "--max-side", "64"]) == 0
    told, err = capsys.readouterr()
    assert told == f"{out / 'photos-00000.tar'}\t2\n"
    assert "unreadable-image 1" in err
    with tarfile.open(out / "photos-00000.tar") as tar:
        assert tar.getnames() == [f"a.{ending}", "a.json", f"b.{ending}", "b.json"]
        large, small = (tar.extractfile(f"{name}.{ending}") for name in "ab")
        meta = tar.extractfile("a.json")
        assert large is not None
        assert small is not None
        assert meta is not None
        assert Image.open(large).size == (48, 64)
        assert Image.open(small).size == (30, 40)  # never enlarged
        assert json.loads(meta.read())["original_size"] == [480, 640]
    first = (out / "photos-00000.tar").read_bytes()
    assert main([*command, "--format", kind, "--max-side", "64"]) == 0
    assert capsys.readouterr().out.endswith("\tkept\n")
    assert main([*command, "--format", kind, "--max-side", "32"]) == 1
    other = ["data", "convert", str(manifest), "--out", str(tmp_path / "again")]
    assert main([*other, "--format", kind, "--max-side", "64"]) == 0
    assert (tmp_path / "again" / "photos-00000.tar").read_bytes() == first


def test_convert_keeps_bytes_by_default(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.png").rename(tmp_path / "b.dat")  # endings come from the bytes
    manifest.write_text(manifest.read_text().replace("b.png", "b.dat"), encoding="utf-8")
    assert (
        main(["data", "convert", str(manifest), "--out", str(tmp_path / "o"), "--set", "name=x"])
        == 0
    )
    with tarfile.open(tmp_path / "o" / "x-00000.tar") as tar:
        file = tar.extractfile("b.png")
        assert file is not None
        assert file.read() == (tmp_path / "b.dat").read_bytes()
    capsys.readouterr()
    assert main(["data", "inspect", str(tmp_path / "o")]) == 0
    assert "problems            0" in capsys.readouterr().out


def test_convert_refuses_what_makes_no_sense(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["data", "convert", str(manifest), "--out", str(tmp_path), "--max-side", "9"])
    assert "--format" in capsys.readouterr().err
    (tmp_path / "lm.txt").write_text("A dog.\n", encoding="utf-8")
    assert main(["data", "convert", str(tmp_path / "lm.txt"), "--out", str(tmp_path / "o")]) == 1
    assert "no image could be written" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "M", "0", "-1M", "5T", "many", "nan", "inf"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="shard_size"):
        parse_size(text)


@pytest.mark.parametrize("verb", [[], ["inspect"], ["convert"]])
def test_help_has_an_example(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["data", *verb, "--help"])
    assert "example" in capsys.readouterr().out


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """400 images of 0.5 MB stream through in far less than they weigh together."""
    data = photo((16, 12)) + b"\0" * 500_000
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for number in range(400):
            for name, content in ((f"{number}.jpg", data), (f"{number}.txt", b"A dog.")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    code = (
        "import resource, sys; from sightwords.cli.main import main;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "main(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    pytest.importorskip("resource")
    command = [sys.executable, "-c", code, "data", "inspect", str(tmp_path / "s.tar")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    grown_kib = int(output.splitlines()[-1])
    assert grown_kib < 120_000, "the whole is 200,000 KiB"


REAL = os.environ.get("SIGHTWORDS_DATA")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "examples", "captions"),
    [
        ("coco-val.jsonl.gz", 4392, 21961),
        ("coco-extra-sentences.txt.gz", 119_808, 119_808),
        ("pascal1k-00.tar", 1000, 4998),
        ("flickr8k-judgements/Flickr8k.token.txt.gz", 8092, 40_460),
    ],
)
def test_real_files(
    name: str, examples: int, captions: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(REAL or "") / name
    assert main(["data", "inspect", str(path), "--json", "--set", "check_images=false"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["examples"], report["captions"]) == (examples, captions)
    assert report["problems"] == {}


def test_gzipped_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(b"id,caption\n1,A dog.\n"))
    assert main(["data", "inspect", str(tmp_path / "m.csv.gz")]) == 0
    assert "texts without image 1" in capsys.readouterr().out
