"""Bombs through the command line, a batch and the server, under limits of the operating system.

Each process may allocate 600 MB (RLIMIT_DATA), each photo may take 10 seconds with the default
limits, and no bomb may keep the sound photos among them from being captioned.
`benchmarks/fuzz.py` runs all of them.
"""

from __future__ import annotations

import http.client
import json
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from sightwords.corpus.folder import is_image_name

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits that Linux enforces")

Writer = Callable[[Path], None]

MEMORY = 600 << 20
SECONDS = 10.0
BOMBS: dict[str, Writer] = runpy.run_path(str(Path(__file__).with_name("bombs.py")))["bombs"]()


def start(arguments: Sequence[object], folder: Path) -> subprocess.Popen[str]:
    """`sightwords ...` with a memory limit that its own processes inherit."""
    code = (
        "import resource, sys; from sightwords.cli.main import main\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))\n"
        "if __name__ == '__main__': sys.exit(main())\n"
    )
    script = folder / "limited.py"
    script.write_text(code)
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, list[str], float]:
    """Exit code, lines, and the longest time between two of them."""
    assert process.stdout is not None
    peaks: dict[int, int] = {}
    watcher = threading.Thread(target=_watch, args=(process, peaks))
    watcher.start()
    lines, longest, last = [], 0.0, time.monotonic() + 30  # to start
    for line in process.stdout:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        lines.append(line)
    process.wait()
    watcher.join()
    assert 0 < max(peaks.values()) < MEMORY, "resident memory of the largest process"
    return process.returncode, lines, longest


def _watch(process: subprocess.Popen[str], peaks: dict[int, int]) -> None:
    """Note the most memory that each process ever had; end them all after ten minutes."""
    until = time.monotonic() + 600
    while process.poll() is None:
        for pid in descendants(process.pid):
            peaks[pid] = max(peaks.get(pid, 0), peak(pid))
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.05)


def write(folder: Path, names: Sequence[str]) -> list[Path]:
    """These bombs, and a sound photo before and after them."""
    folder.mkdir()
    for name in names:
        BOMBS[name](folder / name)
    for name in ("aaa-sound.jpg", "zzz-sound.jpg"):
        Image.new("RGB", (64, 48), "green").save(folder / name)
    return [folder / "aaa-sound.jpg", *(folder / n for n in names), folder / "zzz-sound.jpg"]


def third(number: int) -> list[str]:
    return sorted(BOMBS)[number::3]


def test_the_command_line_names_every_bomb_and_goes_on(tmp_path: Path, tiny_bundle: Path) -> None:
    paths = write(tmp_path / "photos", third(0))
    code, lines, longest = finish(start(["caption", "--bundle", tiny_bundle, *paths], tmp_path))
    text = "".join(lines)
    assert "Traceback" not in text
    assert len(text) < 100_000
    assert longest < SECONDS
    assert len(lines) == len(paths), "one line per photo"
    assert lines[0].startswith(str(paths[0]))
    assert lines[-1].startswith(str(paths[-1]))
    assert code == 1


def test_a_batch_lists_every_bomb_and_captions_the_rest(tmp_path: Path, tiny_bundle: Path) -> None:
    folder, out = tmp_path / "photos", tmp_path / "captions.jsonl"
    names = third(1)
    write(folder, names)
    begun = time.monotonic()
    command = ["batch", folder, "--out", out, "--bundle", tiny_bundle, "--workers", "2"]
    code, lines, _ = finish(start(command, tmp_path))
    assert "Traceback" not in "".join(lines)
    assert len("".join(lines)) < 100_000
    assert time.monotonic() - begun < SECONDS * len(names)
    done = {json.loads(line)["id"] for line in out.read_text().splitlines()}
    errors = [json.loads(line) for line in (tmp_path / f"{out.name}.errors.jsonl").open()]
    assert {"aaa-sound.jpg", "zzz-sound.jpg"} <= done
    wanted = {path.name for path in folder.iterdir() if path.is_file() and is_image_name(path.name)}
    assert done | {e["id"] for e in errors} == wanted
    assert not done & {e["id"] for e in errors}
    assert code == 1


def test_the_server_answers_every_bomb(tmp_path: Path, tiny_bundle: Path) -> None:
    pytest.importorskip("fastapi")
    bodies = _bodies(tmp_path, third(2))
    with serving(tmp_path, tiny_bundle) as (port, process):
        for name, body in bodies.items():
            begun = time.monotonic()
            status, answer = post(port, body)
            assert time.monotonic() - begun < SECONDS, name
            assert status in (200, 413, 422), (name, status, answer)
        sound = tmp_path / "sound.png"
        Image.new("RGB", (64, 48), "green").save(sound)
        assert post(port, sound.read_bytes())[0] == 200
        for pid in descendants(process.pid):
            assert peak(pid) < MEMORY


def _bodies(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Of the bombs that are files of a size that the server takes."""
    bodies = {}
    for number, name in enumerate(names):
        path = folder / f"{number}.bomb"
        BOMBS[name](path)
        if path.is_file() and path.stat().st_size < 32 << 20:
            bodies[name] = path.read_bytes()
        path.unlink()
    return bodies


@contextmanager
def serving(folder: Path, bundle: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command = ["serve", "--port", "8971", "--workers", "1", "--bundle", bundle]
    process = start(command, folder)
    assert process.stdout is not None
    try:
        while not (found := re.search(r"serving at \S+:(\d+)", process.stdout.readline())):
            assert process.poll() is None
        yield int(found[1]), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def post(port: int, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"Content-Type": "image/jpeg"}
        connection.request("POST", "/v1/caption", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def descendants(pid: int) -> list[int]:
    try:
        tasks = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return []
    children = [int(child) for text in tasks for child in text.split()]
    return [pid, *(found for child in children for found in descendants(child))]


def peak(pid: int) -> int:
    """The most resident memory that a process ever had, in bytes; 0 once it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0
