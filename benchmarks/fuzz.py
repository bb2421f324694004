"""Thousands of damaged and hostile photos through the library, a batch and the server.

    python benchmarks/fuzz.py --count 10000 --seed 1 --out fuzz.json      damaged photos
    python benchmarks/fuzz.py --bombs --seed 1 --out bombs.json           files made to exhaust us
    python benchmarks/fuzz.py --count 1000 --through batch|server         by another way

Every file must end as a caption or as an error of ours that names it, within 10 seconds and 600 MB
per process. Prints the outcomes by format, the slowest file and the largest process, and exits with
1 if any file did something else. The bombs are those of `tests/hostile/bombs.py`.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil

import sightwords
from fuzz_photos import damaged_photos  # type: ignore[import-not-found]
from sightwords.errors import ImageError
from sightwords.images import decode_apart

ROOT = Path(__file__).parents[1]
SIGHTWORDS = [sys.executable, "-m", "sightwords"]
MOST_SECONDS = 10.0
MOST_MEGABYTES = 600
CAPTIONED = 50
"""One of so many photos that decode is captioned as well, to try the rest of the way."""


def main() -> int:
    """Run, print, and say whether all went well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bombs", action="store_true")
    parser.add_argument("--through", choices=tuple(THROUGH), default="library")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    begun, outcomes = time.monotonic(), Outcomes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = bombs(args.seed, folder) if args.bombs else photos(args.count, args.seed, folder)
        THROUGH[args.through](files, folder, outcomes)
    report = {**outcomes.report(), "minutes": round((time.monotonic() - begun) / 60, 1)}
    text = json.dumps(report, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text)
    slow, large = report["slowest_seconds"], report["largest_process_mb"]
    return 1 if report["broken"] or slow > MOST_SECONDS or large > MOST_MEGABYTES else 0


Files = Iterator[tuple[str, Path]]
"""Format and path of a file that was written for the next attempt; the attempt removes it."""


def bombs(seed: int, folder: Path) -> Files:
    """Those of the tests, with sizes that the seed chooses; another process makes them."""
    code = "import pathlib, runpy, sys\nfor number, (name, write) in enumerate("
    code += "runpy.run_path(sys.argv[1])['bombs'](int(sys.argv[2])).items()):\n"
    code += "    ending = name.rpartition('.')[2]\n"
    code += "    write(pathlib.Path(sys.argv[3], f'{number:05d}-bomb.{ending}'))"
    source = str(ROOT / "tests" / "hostile" / "bombs.py")
    subprocess.run([sys.executable, "-c", code, source, str(seed), str(folder)], check=True)
    for path in sorted(folder.iterdir()):
        yield path.suffix[1:], path


def photos(count: int, seed: int, folder: Path) -> Files:
    """Valid photos of every format with bytes changed, lost, added or mixed."""
    for kind, name, data in damaged_photos(count, seed):
        (folder / name).write_bytes(data)
        yield kind, folder / name


class Outcomes:
    """What happened to the files, and how large the processes were."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
        self._peaks_mb: dict[int, int] = {}

    def add(self, kind: str, result: str, said: str = "", seconds: float = 0.0) -> None:
        """One file was `captioned`, `refused` or `broken`."""
        self._seen[kind].append((result, said, seconds))

    def note_memory(self, pid: int | None = None) -> None:
        """The most resident memory that a process and all below it have had."""
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                with suppress(OSError):
                    status = Path(f"/proc/{one.pid}/status").read_text()
                    if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                        peak = int(found[1]) >> 10
                        self._peaks_mb[one.pid] = max(self._peaks_mb.get(one.pid, 0), peak)

    def report(self) -> dict[str, Any]:
        """The figures as JSON."""
        every = [one for several in self._seen.values() for one in several]
        return {
            "files": len(every),
            "by_format": {
                kind: dict(Counter(result for result, _, _ in several))
                for kind, several in sorted(self._seen.items())
            },
            "over_a_limit": sum("longer than" in said or "memory" in said for _, said, _ in every),
            "helper_crashed": sum("the helper process" in said for _, said, _ in every),
            "slowest_seconds": round(max((seconds for _, _, seconds in every), default=0.0), 2),
            "broken": [said for result, said, _ in every if result == "broken"][:20],
            "largest_process_mb": max(self._peaks_mb.values(), default=0),
        }


def through_library(files: Files, folder: Path, outcomes: Outcomes) -> None:
    """Through the library, which the command line calls too."""
    captioner = sightwords.load()
    decoded = 0
    for kind, path in files:
        begun, result, said = time.monotonic(), "captioned", ""
        try:
            image = decode_apart(path)
            decoded += 1
            if decoded % CAPTIONED == 0:
                captioner(image)
        except ImageError as error:
            result, said = "refused", str(error).removeprefix(f"{path}: ")
        except Exception as error:  # what must not happen
            result, said = "broken", f"{path.name}: {type(error).__name__}: {error}"
        outcomes.add(kind, result, said, time.monotonic() - begun)
        outcomes.note_memory()
        path.unlink()


def through_batch(files: Files, folder: Path, outcomes: Outcomes) -> None:
    """Through `sightwords batch` of all at once: each photo is listed once, and only once."""
    # A folder's pipes and devices are left alone.
    kinds = {path.name: kind for kind, path in files if path.is_file()}
    names, out = folder / "list.txt", folder / "captions.jsonl"
    names.write_text("\n".join(kinds))
    command = [*SIGHTWORDS, "batch", str(names), "--out", str(out), "--images", str(folder)]
    with (folder / "stderr").open("w+") as stderr:
        process = subprocess.Popen(command, stderr=stderr)
        while process.poll() is None:
            outcomes.note_memory(process.pid)
            time.sleep(0.05)
        stderr.seek(0)
        said = stderr.read()
    listed: Counter[str] = Counter()
    for path, result in ((out, "captioned"), (Path(f"{out}.errors.jsonl"), "refused")):
        for record in map(json.loads, path.read_text().splitlines()):
            listed[record["id"]] += 1
            outcomes.add(kinds[record["id"]], result, record.get("error", ""))
    for name, kind in kinds.items():
        if listed[name] != 1:
            outcomes.add(kind, "broken", f"{name}: listed {listed[name]} times")
    if "Traceback" in said or process.returncode != 1:
        outcomes.add("batch", "broken", f"exit {process.returncode}: {said[-500:]}")


def through_server(files: Files, folder: Path, outcomes: Outcomes) -> None:
    """Through a server with one worker."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*SIGHTWORDS, "serve", "--workers", "1", "--port", str(port)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    while "serving at" not in server.stderr.readline():
        if server.poll() is not None:
            raise SystemExit("the server did not start")
    with httpx.Client(timeout=60, base_url=f"http://127.0.0.1:{port}") as client:
        for kind, path in files:
            if path.is_file() and path.stat().st_size <= 32 << 20:
                begun = time.monotonic()
                answer = client.post(
                    "/v1/words", content=path.read_bytes(), headers={"Content-Type": "image/jpeg"}
                )
                result = {200: "captioned", 422: "refused"}.get(answer.status_code, "broken")
                said = answer.text[:300] if result != "captioned" else ""
                outcomes.add(kind, result, said, time.monotonic() - begun)
                outcomes.note_memory(server.pid)
            path.unlink()
    server.terminate()
    server.communicate()


THROUGH = {"library": through_library, "batch": through_batch, "server": through_server}

if __name__ == "__main__":
    sys.exit(main())
