"""A caption belongs to a photo's bytes, not to its name: sources that change between the runs."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from sightwords.batch import BatchOptions, Progress, format_of, open_source, run_batch
from sightwords.batch.outputs import read_results, write_results
from sightwords.batch.sums import read_sums
from sightwords.cli.main import main
from sightwords.errors import InputError
from sightwords.files import atomic_path, remove_partials

NAMES = [f"{number:02d}.png" for number in range(8)]
FILES = ["c.jsonl", "c.csv", "c.json", "c.parquet", "texts"]
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kill_batch.py"


def _source(folder: Path, colour: str) -> Path:
    folder.mkdir()
    for number, name in enumerate(NAMES):
        image = Image.new("RGB", (20, 20), colour)
        image.putpixel((number, 0), (9, 9, 9))
        image.save(folder / name)
    return folder


def _run(source: Path, out: Path, bundle: Path, *more: str) -> int:
    command = ["batch", str(source), "--out", str(out), "--bundle", str(bundle), "--workers", "1"]
    return main([*command, *more])


def _captions(out: Path) -> dict[str, str]:
    """By the number of each photo; none may come twice."""
    if out.is_dir():
        texts = sorted(out.glob("*.txt"))
        found = [(path.stem, path.read_text(encoding="utf-8").strip()) for path in texts]
    else:
        records = read_results(out, format_of(out.name))
        found = [(f"{int(str(r['id'])[:2]):02d}", r["caption"]) for r in records]
    assert len(found) == len(dict(found))
    return dict(found)


def _wanted(source: Path, bundle: Path, tmp_path: Path) -> dict[str, str]:
    out = tmp_path / "wanted.jsonl"
    assert _run(source, out, bundle, "--overwrite", "always") == 0
    return _captions(out)


class _StopError(Exception):
    pass


def _stopped(source: Path, out: Path, bundle: Path, after: int = 5) -> None:
    def stop(progress: Progress) -> None:
        if progress.done == after:
            raise _StopError

    kind = format_of(out.name)
    options = BatchOptions(out=out, bundle=str(bundle), workers=1, format=kind)
    with pytest.raises(_StopError):
        run_batch(open_source(str(source)), options, on_progress=stop)


@pytest.mark.parametrize("name", FILES)
def test_another_source_of_the_same_names_gets_its_own_captions(
    tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    cats, rockets = _source(tmp_path / "cats", "red"), _source(tmp_path / "rockets", "blue")
    out = tmp_path / name
    wanted = _wanted(rockets, tiny_bundle, tmp_path)
    assert wanted != _wanted(cats, tiny_bundle, tmp_path)
    _stopped(cats, out, tiny_bundle)
    assert _run(rockets, out, tiny_bundle, "--resume") == 0
    assert _captions(out) == wanted


@pytest.mark.parametrize("name", FILES)
def test_photos_replaced_swapped_removed_and_added_between_the_runs(
    tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    source, out = _source(tmp_path / "photos", "red"), tmp_path / name
    _stopped(source, out, tiny_bundle)
    for photo in NAMES[:2]:
        Image.new("RGB", (20, 20), "blue").save(source / photo)
    (source / NAMES[1]).rename(source / "held")
    (source / NAMES[7]).rename(source / NAMES[1])
    (source / "held").rename(source / NAMES[7])
    (source / NAMES[3]).unlink()
    Image.new("RGB", (20, 20), "lime").save(source / "09.png")
    assert _run(source, out, tiny_bundle, "--resume") == 0
    found, wanted = _captions(out), _wanted(source, tiny_bundle, tmp_path)
    if name == "texts":  # the text of a photo that is gone lies where it was written
        found.pop("03")
    assert found == wanted


@pytest.mark.parametrize("name", FILES)
def test_a_photo_replaced_since_is_captioned_again_by_missing(
    tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    source, out = _source(tmp_path / "photos", "red"), tmp_path / name
    assert _run(source, out, tiny_bundle) == 0
    before = _captions(out)
    Image.new("RGB", (20, 20), "blue").save(source / NAMES[2])
    assert _run(source, out, tiny_bundle, "--overwrite", "missing") == 0
    after = _captions(out)
    assert after == _wanted(source, tiny_bundle, tmp_path)
    assert [key for key in before if before[key] != after[key]] == ["02"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
@pytest.mark.parametrize("name", FILES[:4])
def test_a_name_of_any_bytes_is_found_again_by_missing(
    tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    photos, out = tmp_path / "photos", tmp_path / name
    photos.mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(photos / os.fsdecode(b"caf\xe9.png"))
    assert _run(photos, out, tiny_bundle) == 0
    before = out.read_bytes()
    assert _run(photos, out, tiny_bundle, "--overwrite", "missing") == 0
    assert out.read_bytes() == before


def test_a_finished_output_is_not_called_whole_for_other_photos(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = _source(tmp_path / "photos", "red"), tmp_path / "c.jsonl"
    assert _run(source, out, tiny_bundle) == 0
    before = out.stat().st_mtime_ns
    assert _run(source, out, tiny_bundle, "--resume") == 0  # nothing to do
    assert out.stat().st_mtime_ns == before
    Image.new("RGB", (20, 20), "blue").save(source / NAMES[2])
    assert _run(source, out, tiny_bundle, "--resume") == 1
    assert "02.png" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--resume"], ["--overwrite", "missing"]])
def test_without_its_sums_a_file_is_not_added_to(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    source, out = _source(tmp_path / "photos", "red"), tmp_path / "c.csv"
    assert _run(source, out, tiny_bundle) == 0
    sums = tmp_path / ".c.csv.sums"
    damaged = bytearray(sums.read_bytes())
    damaged[-20] ^= 1
    sums.write_bytes(damaged)
    assert _run(source, out, tiny_bundle, *option) == 1
    assert f"{sums}:9: " in capsys.readouterr().err
    sums.unlink()
    assert _run(source, out, tiny_bundle, *option) == 1
    assert f"{sums}: " in capsys.readouterr().err


def test_a_text_of_the_users_own_is_left_as_it_is(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = _source(tmp_path / "photos", "red"), tmp_path / "texts"
    _stopped(source, out, tiny_bundle)
    (out / "01.txt").write_text("mine\n")
    for photo in NAMES[:2]:
        Image.new("RGB", (20, 20), "blue").save(source / photo)
    assert _run(source, out, tiny_bundle, "--resume") == 1
    assert (out / "01.txt").read_text() == "mine\n"
    [error] = (out / "sightwords-errors.jsonl").read_text().splitlines()
    assert "01.txt" in error
    assert (out / "00.txt").read_text() != (out / "02.txt").read_text()


def test_in_place_after_a_stop_ends_as_an_unbroken_run(tiny_bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyexiv2")
    folders = [_source(tmp_path / name, "red") for name in ("broken", "whole")]
    for folder in folders:
        (folder / "04-bad.png").write_bytes(b"no image")
    broken, whole = folders
    options = BatchOptions(
        out=broken, bundle=str(tiny_bundle), workers=1, format="embedded", in_place=True
    )

    def stop(progress: Progress) -> None:
        if progress.done == 6:
            raise _StopError

    with pytest.raises(_StopError):
        run_batch(open_source(str(broken)), options, on_progress=stop)
    for folder in folders:
        assert _run(folder, folder, tiny_bundle, "--format", "embedded", "--in-place", "--resume")
    errors = [(f / "sightwords-errors.jsonl").read_text() for f in folders]
    assert errors[0].replace("broken", "whole") == errors[1]
    assert {p.name: p.read_bytes() for p in broken.glob("*.png")} == {
        p.name: p.read_bytes() for p in whole.glob("*.png")
    }


def test_what_a_killed_run_left_of_its_files_is_removed(tiny_bundle: Path, tmp_path: Path) -> None:
    source = _source(tmp_path / "photos", "red")
    for name in ("c.jsonl", "texts"):
        out = tmp_path / name
        _stopped(source, out, tiny_bundle)
        kept = tmp_path / ".other-abcdefgh.partial.jsonl"
        places = [out, kept] if name == "c.jsonl" else [out / "03.txt"]
        for place in places:
            left = place if place == kept else place.with_name(
                f".{place.stem}-abc_efg7.partial{place.suffix}"
            )  # fmt: skip
            left.write_text("half")
        if name == "texts":  # the photo of that text is gone by now
            (source / NAMES[3]).unlink()
        assert _run(source, out, tiny_bundle, "--resume") == 0
    found = [path.name for path in tmp_path.rglob(".*") if "partial" in path.name]
    assert found == [".other-abcdefgh.partial.jsonl"]


def test_partial_files_are_known_by_the_names_that_are_given(tmp_path: Path) -> None:
    target = tmp_path / "a-b.json"
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        temporary.with_name(f"x{temporary.name}").write_text("a user's own")
        copy = temporary.read_bytes()
    temporary.write_bytes(copy)  # as a kill would leave it
    remove_partials([tmp_path / "b.json"])
    assert temporary.exists()
    remove_partials([target, tmp_path / "no-such-folder" / "a.json"])
    assert not temporary.exists()
    assert target.exists()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("text", ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "'=a", "''-a", "'a", "a"])
def test_no_cell_of_a_csv_is_a_formula(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.csv"
    record = {"id": text, "caption": text, "confidence": 0.5, "words": []}
    write_results(path, "csv", [record])
    with path.open(encoding="utf-8", newline="") as lines:
        [row] = csv.DictReader(lines)
    assert row["id"][0] not in "=+-@\t\r"
    assert row["caption"][0] not in "=+-@\t\r"
    assert list(read_results(path, "csv")) == [record]


@pytest.mark.parametrize(
    "line", ["[1]", '{"id": 5, "caption": "a"}', '{"id": "a"}', "[" * 100_000, '{"id": "a", '
             '"caption": "a", "words": 3}', '{"id": "a", "caption": "b", "confidence": "high"}']
)  # fmt: skip
def test_results_that_no_batch_has_written_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"c\.jsonl"):
        list(read_results(path, "jsonl"))


def test_sums_are_those_of_the_files(tiny_bundle: Path, tmp_path: Path) -> None:
    import hashlib

    source, out = _source(tmp_path / "photos", "red"), tmp_path / "c.jsonl"
    (source / "gone.png").symlink_to("nowhere.png")
    (tmp_path / "list.txt").write_text("\n".join([*NAMES, "gone.png"]))
    assert _run(tmp_path / "list.txt", out, tiny_bundle, "--images", str(source)) == 1
    wanted = {name: hashlib.sha256((source / name).read_bytes()).hexdigest() for name in NAMES}
    assert read_sums(tmp_path / ".c.jsonl.sums") == {**wanted, "gone.png": None}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_with_changes_between_the_runs(tiny_bundle: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), "--kills", "4", "--bundle", str(tiny_bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout[done.stdout.index("{") :])
    assert counts["kills"] >= 4
    assert counts["photos checked"] >= 7
