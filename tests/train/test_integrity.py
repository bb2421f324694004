"""Damaged files of training are noticed by their sums; what they held is made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from sightwords.train.integrity import (
    damage,
    is_whole,
    read_sealed,
    summed_path,
    sums_of,
    write_sealed,
)
from sightwords.train.stages import DONE_NAME, Job, Stage, run_stages


def flipped(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flipped,
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "longer": lambda data: data + b"\n",
    "list": lambda _: b"[1, 2]\n",
    "object": lambda _: b'{"sum": "0"}\n',
    "deep": lambda _: b"[" * 100_000,
}


def text_file(path: Path) -> None:
    with summed_path(path) as temporary:
        temporary.write_text("as it was written", encoding="utf-8")


def array_file(path: Path) -> None:
    with summed_path(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, numbers=np.arange(10))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("write", [text_file, array_file])
def test_a_file_with_its_own_sum(
    tmp_path: Path, write: Callable[[Path], None], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.npz"
    assert not is_whole(path)
    write(path)
    (tmp_path / ".state-k1.partial.npz").write_bytes(b"left by a kill")
    assert is_whole(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
    assert not caplog.records
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    assert not is_whole(path)
    assert "state.npz" in caplog.text


def test_the_sum_at_the_end_is_looked_past(tmp_path: Path) -> None:
    array_file(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as arrays:
        assert arrays["numbers"].tolist() == list(range(10))


def test_every_byte_counts(tmp_path: Path) -> None:
    text_file(tmp_path / "state")
    whole = (tmp_path / "state").read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        (tmp_path / "state").write_bytes(changed)
        assert not is_whole(tmp_path / "state")


@pytest.mark.parametrize("how", [name for name in DAMAGES if name != "longer"])
def test_a_sealed_document(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    path, document = tmp_path / "a.json", {"ids": ["ä", "\u2028"], "share": 0.1, "none": None}
    write_sealed(path, document)
    assert read_sealed(path) == document
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    assert read_sealed(path) is None
    assert "a.json" in caplog.text


def test_files_beside_a_document(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "a").write_bytes(b"12")
    (tmp_path / "b").write_bytes(b"3")
    sums = sums_of(tmp_path)
    assert list(sums) == ["b", "words/a"]
    assert damage(tmp_path, sums) is None
    (tmp_path / "words" / "a").write_bytes(b"13")
    assert "words/a is not what was written" in str(damage(tmp_path, sums))
    (tmp_path / "words" / "a").write_bytes(b"123")
    assert "words/a has 3 bytes, expected 2" in str(damage(tmp_path, sums))
    (tmp_path / "words" / "a").unlink()
    assert "words/a cannot be read (No such file" in str(damage(tmp_path, sums))


def table(log: list[str]) -> tuple[Stage[Mapping[str, int]], ...]:
    """b needs a. With "other" in the recipe, a writes something else, as a GPU may."""

    def first(job: Job[Mapping[str, int]]) -> Mapping[str, object]:
        log.append("a")
        (job.folder / "out").mkdir(exist_ok=True)
        (job.folder / "out" / "number").write_text(str(job.recipe.get("other", 1)), "utf-8")
        return {}

    def second(job: Job[Mapping[str, int]]) -> Mapping[str, object]:
        log.append("b")
        number = int((job.inputs["a"] / "out" / "number").read_text("utf-8"))
        (job.folder / "double").write_text(str(2 * number), "utf-8")
        return {"double": 2 * number}

    return (
        Stage("a", (), lambda _: "", first),
        Stage("b", ("a",), lambda _: "", second),
    )


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["out/number", DONE_NAME])
def test_a_damaged_stage_runs_again(
    tmp_path: Path, name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    found = run_stages(table(log), {}, tmp_path)
    path = found.folders["a"] / name
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    (found.folders["a"] / ".number-k1.partial").write_bytes(b"left by a kill")
    again = run_stages(table(log), {}, tmp_path)
    if (name, how) == (DONE_NAME, "longer"):  # a line end more in a JSON file
        assert log == ["a", "b"]
    else:
        assert log == ["a", "b", "a"]  # what it wrote is as before: b stays
        assert path.name in caplog.text
    assert again.figures == found.figures == {"a": {}, "b": {"double": 2}}
    assert not list(tmp_path.rglob("*.partial*"))


def test_stages_follow_when_another_run_of_one_writes_other_files(tmp_path: Path) -> None:
    log: list[str] = []
    found = run_stages(table(log), {}, tmp_path)
    (found.folders["a"] / "out" / "number").unlink()
    again = run_stages(table(log), {"other": 5}, tmp_path)
    assert log == ["a", "b", "a", "b"]
    assert again.figures["b"] == {"double": 10}
    (found.folders["b"] / DONE_NAME).write_bytes((found.folders["a"] / DONE_NAME).read_bytes())
    run_stages(table(log), {"other": 5}, tmp_path)
    assert log == ["a", "b", "a", "b", "b"]
