"""Bundles that strangers made: nothing unsealed is read, nothing is larger than we allow, and what
makes no sense is a `BundleError` of one line, also where every sum is true."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import socket
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sightwords
from sightwords.bundle import Manifest, open_bundle, pack, seal, unpack
from sightwords.bundle.manifest import MOST_FILES
from sightwords.bundle.seal import file_of
from sightwords.bundle.store import files_of
from sightwords.errors import BundleError
from sightwords.runtime import Network
from sightwords.sealed import File

DATA = Path(__file__).parents[1] / "words" / "data"
FUZZER = Path(__file__).parents[2] / "benchmarks" / "fuzz_bundles.py"


@pytest.fixture
def bundle(tiny_bundle: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(tiny_bundle, tmp_path / "mine"))


def _reseal(folder: Path) -> None:
    """True sums over whatever is there, without loading it first as `seal` does."""
    where = str(folder)
    files = {path: file_of(folder / path, where) for path in files_of(folder, where)}
    Manifest(name="colours", licence="CC0-1.0", files=files).save(folder)


def _load(source: str | Path) -> object:
    return sightwords.load(source, threads=1, backend="numpy")


def _error(source: str | Path, load: Callable[[Any], object] = _load) -> str:
    with pytest.raises(BundleError) as caught:
        load(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what is not a regular, listed file -------------------------------------------------------


def _link(path: Path) -> None:
    path.symlink_to("/etc/hosts")


def _folder_link(path: Path) -> None:
    path.symlink_to("/etc", target_is_directory=True)


def _broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
@pytest.mark.parametrize("make", [_link, _folder_link, _broken_link, _pipe])
@pytest.mark.parametrize("path", ["extra.json", "words/.extra.json"])
def test_links_and_pipes_are_refused(bundle: Path, make: Callable[[Path], None], path: str) -> None:
    make(bundle / path)
    said = "is not a regular file" if make is _pipe else "is a link"
    assert f"{path} {said}; a bundle holds regular files only" in _error(bundle)
    with pytest.raises(BundleError, match=said):
        seal(bundle, name="colours", licence="CC0-1.0")
    with pytest.raises(BundleError, match=said):
        pack(bundle, bundle.parent / "out.zip")
    assert not (bundle.parent / "out.zip").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_a_listed_file_that_is_a_link_or_a_pipe_is_refused(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = bundle / "rerank" / "weights.json"
    shutil.move(weights, bundle.parent / "outside.json")
    weights.symlink_to(bundle.parent / "outside.json")
    assert "rerank/weights.json is a link" in _error(bundle)
    assert "rerank/weights.json is a link" in _error(bundle, lambda b: pack(b, b.parent / "o.zip"))
    weights.unlink()
    os.mkfifo(weights)
    assert "rerank/weights.json is not a regular file" in _error(bundle)
    weights.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(weights.parent)  # names of sockets are short
        listener.bind("weights.json")
        assert "rerank/weights.json is not a regular file" in _error(bundle)
    monkeypatch.undo()
    shutil.rmtree(bundle / "rerank")
    (bundle / "rerank").symlink_to(bundle.parent, target_is_directory=True)
    assert "rerank is a link" in _error(bundle)


def test_hidden_files_have_sums_too(bundle: Path) -> None:
    with open_bundle(bundle) as opened:
        before = opened.manifest.fingerprint
    (bundle / "words" / ".notes.txt").write_text("one")
    first = seal(bundle, name="colours", licence="CC0-1.0")
    assert "words/.notes.txt" in first.files
    assert first.fingerprint != before
    (bundle / "words" / ".notes.txt").write_text("two")
    assert "words/.notes.txt has the SHA-256 sum" in _error(bundle)
    (bundle / "words" / ".notes.txt").unlink()
    (bundle / "words" / ".w.bin").write_bytes(b"weights")
    with pytest.raises(BundleError, match=r"words/\.w\.bin"):
        seal(bundle, name="colours", licence="CC0-1.0")


def test_what_was_summed_is_what_is_loaded(bundle: Path) -> None:
    """A file that changes after the bundle was opened, and after it was verified, is not loaded."""
    with open_bundle(bundle) as opened:
        opened.verify()
        for path in ("words/vocabulary.json", "language/language.npz", "rerank/weights.json"):
            data = (bundle / path).read_bytes()
            (bundle / path).write_bytes(data[:-1] + b"\n\n"[: 1 + (data[-1:] == b"\n")])
        load: dict[str, Callable[[], object]] = {
            "words": opened.detector,
            "language": opened.generator,
            "rerank": opened.chooser,
        }
        for name, stage in load.items():
            with pytest.raises(BundleError, match=f"was changed: {name}/"):
                stage()


def test_every_file_is_read_and_summed_once(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bundle / "words" / "notes.md").write_text("no stage reads this")
    seal(bundle, name="colours", licence="CC0-1.0")
    (bundle / "words" / "notes.md").write_text("no stage Reads this")
    assert "words/notes.md has the SHA-256 sum" in _error(bundle)
    (bundle / "words" / "notes.md").write_text("no stage reads this")
    summed: list[int] = []
    of = File.of

    def noted(data: bytes) -> File:
        summed.append(len(data))
        return of(data)

    monkeypatch.setattr(File, "of", noted)
    _load(bundle)
    large = [size for size in summed if size > 5000]
    with open_bundle(bundle) as opened:
        sizes = [file.size_bytes for file in opened.manifest.files.values()]
    assert sorted(large) == sorted(size for size in sizes if size > 5000)
    assert set(summed) >= set(sizes)


# --- networks ---------------------------------------------------------------------------------


def _field(number: int, payload: bytes | int) -> bytes:
    """A Protocol Buffers field: bytes with their length, or a small number."""
    if isinstance(payload, int):
        return _varint(number << 3) + _varint(payload)
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


LOCATION = _field(1, b"location") + _field(2, b".w.bin")
EXTERNAL = _field(1, 4) + _field(2, 1) + _field(8, b"w") + _field(13, LOCATION) + _field(14, 1)
HIDDEN_TAG = _varint(13 << 3 | 2 | 1 << 32) + _varint(len(LOCATION)) + LOCATION


def _node(operator: bytes, domain: bytes = b"", attribute: bytes = b"") -> bytes:
    return _field(1, _field(4, operator) + _field(7, domain) + _field(5, attribute))


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (_field(7, _field(5, EXTERNAL)), "another file"),
        (_field(7, _field(5, _field(8, b"w") + _field(14, 1))), "another file"),
        (_field(7, _field(15, _field(1, EXTERNAL))), "another file"),
        (_field(7, _field(15, _field(2, EXTERNAL))), "another file"),
        (_field(7, _node(b"Constant", attribute=_field(5, EXTERNAL))), "another file"),
        (_field(7, _node(b"Constant", attribute=_field(10, EXTERNAL))), "another file"),
        (_field(7, _node(b"Constant", attribute=_field(22, _field(1, EXTERNAL)))), "another file"),
        (_field(7, _node(b"If", attribute=_field(6, _field(5, EXTERNAL)))), "another file"),
        (_field(7, _node(b"If", attribute=_field(11, _field(5, EXTERNAL)))), "another file"),
        (_field(25, _field(7, _node(b"C", attribute=_field(5, EXTERNAL))[2:])), "functions"),
        (_field(25, _field(11, _field(5, EXTERNAL))), "functions"),
        (_field(25, _field(1, b"F") + _field(7, _node(b"F")[2:])), "functions"),
        (_field(20, _field(1, _field(5, EXTERNAL))), "another file"),
        (_field(7, _field(5, HIDDEN_TAG)), "a field has the number"),
        (_field(7, _node(b"Loop")), "operator Loop"),
        (_field(7, _node(b"Scan")), "operator Scan"),
        (_field(7, _node(b"Run", b"my.ops")), "of the family 'my.ops'"),
        (b"\x3b", "wire type 3"),
        (b"\x3a\xff", "ends too early"),
    ],
)
def test_networks_that_reach_beyond_their_file(extra: bytes, says: str) -> None:
    data = (DATA / "colours.onnx").read_bytes()
    Network(data, threads=1)
    assert says in _error("x", lambda _: Network(data + extra, threads=1, name="network.onnx"))


def test_graphs_nested_for_ever_and_other_formats_are_refused() -> None:
    graph = b""
    for _ in range(100):
        graph = _node(b"If", attribute=_field(6, graph))
    assert "nested too deeply" in _error("x", lambda _: Network(_field(7, graph)))
    assert "not a usable ONNX network" in _error(
        "x", lambda _: Network(b"\x18\0\0\0ORTM" + bytes(64))
    )


def test_weights_outside_are_refused_whatever_the_folder(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = bundle / "words" / "network.onnx"
    network.write_bytes(network.read_bytes() + _field(7, _field(5, EXTERNAL)))
    for folder in (bundle / "words", bundle):
        (folder / ".w.bin").write_bytes(bytes(1000))
        monkeypatch.chdir(folder)
        assert "keeps weights in another file" in _error("x", lambda _: Network(network))
        (folder / ".w.bin").unlink()
    _reseal(bundle)
    assert "keeps weights in another file" in _error(bundle)


# --- sizes ------------------------------------------------------------------------------------


def test_sizes_are_bounded_by_us(bundle: Path) -> None:
    text = (bundle / "bundle.json").read_text()
    document = json.loads(text)
    for path, size in (
        ("words/network.onnx", 10**10),
        ("rerank/weights.json", 10**8),
        ("rerank/weights.json", 2**63),
    ):
        document["files"][path]["size_bytes"] = size
        (bundle / "bundle.json").write_text(json.dumps(document))
        assert path in _error(bundle)
    (bundle / "bundle.json").write_text(" " * (5 << 20) + text)
    assert "larger than" in _error(bundle)
    (bundle / "bundle.json").write_text(text)
    (bundle / "words" / "network.onnx").unlink()
    os.truncate(os.open(bundle / "words/network.onnx", os.O_CREAT | os.O_WRONLY), 20 << 30)
    assert f"words/network.onnx is {20 << 30} bytes long" in _error(bundle)
    with pytest.raises(BundleError, match=r"network\.onnx .*larger than"):
        seal(bundle, name="colours", licence="CC0-1.0")


def test_too_many_files_and_names_that_differ_by_case(bundle: Path) -> None:
    document = json.loads((bundle / "bundle.json").read_text())
    some = document["files"]["rerank/weights.json"]
    document["files"]["rerank/WEIGHTS.json"] = some
    (bundle / "bundle.json").write_text(json.dumps(document))
    assert "are one file on some systems" in _error(bundle)
    del document["files"]["rerank/WEIGHTS.json"]
    document["files"] |= {f"words/{i}.json": some for i in range(MOST_FILES)}
    (bundle / "bundle.json").write_text(json.dumps(document))
    assert "a bundle may hold 1,000" in _error(bundle)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("words/\u00e9.md", "words/e\u0301.md"), "are one file on some systems"),
        (("words/a.json", "words/a.json/b.json"), "words/a.json, which is a file"),
        (("words/A.json", "words/a.json/b.json"), "words/A.json, which is a file"),
        (("bundle.json/b.json",), "bundle.json, which is a file"),
    ],
)
def test_names_that_cannot_stand_side_by_side(
    bundle: Path, tmp_path: Path, names: tuple[str, ...], says: str
) -> None:
    document = json.loads((bundle / "bundle.json").read_text())
    document["files"] |= dict.fromkeys(names, document["files"]["rerank/weights.json"])
    (bundle / "bundle.json").write_text(json.dumps(document))
    assert says in _error(bundle)
    assert says in _error(_zip(bundle, tmp_path / "names.zip", more={}))


@pytest.mark.parametrize("name", ["cat\u202egpj.exe", "cat\u2066", "x" * 501])
def test_names_that_deceive_or_flood_the_reader(bundle: Path, name: str) -> None:
    document = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**document, "name": name}))
    assert "expected text of one line, up to 500 characters" in _error(bundle)


def test_zips_of_very_many_files_are_refused_unopened(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = _zip(bundle, tmp_path / "many.zip", more={f"{i}": b"" for i in range(2000)})
    (bundle / "language" / "language.npz").write_bytes(archive.read_bytes())
    _reseal(bundle)
    monkeypatch.setattr(zipfile, "ZipFile", None)  # it would take half a kilobyte for each of them
    assert "expected at most 1000" in _error(archive)
    assert "expected at most 64" in _error(bundle)


def _zip(source: Path, target: Path, *, more: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as stored:
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            stored.write(path, path.relative_to(source).as_posix())
        for name, data in more.items():
            stored.writestr(name, data)
    return target


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_zips_made_to_overflow_or_to_confuse(bundle: Path, tmp_path: Path) -> None:
    twice = _zip(bundle, tmp_path / "twice.zip", more={"rerank/weights.json": b"{}"})
    assert "holds 'rerank/weights.json' twice" in _error(twice)
    case = _zip(bundle, tmp_path / "case.zip", more={"rerank/Weights.JSON": b"{}"})
    assert "twice" in _error(case)
    many = _zip(bundle, tmp_path / "many.zip", more={f"{i}.txt": b"" for i in range(1001)})
    assert "files; expected at most 1000" in _error(many)
    bomb = _zip(bundle, tmp_path / "bomb.zip", more={"zeros.txt": bytes(100 << 20)})
    assert "expected at most 200 times as many" in _error(bomb)
    assert "200 times" in _error(bomb, lambda z: unpack(z, tmp_path / "out"))
    assert not list(tmp_path.glob("*out*"))


def _npz(bundle: Path, **changes: Any) -> None:
    """The language model's arrays, some replaced (bytes: as they are) or dropped (None)."""
    path = bundle / "language" / "language.npz"
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files} | changes
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, array in arrays.items():
            if array is None:
                continue
            raw = io.BytesIO()
            if isinstance(array, bytes):
                raw.write(array)
            else:
                np.lib.format.write_array(raw, np.asanyarray(array))
            target.writestr(f"{name}.npy", raw.getvalue())
    _reseal(bundle)


def _header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    out = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"table": np.zeros(1 << 10)}, "table is of float64; expected float32 or int8"),
        ({"table": np.full(1 << 10, np.nan, np.float32)}, "table holds NaN, infinity or weights"),
        ({"table": np.zeros(1 << 11, np.int8)}, "a table of shape (2048,)"),
        ({"table": np.zeros((1, 1 << 10), np.int8)}, "a table of shape (1, 1024)"),
        ({"table": np.zeros(110 << 20, np.int8)}, "expected at most 200 times as many"),
        ({"table": _header((1 << 40,))}, "has a header that does not fit"),
        ({"table": _header((-1,))}, "has a header that does not fit"),
        ({"table": _header((1 << 62, 1 << 62))}, "has a header that does not fit"),
        ({"table": b"\x93NUMPY\x01\x00\xff\x00" + b"(" * 300}, "is damaged"),
        ({"end": _header((8,), "|O")}, "expected numbers"),
        ({"end": np.array(["a"] * 10)}, "expected numbers"),
        ({"unigram": np.full((2, 10), -np.inf, np.float32)}, "unigram holds NaN, infinity"),
        ({"unigram": np.full((2, 10), 1e30, np.float32)}, "unigram holds NaN, infinity"),
        ({"unigram": np.zeros((2, 9), np.float32)}, "unigram has shape (2, 9); expected (2, 10)"),
        ({"end": np.zeros(10, np.int64)}, "end is of int64; expected floating-point"),
        ({"end": None}, "lacks the array 'end'"),
        ({"more": np.zeros(1)}, "array 'more'"),
        ({"bilinear_context": np.zeros((10, 2), np.float32)}, "lacks the array 'bilinear_p"),
        ({"follower_offsets": np.zeros(11, np.float32)}, "expected whole numbers"),
        ({"follower_offsets": np.zeros(11, np.int32)}, "do not divide 80 followers"),
        ({"follower_offsets": np.arange(80, -1, -8, dtype=np.int32)}, "do not divide"),
        ({"follower_offsets": np.full(11, 2**31 - 1, np.int32)}, "do not divide"),
        ({"follower_ids": np.full(80, 60000, np.uint16)}, "expected words from 0 to 7"),
        ({"follower_ids": np.full(80, -1, np.int32)}, "expected words from 0 to 7"),
        ({"follower_ids": np.tile(np.arange(7, -1, -1), 10)}, "is not ascending"),
        ({"follower_ids": np.tile(np.arange(8), 10)[None]}, "do not divide"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_arrays_that_make_no_sense(bundle: Path, changes: dict[str, Any], says: str) -> None:
    _npz(bundle, **changes)
    assert says in _error(bundle)


# --- resealed nonsense ------------------------------------------------------------------------

CONFIDENCE: dict[str, Any] = {
    "format": 1, "threshold": 1.0, "good_share": 0.5, "bias": 0.0, "slope": 1.0, "shift": 0.0,
    "features": {"margin": [0.0, 1.0, 1.0]}, "reliability": {},
}  # fmt: skip
HUGE = 10**400


@pytest.mark.parametrize(
    ("path", "keys", "value", "says"),
    [
        ("language/language.json", ["order"], 2**31, "order is 2147483648"),
        ("language/language.json", ["order"], HUGE, "order is a whole number of more than 64 bits"),
        ("language/language.json", ["order"], 0, "order is 0; expected at least 1"),
        ("language/language.json", ["table_bits"], 2**31, "table_bits is 2147483648"),
        ("language/language.json", ["scale"], float("nan"), "NaN is not a number"),
        ("language/language.json", ["scale"], 0.0, "scale is 0.0; expected a number above 0"),
        ("language/language.json", ["score"], float("-inf"), "-Infinity is not a number"),
        ("language/language.json", ["score"], HUGE, "score is a whole number of more"),
        ("language/language.json", ["distant"], 1, "distant is 1; expected true or false"),
        ("language/language.json", ["words"], "8", "words is '8'; expected a whole number"),
        (
            "words/detector.json",
            ["input", "size_px"],
            10**6,
            "size_px is 1000000; expected at most",
        ),
        ("words/detector.json", ["grid", "rows"], 10**6, "rows is 1000000; expected at most"),
        ("words/detector.json", ["grid", "canvas"], -1, "canvas is -1; expected at least 1"),
        ("words/detector.json", ["words"], 2**40, "expected a number from"),
        ("words/detector.json", ["input", "normalization", "scale"], 1e300, "scale is 1e+300"),
        (
            "words/detector.json",
            ["input", "normalization", "std"],
            [1e-300] * 3,
            "expected no zero",
        ),
        ("words/detector.json", ["input", "normalization", "mean"], [HUGE] * 3, "three numbers"),
        ("words/detector.json", ["backbone"], 3, "backbone is 3; expected text"),
        ("words/calibration.json", ["base_rates", 0], 2, "base_rates: holds 2, which is not from"),
        ("words/calibration.json", ["curves", 0], [[0.5], [float("inf")]], "Infinity is not a num"),
        ("words/calibration.json", ["images"], -4, "images is -4"),
        ("words/vocabulary.json", ["words", 0, 0], "\x1b[2J", "is not a word; expected"),
        ("words/vocabulary.json", ["words", 0, 0], "\ud800", "half a surrogate pair"),
        ("words/vocabulary.json", ["words", 0, 1], HUGE, "expected [word, count]"),
        ("words/vocabulary.json", ["total_tokens"], -1, "counts add up"),
        ("language/vocabulary.json", ["words"], [], "a vocabulary without words"),
        ("rerank/weights.json", ["stages", 0, "features", "word_log_prob"], 1e300, "1e+300"),
        ("rerank/weights.json", ["stages", 0, "features", "word_log_prob"], "x", "is 'x'"),
        ("rerank/weights.json", ["shortlist"], 2**31, "shortlist is 2147483648"),
        ("rerank/confidence.json", ["bias"], float("nan"), "NaN is not a number"),
        ("rerank/confidence.json", ["features", "margin"], [0, 0, 1], "has a scale of 0.0"),
        ("rerank/confidence.json", ["features", "margin"], [HUGE, 1, 1], "three numbers"),
        ("rerank/confidence.json", ["slope"], "x", "slope is 'x'; expected a number"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_numbers_that_make_no_sense(
    bundle: Path, path: str, keys: list[Any], value: Any, says: str
) -> None:
    (bundle / "rerank" / "confidence.json").write_text(json.dumps(CONFIDENCE))
    document = json.loads((bundle / path).read_text())
    holder = document
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    (bundle / path).write_text(json.dumps(document))
    _reseal(bundle)
    assert says in _error(bundle)


def test_a_confidence_for_another_detector_is_named(bundle: Path) -> None:
    strange = {"direction": [0.1] * 1000, "limit": 1.0}
    text = json.dumps({**CONFIDENCE, "familiar": strange})
    (bundle / "rerank" / "confidence.json").write_text(text)
    _reseal(bundle)
    photo = np.zeros((20, 20, 3), np.uint8)
    said = _error(bundle, lambda b: sightwords.load(b, backend="numpy")(photo))
    assert "knows image features of shape (1000,), the detector gives" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[generation]\nbeam_width = 2147483648\n", "beam_width is 2147483648; a bundle may ask"),
        ("[generation]\nmaximum_length = 100000\n", "maximum_length is 100000; a bundle may ask"),
        ("[generation]\nm_best = " + "9" * 5000, "is not TOML"),
        ("[calibration]\nthreshold = nan\n", "threshold: is nan; expected a finite number"),
        ("language = 1\n", ""),
        ("x = " + "[" * 100_000, "nested too deeply"),
        (".".join("a" * 100_000) + " = 1\n", "nested too deeply"),
        ("[" + " . ".join(["'a'"] * 10_000) + "]\n", "nested too deeply"),
        ("[generation]\nbeam_width = 0x" + "f" * 10_000, "a number of over 200 digits"),
        ("[generation]\nbeam_width = [0x" + "f" * 10_000 + "]", "a number of over 200 digits"),
    ],
)
def test_settings_that_make_no_sense(bundle: Path, text: str, says: str) -> None:
    (bundle / "config.resolved.toml").write_text(text)
    _reseal(bundle)
    if says:
        assert says in _error(bundle)
    else:
        sightwords.load(bundle, backend="numpy")


def test_json_nested_for_ever_is_refused_in_every_file(bundle: Path) -> None:
    for path in ("words/detector.json", "words/vocabulary.json", "words/calibration.json",
                 "language/language.json", "language/vocabulary.json", "rerank/weights.json",
                 "bundle.json"):  # fmt: skip
        whole = (bundle / path).read_bytes()
        (bundle / path).write_text("[" * 100_000)
        if path != "bundle.json":
            _reseal(bundle)
        assert "nested too deeply" in _error(bundle)
        (bundle / path).write_bytes(whole)


def test_seeded_mutants_fail_in_good_order(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few of what `benchmarks/fuzz_bundles.py` does by the thousand."""
    if not FUZZER.exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    spec = importlib.util.spec_from_file_location("fuzz_bundles", FUZZER)
    assert spec is not None
    assert spec.loader is not None
    fuzzer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzzer)
    outcomes = set()
    for number in range(40):
        fuzzer.make_case([tiny_bundle], tmp_path / "case", 7, number)
        outcomes.add(fuzzer.run_case(tmp_path / "case").split(":")[0])
        shutil.rmtree(tmp_path / "case")
    assert outcomes == {"works", "BundleError"}


# --- the hub ----------------------------------------------------------------------------------


def test_the_hub_is_asked_for_sizes_first(
    tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {p.relative_to(tiny_bundle).as_posix(): p.stat().st_size
             for p in tiny_bundle.rglob("*") if p.is_file()}  # fmt: skip
    fetched: list[str] = []

    def info(name: str, **_: object) -> object:
        files = [SimpleNamespace(rfilename=path, size=size) for path, size in sizes.items()]
        return SimpleNamespace(siblings=files)

    def one(name: str, file: str) -> str:
        fetched.append(file)
        return str(tiny_bundle / file)

    def all_of(name: str, **_: object) -> str:
        fetched.append("all")
        return str(tiny_bundle)

    hub = SimpleNamespace(
        HfApi=lambda: SimpleNamespace(model_info=info),
        hf_hub_download=one,
        snapshot_download=all_of,
    )
    monkeypatch.setattr("sightwords.bundle.store.require", lambda *_, **__: hub)
    with open_bundle("hf://garden/colours"):
        assert fetched == ["bundle.json", "all"]
    sizes["words/network.onnx"] = 10**12
    fetched.clear()
    assert "words/network.onnx is 1000000000000 bytes long" in _error("hf://garden/colours")
    assert fetched == ["bundle.json"]
    sizes["bundle.json"] = 10**12
    fetched.clear()
    assert "its bundle.json has 1,000,000,000,000 bytes" in _error("hf://garden/colours")
    assert fetched == []


@pytest.mark.skipif(sys.platform == "win32", reason="no links there")
def test_the_hubs_cache_is_made_of_links(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in [p for p in tiny_bundle.rglob("*") if p.is_file()]:
        link = tmp_path / path.relative_to(tiny_bundle)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    (tmp_path / ".gitattributes").write_text("not of the bundle, and never read")
    hub = SimpleNamespace(
        hf_hub_download=lambda _, file: str(tmp_path / file),
        snapshot_download=lambda *_, **__: str(tmp_path),
    )
    monkeypatch.setattr("sightwords.bundle.store.require", lambda *_, **__: hub)
    sightwords.load("hf://garden/colours", backend="numpy")
    assert "is a link" in _error(tmp_path)
