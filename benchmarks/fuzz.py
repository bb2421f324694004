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
import io
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
from PIL import Image

import sightwords
from sightwords.errors import ImageError
from sightwords.images import decode_apart
from sightwords.samples import sample_paths

HERE = Path(__file__).parent
MOST_SECONDS = 10.0
MOST_MEGABYTES = 600
CAPTIONED = 50
"""Every so many photos that decode, one is captioned as well: the rest of the way sees pixels."""

Outcome = tuple[str, str, float]
"""captioned, refused or broken; what was said; seconds."""


def main() -> int:
    """Run, print, and say whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bombs", action="store_true")
    parser.add_argument("--through", choices=("library", "batch", "server"), default="library")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    files = bombs(args.seed) if args.bombs else mutants(args.count, args.seed)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = THROUGH[args.through](files, Path(folder))
    report["minutes"] = round((time.monotonic() - begun) / 60, 1)
    text = json.dumps(report, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text)
    slow = report.get("slowest_seconds", 0) > MOST_SECONDS
    large = report.get("largest_process_mb", 0) > MOST_MEGABYTES
    return 1 if report["broken"] or slow or large else 0


# What is tried

Made = tuple[str, str, Callable[[Path], object]]
"""Format, file name, and what writes the file."""


def bombs(seed: int) -> Iterator[Made]:
    """Those of the tests, with sizes that the seed chooses; another process makes them."""
    with tempfile.TemporaryDirectory() as folder:
        code = "import runpy, sys, pathlib\nfor number, (name, write) in enumerate("
        code += "runpy.run_path(sys.argv[1])['bombs'](int(sys.argv[2])).items()):\n"
        code += "    ending = name.rpartition('.')[2]\n"
        code += "    write(pathlib.Path(sys.argv[3], f'{number:05d}-bomb.{ending}'))"
        made = HERE.parent / "tests" / "hostile" / "bombs.py"
        subprocess.run([sys.executable, "-c", code, str(made), str(seed), folder], check=True)
        for path in sorted(Path(folder).iterdir()):
            yield path.suffix[1:], path.name, path.rename


def mutants(count: int, seed: int) -> Iterator[Made]:
    """Valid photos of every format with bytes changed, lost, added or mixed."""
    rng = random.Random(seed)
    found = originals()
    kinds = sorted(found)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        data = mutated(rng, rng.choice(found[kind]), rng.choice(found[kind]))
        name = f"{number:05d}.{kind.partition('-')[0]}"
        yield kind, name, partial(_put, data)


def _put(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def originals() -> dict[str, list[bytes]]:
    """Small valid files by format and variant."""
    photos = [Image.open(path).convert("RGB").resize((96, 72)) for path in sample_paths()[:3]]
    found: dict[str, list[bytes]] = defaultdict(list)
    for photo in photos:
        for kind, file_format, mode, options in VARIANTS:
            stream = io.BytesIO()
            try:
                image = _deep(photo, mode) if mode in ("I;16", "F") else photo.convert(mode)
                if options.get("save_all"):
                    more = [image.rotate(angle) for angle in (90, 180)]
                    options = {**options, "append_images": more}
                image.save(stream, file_format, **options)
            except (OSError, KeyError, ValueError):  # a Pillow without that codec
                continue
            found[kind].append(stream.getvalue())
    return dict(found)


def _deep(photo: Image.Image, mode: str) -> Image.Image:
    grey = np.asarray(photo.convert("L"))
    return Image.fromarray(
        grey.astype(np.uint16) * 257 if mode == "I;16" else grey.astype(np.float32) / 255
    )


VARIANTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("jpg", "JPEG", "RGB", {}),
    ("jpg-progressive", "JPEG", "RGB", {"progressive": True}),
    ("jpg-cmyk", "JPEG", "CMYK", {}),
    ("jpg-grey", "JPEG", "L", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
    ("mpo", "MPO", "RGB", {"save_all": True}),
    ("png", "PNG", "RGB", {}),
    ("png-alpha", "PNG", "RGBA", {}),
    ("png-palette", "PNG", "P", {"transparency": 0}),
    ("png-deep", "PNG", "I;16", {}),
    ("png-bits", "PNG", "1", {}),
    ("png-animated", "PNG", "RGB", {"save_all": True}),
    ("webp", "WEBP", "RGB", {}),
    ("webp-lossless", "WEBP", "RGBA", {"lossless": True}),
    ("webp-animated", "WEBP", "RGB", {"save_all": True}),
    ("avif", "AVIF", "RGB", {"speed": 10}),
    ("gif", "GIF", "P", {}),
    ("gif-animated", "GIF", "P", {"save_all": True}),
    ("bmp", "BMP", "RGB", {}),
    ("bmp-palette", "BMP", "P", {}),
    ("tif", "TIFF", "RGB", {}),
    ("tif-lzw", "TIFF", "RGB", {"compression": "tiff_lzw"}),
    ("tif-deflate", "TIFF", "RGBA", {"compression": "tiff_adobe_deflate"}),
    ("tif-packbits", "TIFF", "L", {"compression": "packbits"}),
    ("tif-jpeg", "TIFF", "RGB", {"compression": "jpeg"}),
    ("tif-fax", "TIFF", "1", {"compression": "group4"}),
    ("tif-float", "TIFF", "F", {}),
    ("tif-pages", "TIFF", "RGB", {"save_all": True}),
    ("ppm", "PPM", "RGB", {}),
    ("pgm", "PPM", "L", {}),
    ("pbm", "PPM", "1", {}),
    ("pfm", "PPM", "F", {}),
    ("jp2", "JPEG2000", "RGB", {}),
    ("j2k", "JPEG2000", "L", {"no_jp2": True}),
]
EXTREMES = (
    b"\0\0",
    b"\xff\xff",
    b"\x7f\xff",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
)


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A file with one to three things done to it."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(found)) if found else 0
        length = rng.randint(1, 64)
        deed = rng.randrange(8)
        if deed == 0:
            for _ in range(rng.randint(1, 16)):
                found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        elif deed == 1:
            del found[at:]
        elif deed == 2:
            found[at : at + length] = bytes(length)
        elif deed == 3:
            found[at:at] = rng.randbytes(length)
        elif deed == 4:
            del found[at : at + length]
        elif deed == 5:
            found[at:] = other[rng.randrange(len(other)) :]
        elif deed == 6:
            found[at:at] = found[at : at + length] * rng.randint(1, 200)
        else:
            value = rng.choice(EXTREMES)
            near = rng.randrange(min(len(found), 200) or 1)
            found[near : near + len(value)] = value
        if not found:
            found = bytearray(b"\0")
    return bytes(found)


# How it is tried


def through_library(files: Iterator[Made], folder: Path) -> dict[str, Any]:
    """Through the library, which the command line calls too."""
    captioner = sightwords.load()
    decoded = 0
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    peaks: dict[int, int] = {}
    for kind, name, write in files:
        path = folder / name
        write(path)
        begun = time.monotonic()
        try:
            image = decode_apart(path)
            decoded += 1
            if decoded % CAPTIONED == 0:
                captioner(image)
            result = "captioned", ""
        except ImageError as error:
            result = "refused", str(error).removeprefix(f"{path}: ")
        except Exception as error:  # what must not happen
            result = "broken", f"{name}: {type(error).__name__}: {error}"
        outcomes[kind].append((*result, time.monotonic() - begun))
        _note_peaks(peaks)
        path.unlink()
    return {**_report(outcomes), "largest_process_mb": max(peaks.values(), default=0)}


def through_batch(files: Iterator[Made], folder: Path) -> dict[str, Any]:
    """Through `sightwords batch` of all at once: each photo is listed once, and only once."""
    kinds: dict[str, str] = {}
    photos = folder / "photos"
    photos.mkdir()
    for kind, name, write in files:
        write(photos / name)
        if (photos / name).is_file():  # a folder's pipes and devices are left alone
            kinds[name] = kind
    names = folder / "list.txt"
    names.write_text("\n".join(kinds))
    out = folder / "captions.jsonl"
    command = [sys.executable, "-m", "sightwords.cli.main", "batch", str(names), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--images", str(photos)], stderr=subprocess.PIPE, text=True
    )
    peaks: dict[int, int] = {}
    while process.poll() is None:
        _note_peaks(peaks, process.pid)
        time.sleep(0.05)
    said = process.stderr.read() if process.stderr else ""
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    listed: Counter[str] = Counter()
    for path, result in ((out, "captioned"), (Path(f"{out}.errors.jsonl"), "refused")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            listed[record["id"]] += 1
            outcomes[kinds[record["id"]]].append((result, record.get("error", ""), 0.0))
    for name, kind in kinds.items():
        if listed[name] != 1:
            outcomes[kind].append(("broken", f"{name}: listed {listed[name]} times", 0.0))
    if "Traceback" in said or process.returncode != 1:
        outcomes["batch"].append(("broken", f"exit {process.returncode}: {said[-500:]}", 0.0))
    return {**_report(outcomes), "largest_process_mb": max(peaks.values(), default=0)}


def through_server(files: Iterator[Made], folder: Path) -> dict[str, Any]:
    """Through a server with one worker."""
    port = 8973
    command = [sys.executable, "-m", "sightwords.cli.main", "serve", "--workers", "1"]
    server = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    while "serving at" not in server.stderr.readline():
        if server.poll() is not None:
            raise SystemExit("the server did not start")
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    peaks: dict[int, int] = {}
    with httpx.Client(timeout=60) as client:
        for kind, name, write in files:
            path = folder / name
            write(path)
            if not path.is_file() or path.stat().st_size > 32 << 20:
                path.unlink()
                continue
            begun = time.monotonic()
            answer = client.post(
                f"http://127.0.0.1:{port}/v1/words",
                content=path.read_bytes(),
                headers={"Content-Type": "image/jpeg"},
            )
            known = {200: "captioned", 422: "refused"}.get(answer.status_code, "broken")
            said = answer.text[:300] if known != "captioned" else ""
            outcomes[kind].append((known, said, time.monotonic() - begun))
            _note_peaks(peaks, server.pid)
            path.unlink()
    server.terminate()
    server.communicate()
    return {**_report(outcomes), "largest_process_mb": max(peaks.values(), default=0)}


THROUGH = {"library": through_library, "batch": through_batch, "server": through_server}


def _report(outcomes: dict[str, list[Outcome]]) -> dict[str, Any]:
    every = [one for several in outcomes.values() for one in several]
    return {
        "files": len(every),
        "by_format": {
            kind: dict(Counter(result for result, _, _ in several))
            for kind, several in sorted(outcomes.items())
        },
        "over_a_limit": sum("longer than" in said or "memory" in said for _, said, _ in every),
        "helper_crashed": sum("helper process ended" in said for _, said, _ in every),
        "slowest_seconds": round(max((seconds for _, _, seconds in every), default=0.0), 2),
        "broken": [said for result, said, _ in every if result == "broken"][:20],
    }


def _note_peaks(peaks: dict[int, int], pid: int | None = None) -> None:
    """The most resident memory that a process and all below it have had, in MB."""
    for one in _descendants(pid or "self"):
        try:
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text())
        except OSError:
            continue
        if found:
            key = 0 if one == "self" else int(one)
            peaks[key] = max(peaks.get(key, 0), int(found[1]) >> 10)


def _descendants(pid: int | str) -> list[int | str]:
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += task.read_text().split()
        except OSError:
            continue
    return [pid, *(found for child in children for found in _descendants(child))]


if __name__ == "__main__":
    sys.exit(main())
