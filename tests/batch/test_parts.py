"""What a cluster keeps between runs: units, slices, keys; no Ray needed."""

from __future__ import annotations

import io
import pickle
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.batch import ClusterOptions, Progress
from sightwords.batch.journal import record_of
from sightwords.batch.ray import run as ray_run
from sightwords.batch.ray.keys import doubles, prints_of, shared_prints
from sightwords.batch.ray.machines import TRIES, Captioning, Work, prepare, table
from sightwords.batch.ray.parts import (
    DamagedPartsError,
    Done,
    Keys,
    keys_name,
    load_unit,
    save_slice,
    slice_name,
)
from sightwords.batch.ray.store import Store, split_place
from sightwords.batch.ray.units import Unit, slices, source_print, stamped, units_of
from sightwords.batch.sources import Item
from sightwords.cli.main import main
from sightwords.corpus.problems import Problems
from sightwords.errors import CorpusError, InputError, SightwordsError
from sightwords.pipeline import Captioner
from sightwords.types import ImageRef


def _shard(path: Path, names: list[str], size: int = 10) -> None:
    with tarfile.open(path, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = size
            tar.addfile(info, io.BytesIO(b"x" * size))


def test_shards_are_units_and_lists_are_cut(tmp_path: Path) -> None:
    for number in range(3):
        _shard(tmp_path / f"s-{number}.tar", [f"{number}.png"])
    units = units_of(f"{tmp_path}/s-{{0..3}}.tar", images=None, slice_images=2)
    assert [(u.number, Path(str(u)).name, u.seen) for u in units] == [
        (0, "s-0.tar", True),
        (1, "s-1.tar", True),
        (2, "s-2.tar", True),
        (3, "s-3.tar", False),
    ]
    assert len(units_of(str(tmp_path), images=None, slice_images=2)) == 3
    names = "\n".join(f"{n}.png" for n in range(70))
    (tmp_path / "list.txt").write_text(names)
    units = units_of(str(tmp_path / "list.txt"), images=None, slice_images=2)
    assert [len(unit.items) for unit in units] == [32, 32, 6]
    assert [item.id for unit in units for item in unit.items] == names.split()
    with pytest.raises(CorpusError, match=r"t-0\.tar"):
        units_of(f"{tmp_path}/t-{{0..3}}.tar", images=None, slice_images=2)
    assert source_print(units) != source_print(units[:2])


def test_a_unit_is_cut_by_number_and_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}.png" for number in range(7)]
    _shard(tmp_path / "s.tar", names)
    unit = Unit(0, shard=str(tmp_path / "s.tar"))
    cut = [[item.id for item in items] for items in slices(unit, Problems(), images=3)]
    assert cut == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    monkeypatch.setattr("sightwords.batch.ray.units.SLICE_BYTES", 20)
    cut = [[item.id for item in items] for items in slices(unit, Problems(), images=3)]
    assert cut == [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]


@pytest.mark.parametrize("scheme", ["", "file://", "memory:/"])
def test_a_unit_is_whole_when_all_slices_are(tmp_path: Path, scheme: str) -> None:
    if scheme:
        pytest.importorskip("fsspec")
    store = Store.at(f"{scheme}{tmp_path / 'parts'}")
    assert store.names() == []
    save_slice(store, 0, 0, [{"id": "a", "caption": "x"}, {"id": "b", "error": "bad"}])
    Keys(["a", "b", "c"], ["a problem"]).save(store, 0, 2)
    assert not Done.of(store.names()).whole(0)
    save_slice(store, 0, 1, [{"id": "c", "caption": "y"}])
    done = Done.of(store.names())
    assert done.whole(0)
    assert not done.whole(1)
    assert done.images == 3
    keys, records = load_unit(store, 0, done)
    assert keys.problems == ["a problem"]
    assert [record["id"] for record in records] == ["a", "b", "c"]
    store.remove()
    assert store.names() == []


def test_what_a_killed_machine_left_of_a_file_is_passed_over(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    Keys(["a"], []).save(store, 3, 1)
    for left in (".000003-keys-1-k3j_x9ab.partial.json", ".000003-00000-1-k3j_x9ab.partial.jsonl"):
        (tmp_path / left).write_bytes(b"{")
    assert Done.of(store.names()) == Done(read={3: 1})


def test_rows_that_are_missing_or_double_are_named(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    Keys(["a", "b", "c"], []).save(store, 0, 1)
    save_slice(store, 0, 0, [{"id": name, "caption": "a dog"} for name in "abc"])
    done = Done.of(store.names())
    load_unit(store, 0, done)
    save_slice(store, 0, 0, [{"id": name, "caption": "a dog"} for name in "aax"])
    with pytest.raises(InputError, match=r"2 \w+ \(b, c\); 1 \w+ \(a\); 1 .*\(x\)"):
        load_unit(store, 0, done)


def test_a_remote_store_is_that_of_fsspec() -> None:
    pytest.importorskip("fsspec")
    store, name = split_place("memory://run/captions.jsonl")
    assert not store.exists(name)
    store.write(name, b"one")
    store.write(name, b"two")
    assert store.read(name) == b"two"
    assert store.names() == [name]
    store.drop(name)
    store.drop(name)
    assert store.names() == []
    with pytest.raises(InputError, match="nosuch://bucket"):
        Store.at("nosuch://bucket").names()


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4), max_size=5))
def test_doubles_are_those_of_counting(held: list[list[str]]) -> None:
    prints = {unit: prints_of(keys) for unit, keys in enumerate(held)}
    everything = [(key, unit) for unit, keys in enumerate(held) for key in keys]
    expected: dict[str, list[int]] = {}
    for key, unit in everything:
        expected.setdefault(key, []).append(unit)
    expected = {key: units for key, units in expected.items() if len(units) > 1}
    assert doubles(prints, held.__getitem__) == expected


def test_equal_prints_of_other_names_are_no_doubles() -> None:
    same = np.array([7], np.uint64)
    assert shared_prints([same, same]).tolist() == [7]
    assert doubles({0: same, 1: same}, [["a"], ["b"]].__getitem__) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "coco"}, "coco"),
        ({"overwrite": "missing"}, "--engine local"),
        ({"address": "ray://head:10001"}, "ray://head:10001"),
    ],
)
def test_options_that_make_no_sense_on_a_cluster(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClusterOptions(out="c.jsonl", **options)  # type: ignore[arg-type]


def test_where_things_go() -> None:
    one, many = ClusterOptions(out="s3://b/c.jsonl"), ClusterOptions(out="s3://b/c/")
    assert (one.parts, one.errors, one.marker) == (
        "s3://b/c.jsonl.parts",
        "s3://b/c.jsonl.errors.jsonl",
        "s3://b/c.jsonl",
    )
    assert (many.parts, many.errors, many.marker) == (
        "s3://b/c/.parts",
        "s3://b/c/sightwords-errors.jsonl",
        "s3://b/c/sightwords-batch.json",
    )


def _work(folder: Path, **more: Any) -> Work:
    parts = Store.at(str(folder / "parts"))
    parts.write("batch.json", b"{}")
    here = {"parts": parts, "out": parts, "header": b"{}", "folder": str(folder), "threads": 1}
    options = ClusterOptions(out=str(folder / "c.jsonl"))
    return Work(**{"options": options, **here, **more})


def test_a_machine_that_cannot_share_in_the_work_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(_work(tmp_path))
    with pytest.raises(SightwordsError, match="nowhere"):
        prepare(_work(tmp_path, parts=Store.at(str(tmp_path / "nowhere"))))
    with pytest.raises(SightwordsError, match="parts"):
        prepare(_work(tmp_path, header=b"{...}"))
    with pytest.raises(SightwordsError, match=r"0\.0\.1"):
        prepare(_work(tmp_path, version="0.0.1"))


@pytest.mark.parametrize("file", ["slice", "keys"])
def test_a_damaged_file_of_a_slice_is_removed_and_done_again(tmp_path: Path, file: str) -> None:
    store = Store.at(str(tmp_path))
    Keys(["a", "b", "c"], []).save(store, 0, 2)
    save_slice(store, 0, 0, [{"id": name, "caption": "a dog"} for name in "ab"])
    save_slice(store, 0, 1, [{"id": "c", "caption": "a dog"}])
    done = Done.of(store.names())
    path = tmp_path / (slice_name(0, 0, 2) if file == "slice" else keys_name(0, 2))
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 5):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedPartsError, match=path.name):
            load_unit(store, 0, done)
        assert not path.exists()
    assert not Done.of(store.names()).whole(0)


def test_a_unit_whose_photos_changed_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.png\nb.png\n")
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(name.encode())
    store = Store.at(str(tmp_path / "parts"))

    def units() -> list[Unit]:
        return stamped(units_of(str(tmp_path / "list.txt"), images=None, slice_images=2))

    def done() -> Done:
        return Done.of(store.names(), {unit.number: unit.stamp for unit in units()})

    [unit] = units()
    Keys(["a.png", "b.png"], []).save(store, 0, 1, unit.stamp)
    save_slice(store, 0, 0, [{"id": "a.png"}, {"id": "b.png"}], unit.stamp)
    assert done().whole(0)
    (tmp_path / "a.png").rename(tmp_path / "c.png")  # swapped: same sizes, same times
    (tmp_path / "b.png").rename(tmp_path / "a.png")
    (tmp_path / "c.png").rename(tmp_path / "b.png")
    assert not done().whole(0)
    assert done().images == 0


def _actor(work: Work, caption: Any) -> Captioning:
    """As one that Ray has started in place of another."""
    actor = Captioning.__new__(Captioning)
    actor._work, actor._wrong, actor._replaces_another = work, "", True
    actor._threads = ThreadPoolExecutor(1)
    actor._captioner = cast("Captioner", caption)
    return actor


class _LostError(BaseException):
    """What the test sees instead of the end of its own process."""


def test_a_photo_that_ends_every_actor_is_an_error_by_name(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    work = _work(tmp_path)

    def caption(image: ImageRef) -> Any:
        if image.location == "b.png":
            raise _LostError
        raise InputError(f"{image}: no image")

    items = pickle.dumps([Item(name, ImageRef(name, data=b"")) for name in ("a.png", "b.png")])
    row = {"unit": 3, "stamp": "", "slice": 2, "images": 2, "failed": 0, "fatal": ""}
    losses = 0
    while True:
        try:
            [said] = _actor(work, caption)(table({**row, "items": items})).to_pylist()
            break
        except _LostError:
            losses += 1
    assert losses == 1 + TRIES  # together, then by itself
    assert (said["failed"], said["fatal"]) == (2, "")
    lines = work.parts.read(slice_name(3, 2, 2)).splitlines()
    errors = [record["error"] for record in map(record_of, lines) if record]
    assert errors[0] == "a.png: no image"
    assert errors[1].startswith("b.png: the process that captions it died or hangs")


def test_a_folder_that_is_replaced_is_not_called_whole_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "captions"
    work = _work(tmp_path, options=ClusterOptions(out=str(out)), out=Store.at(str(out)))
    marker = out / "sightwords-batch.json"
    out.mkdir()
    marker.write_text("{}")  # of the batch before
    monkeypatch.setattr(ray_run, "source_of", _killed)
    job: Any = SimpleNamespace(ray=None, units=[Unit(0)], work=work, options=work.options)
    with pytest.raises(KeyboardInterrupt):
        ray_run._files(job, Done(read={0: 0}), Progress(0))
    assert not marker.exists()


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_actor_of_a_killed_batch_writes_into_no_other(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    work = _work(tmp_path)
    actor = Captioning.__new__(Captioning)
    actor._work, actor._wrong, actor._replaces_another = work, "", False
    actor._threads = ThreadPoolExecutor(1)
    actor._captioner = cast("Captioner", _says_nothing)
    items = pickle.dumps([Item("a.png", ImageRef("a.png"))])
    row = {"unit": 0, "stamp": "", "slice": 0, "images": 1, "failed": 0, "fatal": ""}
    row["items"] = items
    [said] = actor(table(row)).to_pylist()
    assert (said["failed"], said["fatal"]) == (1, "")
    assert Done.of(work.parts.names()).images == 1
    work.parts.remove()
    work.parts.write("batch.json", b"{another}")
    [said] = actor(table(row)).to_pylist()
    assert "parts" in said["fatal"]
    assert work.parts.names() == ["batch.json"]


def _says_nothing(image: object) -> Any:
    raise InputError(f"{image}: no image")


def test_the_command_line_refuses_what_makes_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _shard(tmp_path / "s.tar", ["a.png"])
    command = ["batch", str(tmp_path / "s.tar"), "--out", str(tmp_path / "c.jsonl")]
    for more in (["--address", "auto"], ["--engine", "ray", "--in-place", "--format", "embedded"]):
        with pytest.raises(SystemExit):
            main([*command, *more])
    assert "--engine" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*command, "--engine", "ray"]) == 1
    assert "pip install 'sightwords[ray]'" in capsys.readouterr().err
