"""Whatever one photo does, the others get their captions: errors, deaths, hangs, odd names."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import sightwords
from sightwords.batch import open_source, workers
from sightwords.batch.run import _same_system
from sightwords.batch.sources import Item
from sightwords.batch.workers import captioned
from sightwords.cli.main import main
from sightwords.errors import BundleError, ImageError
from sightwords.types import Caption, ImageRef


def _caption(image: ImageRef) -> Caption:
    """What a captioner does with photos whose names say what happens."""
    name = image.location
    if "kill" in name:
        os.kill(os.getpid(), signal.SIGKILL)
    if "hang" in name:
        time.sleep(600)
    if "memory" in name:
        raise MemoryError
    if "deep" in name:
        raise RecursionError("maximum recursion depth exceeded")
    if "odd" in name:
        raise ZeroDivisionError("division by zero")
    if "bad" in name:
        raise ImageError(f"{name}: is damaged")
    return Caption(f"a {name}", 0.5, (), ())


def _make() -> Any:
    return _caption


def _items(*names: str) -> list[Item]:
    return [Item(name, ImageRef(name, data=name.encode())) for name in names]


@pytest.mark.parametrize("count", [1, 2])
def test_any_error_is_that_of_one_photo(count: int) -> None:
    names = ["a", "memory", "b", "deep", "odd", "bad", "c"]
    records = list(captioned(_items(*names), _make, workers=count))
    assert [record["id"] for record in records] == names
    assert [record["id"] for record in records if "caption" in record] == ["a", "b", "c"]
    errors = {record["id"]: record["error"] for record in records if "error" in record}
    assert all(error.startswith(f"{name}: ") for name, error in errors.items())
    assert "enough memory" in errors["memory"]  # the reason, not the error of another fault
    assert "RecursionError" in errors["deep"]
    assert errors["bad"] == "bad: is damaged"


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_photo_that_kills_its_worker_is_listed_and_the_others_go_on() -> None:
    names = [f"{number}-{'kill' if number in (7, 30) else 'photo'}" for number in range(40)]
    records = list(captioned(_items(*names), _make, workers=2))
    assert [record["id"] for record in records] == names
    failed = [record for record in records if "error" in record]
    assert [record["id"] for record in failed] == ["7-kill", "30-kill"]
    assert failed[0]["error"].startswith("7-kill: ")
    assert "SIGKILL" in failed[0]["error"]


def test_a_photo_that_hangs_its_worker_is_listed_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "GRACE_SECONDS", 1.0)
    names = ["a", "hang", "b", "c"]
    records = list(captioned(_items(*names), _make, workers=2, max_seconds=0.5))
    assert [record["id"] for record in records] == names
    [failed] = [record for record in records if "error" in record]
    assert failed["id"] == "hang"
    assert "2 seconds" in failed["error"]


def test_workers_that_cannot_start_are_an_error(
    tiny_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(workers, "WorkerProcess", broken)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    out = tmp_path / "c.jsonl"
    command = ["batch", str(tmp_path), "--out", str(out), "--bundle", str(tiny_bundle)]
    assert main([*command, "--workers", "2"]) == 1
    assert "Broken pipe" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_no_name_reaches_a_terminal_as_it_is(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    names = ["a\x1b[2Jb.png", "c\nsightwords: error: d.png", "e\u202egnp.png", "f\x9b2J.png"]
    for name in names:
        (photos / name).write_bytes(b"no image")
        main(["caption", str(photos / name), "--bundle", str(tiny_bundle)])
        main(["words", str(photos / name)])
    main(["batch", str(photos / names[0]), "--out", str(tmp_path / "x\x1b.y"), "--workers", "1"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert not set(captured.err) & set("\x1b\x9b\u202e")
    lines = captured.err.splitlines()
    assert all(line.startswith("sightwords: ") for line in lines)
    assert not any(line.startswith("sightwords: error: d.png") for line in lines)


@pytest.mark.parametrize("verb", ["caption", "words"])
def test_an_error_of_one_photo_does_not_end_the_command(
    verb: str,
    tiny_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from sightwords.words.detector import Detector

    detect = Detector.__call__

    def fragile(self: Detector, image: Any, **more: Any) -> Any:
        if image.size == (20, 9):
            raise MemoryError
        return detect(self, image, **more)

    monkeypatch.setattr(Detector, "__call__", fragile)
    paths = [tmp_path / name for name in ("a.png", "b.png", "c.png")]
    for path, size in zip(paths, ((20, 20), (20, 9), (20, 20)), strict=True):
        Image.new("RGB", size, "red").save(path)
    where = ["--bundle", str(tiny_bundle)]
    if verb == "words":
        where = ["--detector", str(tiny_bundle / "words")]
    assert main([verb, *map(str, paths), *where]) == 1
    captured = capsys.readouterr()
    assert [line.partition(": ")[0] for line in captured.out.splitlines()] == [
        str(paths[0]),
        str(paths[2]),
    ]
    assert f"sightwords: error: {paths[1]}: " in captured.err
    assert "enough memory" in captured.err


def test_a_nul_in_a_name_is_an_error_like_any_other(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    for verb in (["caption"], ["words"], ["batch", "--out", "x.jsonl"], ["data", "inspect"]):
        with pytest.raises(SystemExit) as ended:
            main([*verb, "a\0b.png"])
        assert ended.value.code == 2
        assert "NUL" in capsys.readouterr().err
    (tmp_path / "list.txt").write_text("a.png\nb\0.png\n")
    (tmp_path / "list.csv").write_text("image,caption\na.png,a dog\nb\0.png,a cat\n")
    images = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b\0.png"}]
    (tmp_path / "captions_x.json").write_text(json.dumps({"images": images, "annotations": []}))
    for name in ("list.txt", "list.csv", "captions_x.json"):
        out = tmp_path / f"{name}.jsonl"
        command = ["batch", str(tmp_path / name), "--out", str(out), "--images", str(tmp_path)]
        assert main([*command, "--bundle", str(tiny_bundle), "--workers", "1"]) == 1
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert "\0" not in said
        assert len(out.read_text().splitlines()) == 1


class _Server(BaseHTTPRequestHandler):
    photo = b""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.path == "/away.png":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        data = self.photo * (1000 if self.path == "/large.png" else 1)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.path == "/slow.png":
            time.sleep(3)
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    Image.new("RGB", (20, 20), "red").save(tmp_path / "one.png")
    _Server.photo = (tmp_path / "one.png").read_bytes()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def _batch(source: Path, out: Path, bundle: Path, *more: str) -> dict[str, str]:
    """The errors of a batch, by id."""
    command = ["batch", str(source), "--out", str(out), "--bundle", str(bundle), "--workers", "1"]
    main([*command, *more, "--overwrite", "always"])
    errors = out.with_name(f"{out.name}.errors.jsonl")
    lines = errors.read_text().splitlines() if errors.exists() else []
    return {record["id"]: record["error"] for record in map(json.loads, lines)}


def test_urls_in_lists_are_fetched_only_if_allowed(
    server: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    url, out = f"{server}/a.png", tmp_path / "c.jsonl"
    inside = {"images": [{"id": 1, "file_name": url}], "annotations": []}
    (tmp_path / "list.txt").write_text(f"{url}\n")
    (tmp_path / "list.csv").write_text(f"image,caption\n{url},a dog\n")
    (tmp_path / "captions_x.json").write_text(json.dumps(inside))
    for name in ("list.txt", "list.csv", "captions_x.json"):
        options = ("--images", str(tmp_path)) if name.endswith(".json") else ()
        [error] = _batch(tmp_path / name, out, tiny_bundle, *options).values()
        assert error.startswith(f"{url}: ")
        assert "--allow-urls" in error
        assert _batch(tmp_path / name, out, tiny_bundle, *options, "--allow-urls") == {}
        assert len(out.read_text().splitlines()) == 1


def test_what_is_fetched_is_bounded(
    server: str, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightwords.images.source.DOWNLOAD_BYTES", 50_000)
    local = (tmp_path / "one.png").as_uri()
    paths = ["/a.png", "/large.png", "/slow.png", "/away.png"]
    names = [*(f"{server}{path}" for path in paths), local, "memory://a.png"]
    (tmp_path / "list.txt").write_text("\n".join(names))
    out = tmp_path / "c.jsonl"
    options = ("--allow-urls", "--set", "max_seconds=1.5")
    errors = _batch(tmp_path / "list.txt", out, tiny_bundle, *options)
    assert list(errors) == names[1:]
    assert "0 MB" in errors[names[1]]
    assert "1.2 seconds" in errors[names[2]]
    assert "http and https" in errors[local]
    assert "http and https" in errors["memory://a.png"]


def test_a_url_that_was_typed_is_fetched(
    server: str,
    tiny_bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--bundle", str(tiny_bundle)]
    assert main(["caption", f"{server}/a.png", *where]) == 0
    monkeypatch.setattr("sightwords.batch.sources.standard_input", lambda: f"{server}/b.png\n")
    assert main(["caption", "-", *where]) == 1
    assert "--allow-urls" in capsys.readouterr().err
    assert main(["caption", "-", "--allow-urls", *where]) == 0


def test_training_refuses_urls_in_lists(tmp_path: Path) -> None:
    from sightwords.images import decode

    (tmp_path / "list.csv").write_text("image,caption\nhttp://127.0.0.1:9/a.png,a dog\n")
    [item] = open_source(str(tmp_path / "list.csv")).read()
    with pytest.raises(ImageError, match="--allow-urls"):
        decode(item.image)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("form", ["txt", "xmp", "embedded"])
@pytest.mark.parametrize("overwrite", ["never", "missing"])
def test_a_photo_whose_own_file_cannot_be_written_is_listed(
    tmp_path: Path, tiny_bundle: Path, form: str, overwrite: str
) -> None:
    pytest.importorskip("pyexiv2")
    long = "x" * 251  # of the two, the later one's file would be called x...x.png.txt
    for name in (f"{long}.jpg", f"{long}.png", "sub/a.png", "z.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), "red").save(tmp_path / "photos" / name)
    out = tmp_path / "out"
    out.mkdir()
    (out / "sub").write_text("a file where a folder is needed")
    options = ["--format", form, "--overwrite", overwrite, "--bundle", str(tiny_bundle)]
    assert main(["batch", str(tmp_path / "photos"), "--out", str(out), *options]) == 1
    errors = [json.loads(line) for line in (out / "sightwords-errors.jsonl").open()]
    failed = ["sub/a.png"] if form == "embedded" else ["sub/a.png", f"{long}.png"]
    assert sorted(error["id"] for error in errors) == failed
    assert (out / "z").with_suffix(".png" if form == "embedded" else f".{form}").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_list_may_name_photos_that_are_not_there(tmp_path: Path, tiny_bundle: Path) -> None:
    pytest.importorskip("pyexiv2")
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a.png")
    missing = ["/no/such/folder/b.jpg", f"{'y' * 300}.jpg", "a.png/c.jpg", "http://localhost/d.jpg"]
    (tmp_path / "list.txt").write_text("\n".join([*missing, "a.png"]))
    for overwrite in ("never", "missing"):
        out = tmp_path / overwrite
        given = ["batch", str(tmp_path / "list.txt"), "--out", str(out), "--format", "embedded"]
        assert main([*given, "--overwrite", overwrite, "--bundle", str(tiny_bundle)]) == 1
        errors = [json.loads(line) for line in (out / "sightwords-errors.jsonl").open()]
        assert [error["id"] for error in errors] == missing
        assert (out / "a.png").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_links_that_lead_nowhere_are_listed(tmp_path: Path, tiny_bundle: Path) -> None:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a.png")
    for name, target in (("b.png", "x" * 300), ("c.png", "c.png"), ("d.png", "gone.png")):
        (tmp_path / name).symlink_to(target)
    out = tmp_path / "out.jsonl"
    assert main(["batch", str(tmp_path), "--out", str(out), "--bundle", str(tiny_bundle)]) == 1
    errors = [json.loads(line) for line in (tmp_path / "out.jsonl.errors.jsonl").open()]
    assert [error["id"] for error in errors] == ["b.png", "c.png", "d.png"]
    assert json.loads(out.read_text())["id"] == "a.png"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_backslashes_and_colons_are_letters_of_names(tmp_path: Path, tiny_bundle: Path) -> None:
    pytest.importorskip("pyexiv2")
    names = ["12:30 party/a.png", "back\\slash.png"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (40, 30), "red").save(tmp_path / name)
    given = ["batch", str(tmp_path), "--out", str(tmp_path), "--format", "embedded", "--in-place"]
    assert main([*given, "--bundle", str(tiny_bundle)]) == 0
    assert all(b"dc:description" in (tmp_path / name).read_bytes() for name in names)


def test_only_line_breaks_end_a_line_of_a_list(tmp_path: Path) -> None:
    names = ["a\u2028b.jpg", "c\x0cd.jpg", "e.jpg"]
    (tmp_path / "list.txt").write_bytes("\r\n".join(names).encode())
    assert [item.id for item in open_source(str(tmp_path / "list.txt")).read()] == names


def test_a_bundle_that_is_replaced_during_a_batch_is_noticed(tiny_bundle: Path) -> None:
    load = partial(sightwords.load, tiny_bundle)
    fingerprint = load().fingerprint
    assert _same_system(load, fingerprint).fingerprint == fingerprint
    with pytest.raises(BundleError, match="another"):
        _same_system(load, "another")
