"""Atomic writes: whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sightwords.files import atomic_path, write_text


def test_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "captions.jsonl"
    write_text(target, "old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half", encoding="utf-8")
        raise RuntimeError
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_cannot_be_written_to_is_told_by_the_files_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: Any) -> None:
        raise PermissionError(13, "Permission denied", str(options["dir"] / ".a-xyz.partial.txt"))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(PermissionError) as caught:
        write_text(tmp_path / "a.txt", "new")
    assert caught.value.filename == str(tmp_path / "a.txt")


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "captions.jsonl"
    write_text(target, "old")
    with pytest.raises(OSError, match=r"No space left.*captions\.jsonl'$"), atomic_path(target):
        raise OSError(errno.ENOSPC, "No space left on device")

    def refuse(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")  # as NFS does, when all is written

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=r"quota exceeded.*captions\.jsonl'$"):
        write_text(target, "new")
    assert target.read_text(encoding="utf-8") == "old"


def test_success_replaces_and_makes_folders(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "captions.jsonl"
    write_text(target, "one\ntwo\n")
    assert target.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["x" * 255, "ж" * 125 + ".txt", "a\udcff.txt"])
def test_any_name_that_a_file_may_have(tmp_path: Path, name: str) -> None:
    write_text(tmp_path / name, "text")
    assert (tmp_path / name).read_text(encoding="utf-8") == "text"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions_are_those_of_a_plain_open(tmp_path: Path) -> None:
    plain, ours, kept = tmp_path / "plain", tmp_path / "ours", tmp_path / "kept"
    plain.write_text("x", encoding="utf-8")
    write_text(ours, "x")
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    kept.write_text("x", encoding="utf-8")
    kept.chmod(0o640)
    write_text(kept, "y")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
