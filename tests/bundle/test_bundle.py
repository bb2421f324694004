"""Bundles: sealed, packed, loaded from anywhere; newer, tampered and foreign ones refused."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

import sightwords
from sightwords.bundle import open_bundle, pack, seal, unpack
from sightwords.bundle.store import unzip
from sightwords.cli.main import main
from sightwords.errors import BundleError
from sightwords.language.maxent import MaxEnt
from sightwords.sealed import renew_sum
from sightwords.words.artefact import DetectorSpec
from sightwords.words.detector import Detector

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def bundle(tiny_bundle: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(tiny_bundle, tmp_path / "mine"))


def _edit(bundle: Path, edit: Edit) -> None:
    document = json.loads((bundle / "bundle.json").read_text())
    edit(document)
    (bundle / "bundle.json").write_text(json.dumps(document))


def _error(source: str | Path) -> str:
    """The one line that refuses a bundle."""
    with pytest.raises(BundleError) as caught, open_bundle(source) as bundle:
        bundle.verify()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_file_is_listed_with_its_sum_and_size(tiny_bundle: Path) -> None:
    with open_bundle(tiny_bundle) as bundle:
        manifest = bundle.manifest
    assert manifest.parts == ("words", "language", "rerank")
    on_disk = {p.relative_to(tiny_bundle).as_posix() for p in tiny_bundle.rglob("*") if p.is_file()}
    assert set(manifest.files) == on_disk - {"bundle.json"}
    sizes = sum((tiny_bundle / path).stat().st_size for path in manifest.files)
    assert manifest.size_bytes == sizes


def test_the_fingerprint_follows_the_contents(bundle: Path, tiny_bundle: Path) -> None:
    with open_bundle(bundle) as mine, open_bundle(tiny_bundle) as theirs:
        assert mine.manifest.fingerprint == theirs.manifest.fingerprint
    (bundle / "config.resolved.toml").write_text("[generation]\nbeam_width = 7\n")
    changed = seal(bundle, name="colours", licence="CC0-1.0")
    with open_bundle(tiny_bundle) as theirs:
        assert changed.fingerprint != theirs.manifest.fingerprint
    with open_bundle(bundle) as mine:
        assert mine.config.generation.beam_width == 7


def test_settings_of_training_may_be_of_another_version(bundle: Path) -> None:
    settings = bundle / "config.resolved.toml"
    settings.write_text(
        "[words]\nnever_heard_of = 1\n[language]\nnor_of_this = 2\nattribute_threshold = 0.3\n"
    )
    seal(bundle, name="colours", licence="CC0-1.0")
    with open_bundle(bundle) as mine:
        assert mine.config.language.attribute_threshold == 0.3
    settings.write_text("[generation]\nbeam = 7\n")
    with pytest.raises(BundleError, match=r"mine: config.resolved.toml: .*'beam'"):
        seal(bundle, name="colours", licence="CC0-1.0")


@pytest.mark.parametrize(
    "path",
    [
        "words/network.onnx",
        "words/calibration.json",
        "language/language.npz",
        "rerank/weights.json",
    ],
)
def test_one_changed_byte_is_refused_by_name(bundle: Path, path: str) -> None:
    data = bytearray((bundle / path).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / path).write_bytes(data)
    message = _error(bundle)
    assert "is damaged or was changed" in message
    assert path in message
    assert "SHA-256" in message
    assert "sightwords bundle seal" in message


def test_cut_missing_and_unlisted_files_are_refused_by_name(bundle: Path) -> None:
    weights = bundle / "rerank" / "weights.json"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:10])
    assert "rerank/weights.json is 10 bytes long" in _error(bundle)
    weights.unlink()
    assert "rerank/weights.json: no such file" in _error(bundle)
    weights.write_bytes(whole)
    (bundle / "rerank" / "confidence.json").write_text("{}")
    assert "holds rerank/confidence.json, which its bundle.json does not list" in _error(bundle)
    (bundle / "rerank" / "confidence.json").unlink()
    for path in (".hidden", "README.md", "words/.w.bin", "words/.hidden/w.json"):
        (bundle / path).parent.mkdir(exist_ok=True)
        (bundle / path).write_text("no sum covers this")
        assert f"holds {path}, which its bundle.json does not list; delete it" in _error(bundle)
        (bundle / path).unlink()
    for path in (".DS_Store", "words/.DS_Store", "language/Thumbs.db", ".gitattributes"):
        (bundle / path).write_text("left by a file manager or git, and never loaded")
    with open_bundle(bundle) as opened:
        assert not {".DS_Store", "words/.DS_Store"} & set(opened.manifest.files)


def test_a_newer_format_is_refused_with_the_way_out(bundle: Path) -> None:
    _edit(bundle, lambda d: d.update(version=2, sightwords="9.9", files="in a way not yet known"))
    message = _error(bundle)
    assert "'colours' is of format 2, written by sightwords 9.9" in message
    assert "pip install --upgrade sightwords" in message


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda d: d.update(format="other"), "'sightwords-bundle'"),
        (lambda d: d.update(version="1"), "version is '1'"),
        (lambda d: d.pop("licence"), "'licence'"),
        (lambda d: d["files"].update({"../x.json": d["files"]["rerank/weights.json"]}), "outside"),
        (lambda d: d["files"].update({"/x.json": d["files"]["rerank/weights.json"]}), "outside"),
        (lambda d: d["files"].update({"C:x.json": d["files"]["rerank/weights.json"]}), "outside"),
        (lambda d: d["files"].update({"w.pkl": d["files"]["rerank/weights.json"]}), "pickles"),
        (lambda d: d["files"].update({"w.json": {"sha256": "0"}}), "expected a sha256"),
        (lambda d: [d["files"].pop(p) for p in list(d["files"]) if p[0] == "r"], "under rerank/"),
    ],
)
def test_manifests_that_cannot_be_trusted(bundle: Path, edit: Edit, says: str) -> None:
    _edit(bundle, edit)
    assert says in _error(bundle)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    assert "none" in _error(tmp_path / "none")
    assert "no bundle.json" in _error(tmp_path)
    (tmp_path / "bundle.json").write_text("{")
    assert "is not JSON" in _error(tmp_path)
    (tmp_path / "photo.zip").write_bytes(b"PK\x03\x04 but no more")
    assert "photo.zip" in _error(tmp_path / "photo.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("readme.txt", "no bundle")
    assert "0 files bundle.json" in _error(tmp_path / "other.zip")


def test_no_pickle_is_sealed(bundle: Path) -> None:
    (bundle / "words" / "network.pt").write_bytes(b"\x80\x04.")
    with pytest.raises(BundleError, match=r"words/network\.pt.*pickle"):
        seal(bundle, name="x", licence="CC0-1.0")


def test_weights_that_ask_for_an_absent_part_are_refused(bundle: Path) -> None:
    weights = bundle / "rerank" / "weights.json"
    document = json.loads(weights.read_text())
    document["stages"][0]["features"]["dmsm"] = 1.0
    weights.write_text(json.dumps(document))
    with pytest.raises(BundleError, match=r"'colours'.*'dmsm'"):
        seal(bundle, name="colours", licence="CC0-1.0")


def test_parts_of_two_systems_are_not_sealed_together(bundle: Path) -> None:
    path = bundle / "words" / "vocabulary.json"
    document = json.loads(path.read_text())
    document["words"] = [[f"{word}-other", count] for word, count in document["words"]]
    path.write_text(json.dumps(document))
    with pytest.raises(BundleError, match="none of the 8 words"):
        seal(bundle, name="colours", licence="CC0-1.0")


def test_zip_and_back(tiny_bundle: Path, tmp_path: Path) -> None:
    first = pack(tiny_bundle, tmp_path / "a.zip")
    pack(tiny_bundle, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    unpack(tmp_path / "a.zip", tmp_path / "back")
    with open_bundle(tmp_path / "back") as back:
        assert back.manifest == first
    with pytest.raises(BundleError, match="back"):
        unpack(tmp_path / "a.zip", tmp_path / "back")


def test_a_zip_captions_as_its_directory_does(tiny_bundle: Path, tmp_path: Path) -> None:
    pack(tiny_bundle, tmp_path / "a.zip")
    photograph = Image.new("RGB", (20, 20), "red")
    one = sightwords.load(tiny_bundle, backend="numpy")
    other = sightwords.load(tmp_path / "a.zip", backend="numpy")
    assert one(photograph).n_best == other(photograph).n_best
    assert one.fingerprint == other.fingerprint


def test_a_zip_with_a_folder_inside(tiny_bundle: Path, tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "z"), "zip", tiny_bundle.parent, tiny_bundle.name)
    with open_bundle(tmp_path / "z.zip") as bundle:
        assert bundle.manifest.name == "colours"


def test_a_tampered_zip_is_refused_and_leaves_nothing(tiny_bundle: Path, tmp_path: Path) -> None:
    pack(tiny_bundle, tmp_path / "a.zip")
    with (
        zipfile.ZipFile(tmp_path / "a.zip") as old,
        zipfile.ZipFile(tmp_path / "b.zip", "w") as new,
    ):
        for name in old.namelist():
            data = old.read(name)
            # Far longer than the manifest says: it must not be unpacked whole.
            new.writestr(name, data + b" " * 10**6 if name == "rerank/weights.json" else data)
    assert "rerank/weights.json is" in _error(tmp_path / "b.zip")
    unzip(tmp_path / "b.zip", tmp_path)
    unpacked = (tmp_path / "rerank" / "weights.json").stat().st_size
    assert unpacked == (tiny_bundle / "rerank" / "weights.json").stat().st_size + 1
    for part in [p for p in tmp_path.iterdir() if p.suffix != ".zip"]:
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    with pytest.raises(BundleError):
        unpack(tmp_path / "b.zip", tmp_path / "back")
    assert {p.name for p in tmp_path.iterdir()} == {"a.zip", "b.zip"}


def test_from_the_hub(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def one(name: str, file: str, **options: str) -> str:
        asked.append((name, file, options))
        return str(tiny_bundle / file)

    def all_of(name: str, *, allow_patterns: list[str], **options: str) -> str:
        asked.append((name, allow_patterns, options))
        return str(tiny_bundle)

    hub = SimpleNamespace(hf_hub_download=one, snapshot_download=all_of)
    monkeypatch.setattr("sightwords.bundle.store.require", lambda *_, **__: hub)
    with open_bundle("hf://garden/colours@v1") as bundle:
        assert bundle.manifest.name == "colours"
    assert asked[0] == ("garden/colours", "bundle.json", {"revision": "v1"})
    files: Any = asked[1]
    assert "words/network.onnx" in files[1]
    assert "expected hf://OWNER/NAME" in _error("hf://colours")


def test_a_hub_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise OSError("no\nnetwork" + " at all" * 40)

    hub = SimpleNamespace(hf_hub_download=fail)
    monkeypatch.setattr("sightwords.bundle.store.require", lambda *_, **__: hub)
    said = _error("hf://garden/colours")
    assert said.startswith("hf://garden/colours: cannot be fetched (OSError: no network at all")
    assert " at ...); check the name" in said  # cut between words, and visibly


def test_on_the_command_line(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", "info", str(bundle)]) == 0
    out = capsys.readouterr().out
    assert "licence      CC0-1.0" in out
    assert "stages       words, language, rerank" in out
    assert main(["bundle", "info", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == {"none": {"cider": 0.0}}
    assert main(["bundle", "pack", str(bundle), str(tmp_path / "x.zip")]) == 0
    assert main(["bundle", "pack", str(tmp_path / "x.zip"), str(tmp_path / "x")]) == 0
    assert main(["bundle", "verify", str(tmp_path / "x")]) == 0
    assert "files are as sealed" in capsys.readouterr().out
    (bundle / "config.resolved.toml").write_text("[generation]\nbeam_width = 9\n")
    assert main(["bundle", "seal", str(bundle), "--name", "mine"]) == 0
    with open_bundle(bundle) as sealed:
        assert (sealed.manifest.name, sealed.manifest.licence) == ("mine", "CC0-1.0")
        assert sealed.manifest.scores == {"none": {"cider": 0.0}}
    (bundle / "config.resolved.toml").write_text("")
    assert main(["bundle", "verify", str(bundle)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    (bundle / "bundle.json").unlink()
    with pytest.raises(SystemExit) as stopped:
        main(["bundle", "seal", str(bundle)])
    assert stopped.value.code == 2


def test_sealing_replaces_the_sums_of_the_stages(bundle: Path, tmp_path: Path) -> None:
    words = bundle / "words"
    DetectorSpec.load(words).save(words)
    with pytest.raises(BundleError, match=r"calibration\.json"):
        seal(bundle, name="colours", licence="CC0-1.0")
    renew_sum(words, "calibration.json")
    network = (words / "network.onnx").read_bytes()
    (words / "network.onnx").write_bytes(network[:-1])
    with pytest.raises(BundleError, match=r"network\.onnx is \d+ bytes long"):
        seal(bundle, name="colours", licence="CC0-1.0")
    (words / "network.onnx").write_bytes(network[:-1] + bytes([network[-1] ^ 1]))
    with pytest.raises(BundleError, match=r"network\.onnx has the SHA-256 sum"):
        seal(bundle, name="colours", licence="CC0-1.0")
    (words / "network.onnx").unlink()
    with pytest.raises(BundleError, match=r"network\.onnx: no such file"):
        seal(bundle, name="colours", licence="CC0-1.0")
    assert (words / "sums.json").exists()
    (words / "network.onnx").write_bytes(network)
    manifest = seal(bundle, name="colours", licence="CC0-1.0")
    assert "words/sums.json" not in manifest.files
    assert not (words / "sums.json").exists()
    sightwords.load(bundle, backend="numpy")


def test_a_stage_named_by_its_directory_is_checked_by_the_bundle(bundle: Path) -> None:
    words = bundle / "words"
    assert Detector.load(words).calibration is not None
    for name in ("network.onnx", "vocabulary.json", "calibration.json"):
        data = (words / name).read_bytes()
        (words / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(BundleError, match=rf"was changed: words/{name} .*bundle seal"):
            Detector.load(words)
        (words / name).write_bytes(data)
    with pytest.raises(BundleError, match=r"was changed: language/"):
        path = next((bundle / "language").glob("*.npz"))
        path.write_bytes(path.read_bytes() + b"more")
        MaxEnt.load(bundle / "language")
    (bundle / "bundle.json").write_text('{"files": {}, "format": "of another program"}')
    Detector.load(words)
    (bundle / "bundle.json").write_text('{"files": {"a": 3}, "format": "sightwords-bundle"}')
    with pytest.raises(BundleError, match=r"bundle\.json"):
        Detector.load(words)
