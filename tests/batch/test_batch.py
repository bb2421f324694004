"""Batches: sources, formats, existing output, and runs that are killed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sightwords.batch import BatchOptions, Progress, format_of, open_source, run_batch
from sightwords.batch.journal import Journal
from sightwords.batch.outputs import read_results, write_results
from sightwords.batch.workers import captioned
from sightwords.cli.main import main
from sightwords.errors import CorpusError, InputError
from sightwords.pipeline import load
from sightwords.samples import sample_paths

COLOURS = ("red", "lime", "blue", "white", "black")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve photos in two folders, and a file that is not a photo."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for number in range(12):
        image = Image.new("RGB", (20, 20), COLOURS[number % 5])
        image.paste((number * 20, 0, 0), (0, 0, 10, 10))
        place = folder / "more" if number % 3 == 0 else folder
        image.save(place / f"{number:02d}.png")
    (folder / "05-bad.jpg").write_bytes(b"no image")
    (folder / "notes.txt").write_text("not a photograph")
    (folder / ".hidden.png").write_bytes(b"hidden")
    return folder


def _batch(photos: Path | str, out: Path, bundle: Path, *options: object) -> int:
    arguments = ["batch", photos, "--out", out, "--bundle", bundle, "--workers", 1, *options]
    return main([str(argument) for argument in arguments])


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_folder_becomes_jsonl_in_order_with_errors_aside(
    photos: Path, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "captions.jsonl"
    assert _batch(photos, out, tiny_bundle) == 1
    records = _lines(out)
    ids = [str(record["id"]) for record in records]
    assert ids == sorted(ids)
    assert len(ids) == 12
    assert "more/00.png" in ids
    assert set(records[0]) == {"id", "caption", "confidence", "words"}
    [error] = _lines(tmp_path / "captions.jsonl.errors.jsonl")
    assert error["id"] == "05-bad.jpg"
    assert "05-bad.jpg" in str(error["error"])
    assert not (tmp_path / "captions.jsonl.part").exists()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "13 photo" in captured.err
    assert "1 failed" in captured.err


def test_captions_are_those_of_the_captioner(
    photos: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    _batch(photos, tmp_path / "c.jsonl", tiny_bundle, "--n-best", 2)
    captioner = load(tiny_bundle, backend="numpy")
    for record in _lines(tmp_path / "c.jsonl"):
        assert record["caption"] == captioner(photos / str(record["id"])).text
        assert len(record["n_best"]) == 2  # type: ignore[arg-type]


def test_csv_coco_and_text(photos: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    (photos / "05-bad.jpg").unlink()
    assert _batch(photos, tmp_path / "c.jsonl", tiny_bundle) == 0
    known = {str(r["id"]): str(r["caption"]) for r in _lines(tmp_path / "c.jsonl")}
    assert _batch(photos, tmp_path / "c.csv", tiny_bundle) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text())))
    assert {row["id"]: row["caption"] for row in rows} == known
    assert _batch(photos, tmp_path / "c.json", tiny_bundle) == 0
    results = json.loads((tmp_path / "c.json").read_text())
    assert {r["image_id"]: r["caption"] for r in results}[7] == known["07.png"]
    assert all(set(r) == {"image_id", "caption"} for r in results)
    assert _batch(photos, tmp_path / "texts", tiny_bundle) == 0
    texts = {p.relative_to(tmp_path / "texts").as_posix(): p.read_text()
             for p in (tmp_path / "texts").rglob("*") if p.is_file()}  # fmt: skip
    assert texts.pop(".sightwords-sums").count("sha256") == 12
    assert texts == {k.replace(".png", ".txt"): f"{v}\n" for k, v in known.items()}


def test_lists_shards_and_coco_files(photos: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("photos/01.png\n\nphotos/more/00.png\nphotos/01.png\n")
    source = open_source(str(tmp_path / "list.txt"))
    assert [item.id for item in source.read()] == ["photos/01.png", "photos/more/00.png"]
    with tarfile.open(tmp_path / "s-00.tar", "w") as shard:
        shard.add(photos / "01.png", "7.png")
        shard.add(photos / "02.png", "8.png")
    for pattern in ("s-00.tar", "s-{00..00}.tar"):
        source = open_source(str(tmp_path / pattern))
        assert source.count == 2
        assert [item.id for item in source.read()] == ["7", "8"]
    document = {"images": [{"id": 7, "file_name": "01.png"}], "annotations": []}
    (tmp_path / "captions.json").write_text(json.dumps(document))
    source = open_source(str(tmp_path / "captions.json"), images=str(photos))
    assert [(item.id, Path(item.image.location).name) for item in source.read()] == [
        ("000000000007", "01.png")
    ]
    (tmp_path / "tokens.txt").write_text("01.png#0\tA red square .\n")  # a corpus, not a list
    source = open_source(str(tmp_path / "tokens.txt"), images=str(photos))
    assert [Path(item.image.location).name for item in source.read()] == ["01.png"]
    assert _batch(str(tmp_path / "s-00.tar"), tmp_path / "r.json", tiny_bundle) == 0
    assert [r["image_id"] for r in json.loads((tmp_path / "r.json").read_text())] == [7, 8]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="empty"):
        open_source(str(tmp_path / "empty"))


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_names_of_any_letters_or_bytes(tiny_bundle: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    names = [os.fsdecode(b"caf\xe9.png"), 'Größe, "zwei"\n犬.png']
    for name in names:
        Image.new("RGB", (8, 8), "red").save(photos / name, format="PNG")
    for out in ("c.jsonl", "c.csv", "c.json", "texts"):
        assert _batch(photos, tmp_path / out, tiny_bundle) == 0
    assert names[1] in [record["id"] for record in _lines(tmp_path / "c.jsonl")]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text("utf-8"), newline="")))
    assert names[1] in [row["id"] for row in rows]
    assert {p.name for p in (tmp_path / "texts").iterdir()} == {
        ".sightwords-sums", *(name.replace(".png", ".txt") for name in names)
    }  # fmt: skip


def test_a_folder_that_is_shut_is_named(
    photos: Path,
    tiny_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (photos / "shut").mkdir()
    look = os.scandir

    def refuse(path: Any) -> Any:  # whoever runs the tests: root may look into any
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", refuse)
    options = ("--bundle", str(tiny_bundle), "--workers", "1")
    assert main(["batch", str(photos), "--out", str(tmp_path / "c.csv"), *options]) == 1
    said = capsys.readouterr().err
    assert "shut: " in said
    assert "Permission denied" in said
    assert (tmp_path / "c.csv").exists()  # the others are captioned


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "-"], "--out -"),
        (["--out", "c.csv", "--n-best", "3"], "--n-best"),
        (["--out", "texts", "--n-best", "3"], "--n-best"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["batch", str(sample_paths()[0]), "--workers", "1", *options])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [["caption", "-"], ["batch", "-", "--out", "captions.jsonl"]])
def test_a_photograph_on_standard_input_is_no_list(
    verb: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    photograph = io.BytesIO(sample_paths()[0].read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(photograph, encoding="utf-8"))
    assert main(verb) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1  # not a line for each line feed in it
    assert "sightwords caption /dev/stdin" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_journal_names_itself_on_a_full_disk() -> None:
    path = Path("/dev/full")
    journal = Journal(path, path.open("r+b"))
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        journal.add({"id": "a", "caption": "a dog"})
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        journal.close()


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])  # Windows' mark of UTF-8
def test_a_list_of_any_bytes_on_standard_input(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(start + b"caf\xe9.png\nb.png\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    assert [item.id for item in open_source("-").read()] == ["caf\udce9.png", "b.png"]


def test_a_pattern_of_photographs_is_no_corpus(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    for pattern in ("*.png", "{a,b}.png"):
        with pytest.raises(CorpusError, match=re.escape(pattern)):
            open_source(str(tmp_path / pattern))
    with pytest.raises(CorpusError, match=r"c\.png"):
        open_source(str(tmp_path / "c.png"))


def test_two_images_with_one_coco_number_are_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / "9.png")
    options = BatchOptions(
        out=tmp_path / "r.json", format="coco", bundle=str(tiny_bundle), workers=1
    )
    with pytest.raises(InputError, match=r"image 9 .*a/9\.png"):
        run_batch(open_source(str(tmp_path / "photos")), options)


def test_nothing_is_overwritten_unasked(
    photos: Path, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.jsonl"
    out.write_text("mine\n")
    assert _batch(photos, out, tiny_bundle) == 1
    assert str(out) in capsys.readouterr().err
    assert _batch(photos, out, tiny_bundle, "--overwrite", "missing") == 1
    assert str(out) in capsys.readouterr().err
    assert out.read_text() == "mine\n"
    assert _batch(photos, out, tiny_bundle, "--overwrite", "always") == 1
    assert len(_lines(out)) == 12
    before = out.stat().st_mtime_ns
    assert _batch(photos, out, tiny_bundle, "--resume") == 0  # nothing to do
    assert out.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.csv"])
def test_missing_captions_are_added_and_the_others_kept(
    photos: Path, tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    out, whole = tmp_path / name, tmp_path / f"whole-{name}"
    (photos / "05-bad.jpg").unlink()
    late = photos / "03a.png"
    _batch(photos, out, tiny_bundle)
    before = out.read_text()
    assert "dog" in before
    out.write_text(before.replace("dog", "hund"))  # to tell what was kept
    Image.new("RGB", (9, 9), "blue").save(late)
    assert _batch(photos, out, tiny_bundle, "--overwrite", "missing") == 0
    _batch(photos, whole, tiny_bundle)
    kept, new_run = out.read_text().splitlines(), whole.read_text().splitlines()
    assert len(kept) == len(new_run) == len(before.splitlines()) + 1
    new = [line for line in kept if "03a" in line]
    assert new == [line for line in new_run if "03a" in line]
    assert [line.replace("hund", "dog") for line in kept] == new_run


@pytest.mark.parametrize("ending", ["jsonl", "csv", "json"])
def test_names_with_odd_letters_are_found_again(tmp_path: Path, ending: str) -> None:
    kind, out = format_of(f"a.{ending}"), tmp_path / f"captions.{ending}"
    names = ["a\u2028b.jpg", "a\x85b.jpg", "a\x0cb.jpg", "a\r\nb.jpg", 'a"b,c.jpg']
    records = [{"id": n, "caption": "a dog", "confidence": 0.5, "words": []} for n in names]
    write_results(out, kind, records)
    assert [record["id"] for record in read_results(out, kind)] == names


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.csv"])
def test_captions_of_photographs_that_went_away_are_kept(
    photos: Path, tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    (photos / "05-bad.jpg").unlink()
    _batch(photos, out, tiny_bundle)
    before = out.read_text().splitlines()
    (photos / "01.png").unlink()
    (photos / "00.png").write_bytes((photos / "02.png").read_bytes())
    (photos / "more" / "00.png").unlink()
    assert _batch(photos, out, tiny_bundle, "--overwrite", "missing") == 0
    after = out.read_text().splitlines()
    bare = [line.strip("[],") for line in after]
    kept = {line.strip("[],") for line in before}
    if name == "c.json":  # image 0 is image 0 in either folder, but shows something else by now
        assert len(after) == len(before)
        changed = kept - set(bare)
        assert [json.loads(line)["image_id"] for line in changed] == [0]
    else:
        assert len(after) == len(before) + 1
        assert kept <= set(bare)


def test_text_files_that_are_there(photos: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "texts"
    out.mkdir()
    (out / "01.txt").write_text("mine\n")
    (photos / "05-bad.jpg").unlink()
    assert _batch(photos, out, tiny_bundle, "--overwrite", "missing") == 0
    assert (out / "01.txt").read_text() == "mine\n"
    assert len(list(out.rglob("*.txt"))) == 12
    assert _batch(photos, out, tiny_bundle) == 1  # never: the others are what it would write
    [error] = _lines(out / "sightwords-errors.jsonl")
    assert "01.txt" in str(error["error"])
    assert (out / "01.txt").read_text() == "mine\n"
    assert _batch(photos, out, tiny_bundle, "--overwrite", "always") == 0
    assert (out / "01.txt").read_text() != "mine\n"
    assert not (out / "sightwords-errors.jsonl").exists()


def test_an_unfinished_run_is_not_forgotten(
    photos: Path, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.jsonl"
    _stopped_after(3, photos, out, tiny_bundle)
    assert _batch(photos, out, tiny_bundle) == 1
    assert "c.jsonl.part" in capsys.readouterr().err
    assert _batch(photos, out, tiny_bundle, "--resume", "--forbid", "dog") == 1
    assert "forbid = []" in capsys.readouterr().err
    assert _batch(photos, out, tiny_bundle, "--resume") == 1  # one photo is bad
    assert "10 photo" in capsys.readouterr().err  # of 13


def test_a_misspelt_forbidden_word_is_named_once_for_all_processes(
    photos: Path,
    tiny_bundle: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = ("--workers", 5, "--forbid", "gren,red")
    assert _batch(photos, tmp_path / "c.jsonl", tiny_bundle, *options) == 1  # one photo is bad
    said = caplog.text + capfd.readouterr().err  # of this process, and of those that it started
    assert said.count("'gren'") == said.count("'green'") == 1
    assert all("red" not in str(line["caption"]).split() for line in _lines(tmp_path / "c.jsonl"))


@pytest.mark.skipif(os.name == "nt", reason="no such locks there")
def test_two_batches_do_not_write_one_journal(
    photos: Path, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.jsonl"
    options = BatchOptions(out=out, bundle=str(tiny_bundle), workers=1)
    said: list[str] = []

    def another(progress: Progress) -> None:
        if progress.done == 2:
            for options in (("--resume",), ("--overwrite", "always")):
                assert _batch(photos, out, tiny_bundle, *options) == 1
                said.append(capsys.readouterr().err)

    run_batch(open_source(str(photos)), options, on_progress=another)
    assert [text.count("c.jsonl.part") for text in said] == [1, 1]
    whole = tmp_path / "whole.jsonl"
    _batch(photos, whole, tiny_bundle)
    assert out.read_bytes() == whole.read_bytes()


class _StopError(Exception):
    pass


def _stopped_after(count: int, photos: Path, out: Path, bundle: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done == count:
            raise _StopError

    options = BatchOptions(out=out, bundle=str(bundle), workers=1)
    with pytest.raises(_StopError):
        run_batch(open_source(str(photos)), options, on_progress=stop)


def test_a_journal_cut_at_any_byte_ends_in_the_same_output(
    photos: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.jsonl"
    _batch(photos, whole, tiny_bundle)
    out = tmp_path / "c.jsonl"
    _stopped_after(4, photos, out, tiny_bundle)
    journal = out.with_name("c.jsonl.part")
    data = journal.read_bytes()
    first = data.index(b"\n") + 1
    make = partial(load, tiny_bundle, threads=1, n_best=1, backend="numpy")
    captioner = make()
    options = BatchOptions(out=out, bundle=str(tiny_bundle), workers=1, resume=True)
    for cut in {first, first + 1, len(data) - 1, len(data), *range(first, len(data), 97)}:
        out.unlink(missing_ok=True)
        journal.write_bytes(data[:cut])
        run_batch(open_source(str(photos)), options, make=lambda: captioner)
        assert out.read_bytes() == whole.read_bytes(), f"cut at byte {cut}"


def test_a_foreign_or_spoilt_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.part"
    path.write_text("no journal\n")
    with pytest.raises(InputError, match=r"x\.part"):
        Journal.resume(path, {})
    Journal.start(path, {"a": 1}).close()
    with pytest.raises(InputError, match=r"a = 1.* 2"):
        Journal.resume(path, {"a": 2})
    path.write_bytes(path.read_bytes().replace(b'"a": 1', b'"a": 3'))
    with pytest.raises(InputError, match=r"x\.part"):
        Journal.resume(path, {"a": 3})


def test_every_flipped_bit_of_a_journal_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.part"
    journal = Journal.start(path, {"a": 1})
    records = [{"id": name, "sha256": name * 64, "caption": "a dog"} for name in "abc"]
    for record in records:
        journal.add(record)
    journal.close()
    data = path.read_bytes()
    for bit in range(8 * (data.index(b"\n") + 1), 8 * len(data), 3):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        journal = Journal.resume(path, {"a": 1})
        assert len(journal) in (1, 2)  # two where a line end was hit
        assert all(record in records for record in journal.records(journal))
        journal.close()


@pytest.mark.parametrize(
    "line", [b"rubbish\n", b"[1, 2]\n", b'{"id": 7}\n', b'"text"\n', b"[" * 100_000 + b"\n", b"\n"]
)
def test_a_line_that_is_no_record_is_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x.part"
    journal = Journal.start(path, {})
    journal.add({"id": "a", "sha256": None, "caption": "a dog"})
    journal.close()
    summed = line[:-1] + b"\t%08x\n" % zlib.crc32(line[:-1])
    path.write_bytes(path.read_bytes() + line + summed)
    assert list(Journal.resume(path, {})) == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="no such locks")
def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.part"
    first = Journal.start(path, {})
    first.add({"id": "a", "caption": "a dog"})
    for begin in (Journal.resume, Journal.start):
        with pytest.raises(InputError, match=r"x\.part"):
            begin(path, {})
    first.add({"id": "b", "error": "b: is damaged"})
    first.close()
    second = Journal.resume(path, {})
    assert list(second) == ["a", "b"]
    second.remove()


def test_a_required_word_that_is_unknown_is_named_by_any_number_of_processes(
    photos: Path, tiny_bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for workers in ("1", "2"):
        options = ["--bundle", str(tiny_bundle), "--workers", workers, "--require", "zebra"]
        assert main(["batch", str(photos), "--out", str(tmp_path / "c.jsonl"), *options]) == 1
        said = capfd.readouterr().err
        assert "'zebra'" in said
        assert "Traceback" not in said
    assert [path.name for path in tmp_path.glob("c.jsonl*")] == []


def test_processes_give_the_records_of_one(photos: Path, tiny_bundle: Path) -> None:
    make = partial(load, tiny_bundle, threads=1, n_best=1, backend="numpy")
    items = list(open_source(str(photos)).read())
    one = list(captioned(items, make, workers=1))
    two = list(captioned(items, make, workers=2))
    assert one == two


def _command(photos: Path, out: Path, bundle: Path, workers: int) -> list[str]:
    arguments = ["batch", photos, "--out", out, "--bundle", bundle, "--workers", workers]
    return [sys.executable, "-m", "sightwords", *map(str, arguments), "--resume"]


def _journal_lines(out: Path) -> int:
    try:
        return out.with_name(f"{out.name}.part").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def _killed_once(command: list[str], out: Path, after: int) -> bool:
    """Start it, kill it without warning when it has added some lines; whether it was too late."""
    start = _journal_lines(out)
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=False)
    while run.poll() is None and _journal_lines(out) < start + after:
        time.sleep(0.001)
    late = run.poll() is not None
    run.send_signal(signal.SIGKILL)
    run.wait()
    return late


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_again_and_again_it_ends_as_an_unbroken_run(
    tiny_bundle: Path, tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(60):
        image = Image.new("RGB", (20, 20), COLOURS[number % 5])
        image.paste((number * 4, 0, 0), (0, 0, 10, 10))
        image.save(folder / f"{number:02d}.png")
    (folder / "30-bad.png").write_bytes(b"no image")
    whole, out = tmp_path / "whole.jsonl", tmp_path / "c.jsonl"
    assert _batch(folder, whole, tiny_bundle) == 1
    command = _command(folder, out, tiny_bundle, workers)
    kills = 0
    for after in (1, 9, 17):
        if _killed_once(command, out, after):
            break
        kills += 1
    assert kills >= 2
    assert not out.exists()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # one image is bad
    assert out.read_bytes() == whole.read_bytes()
    errors = "c.jsonl.errors.jsonl", "whole.jsonl.errors.jsonl"
    assert (tmp_path / errors[0]).read_text() == (tmp_path / errors[1]).read_text()


def _children(pid: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            yield int(stat.parent.name)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_workers_do_not_outlive_a_killed_parent(
    photos: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    for number in range(200):
        Image.new("RGB", (8, 8), COLOURS[number % 5]).save(photos / f"x{number}.png")
    out = tmp_path / "c.jsonl"
    command = _command(photos, out, tiny_bundle, 2)
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while run.poll() is None and _journal_lines(out) < 3:
        time.sleep(0.005)
    assert run.poll() is None
    workers = list(_children(run.pid))
    assert len(workers) >= 2
    run.kill()
    run.wait()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
