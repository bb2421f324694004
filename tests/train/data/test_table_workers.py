"""Processes that decode into rows make the same table as one process, or a clear error."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightwords.errors import CorpusError, ExternalToolError
from sightwords.train.data import image_table as tables
from sightwords.train.data import table_workers as table_rows
from sightwords.train.data.image_table import INDEX_NAME, build_table
from sightwords.types import Example


def _with_bad(made: Any, folder: Path, bad: tuple[int, ...]) -> list[Example]:
    examples: list[Example] = made.examples(folder)
    for number in bad:
        (folder / f"{number:03d}.png").write_bytes(b"no image")
    return examples


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("bad", [(), (0, 5, 6, 40), (99,), (0, 50, 98, 99)])
def test_bad_images_leave_no_gaps(
    squares: Any, tmp_path: Path, workers: int, bad: tuple[int, ...]
) -> None:
    made = squares(100)
    examples = _with_bad(made, tmp_path / "in", bad)
    counted: list[int] = []
    table = build_table(
        examples, tmp_path / "t", side_px=48, workers=workers, progress=counted.append
    )
    good = [number for number in range(100) if number not in bad]
    assert table.ids == tuple(f"{number:03d}" for number in good)
    np.testing.assert_array_equal(table.pixels, made.pixels[good])
    assert table.captions == tuple(tuple(made.captions[number]) for number in good)
    assert counted == list(range(1, len(good) + 1))


@pytest.mark.parametrize("workers", [0, 1])
def test_no_processes_if_none_are_wanted(
    squares: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.delattr(table_rows, "ProcessPoolExecutor")
    examples = squares(100).examples(tmp_path / "in")
    assert len(build_table(examples, tmp_path / "t", side_px=48, workers=workers)) == 100


def test_every_bad_image_is_logged_once(
    squares: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    examples = _with_bad(squares(100), tmp_path / "in", (7, 77))
    with caplog.at_level(logging.WARNING):
        build_table(examples, tmp_path / "t", side_px=48, workers=2)
    named = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in named] == ["left out 007", "left out 077"]


def test_workers_get_large_images_one_by_one(squares: Any, tmp_path: Path) -> None:
    made = squares(70)
    examples = made.examples(tmp_path / "in")
    groups = [(first, len(group)) for first, group in table_rows._groups(examples)]
    assert groups == [(0, 32), (32, 32), (64, 6)]
    heavy = [
        Example(e.id, type(e.image)("memory", data=bytes(1 << 20)), e.captions, "train", "")
        for e in examples
    ]
    assert [len(group) for _, group in table_rows._groups(heavy)] == [1] * 70


def _then(examples: list[Example], place: int, act: Any) -> Iterator[Example]:
    for number, example in enumerate(examples):
        if number == place:
            act()
        yield example


def _killed_worker() -> None:
    multiprocessing.active_children()[0].kill()


def test_a_killed_worker_is_an_error(squares: Any, tmp_path: Path) -> None:
    examples = squares(400).examples(tmp_path / "in")
    with pytest.raises(ExternalToolError, match=r"run\.workers"):
        build_table(_then(examples, 300, _killed_worker), tmp_path / "t", side_px=48, workers=2)
    assert not (tmp_path / "t" / INDEX_NAME).exists()
    assert len(build_table(examples, tmp_path / "t", side_px=48, workers=2)) == 400


@pytest.mark.parametrize("workers", [1, 2])
def test_two_processes_cannot_decode_into_one_table(
    squares: Any, tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one gets an error while the first one is at work; the first one continues."""
    monkeypatch.setattr(tables, "CLAIM_SECONDS", 0.2)
    made = squares(100)
    examples = made.examples(tmp_path / "in")
    refused: list[str] = []

    def another() -> None:
        with pytest.raises(CorpusError, match="another process") as error:
            build_table(examples[:5], tmp_path / "t", side_px=48)
        refused.append(str(error.value))

    table = build_table(_then(examples, 80, another), tmp_path / "t", side_px=48, workers=workers)
    assert len(refused) == 1
    np.testing.assert_array_equal(table.pixels, made.pixels)
    assert len(build_table(examples[:5], tmp_path / "t", side_px=48)) == 5  # a claim ends


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_named(
    squares: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(multiprocessing, "get_context", lambda _=None: _forking())
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"pixels\.raw"):
        build_table(squares(80).examples(tmp_path / "in"), tmp_path / "t", side_px=48,
                    workers=workers)  # fmt: skip


_CONTEXT = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


def _forking() -> Any:
    """Workers that have the test's changes."""
    return _CONTEXT


def test_a_partial_write_is_completed(
    squares: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = squares(5)
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:1000]))
    table = build_table(made.examples(tmp_path / "in"), tmp_path / "t", side_px=48)
    np.testing.assert_array_equal(table.pixels, made.pixels)


MAIN = """
import multiprocessing, os, signal, sys, time
from pathlib import Path
from sightwords.train.data.image_table import build_table
from sightwords.types import Example, ImageRef

def examples():
    for number in range(10_000):
        if number == 200:
            print(*(p.pid for p in multiprocessing.active_children()), flush=True)
            os.kill(os.getpid(), signal.{signal})
            time.sleep(60)
        yield Example(str(number), ImageRef({image!r}), ("a",), "train", "")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
build_table(examples(), {folder!r}, side_px=48, workers=3)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_workers_end_with_the_main_process(squares: Any, tmp_path: Path, how: str) -> None:
    squares(1).examples(tmp_path / "in")
    script = MAIN.format(signal=how, image=str(tmp_path / "in/000.png"), folder=str(tmp_path / "t"))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == -getattr(signal, how), done.stderr
    workers = [int(number) for number in done.stdout.split()]
    assert len(workers) == 3
    # At once, as torchrun does after a kill; this waits for workers that are still ending.
    again = build_table(squares(2).examples(tmp_path / "in"), tmp_path / "t", side_px=48)
    assert len(again) == 2
    for _ in range(300):
        if not any(map(_runs, workers)):
            break
        time.sleep(0.1)
    assert not any(map(_runs, workers))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] != "Z"
