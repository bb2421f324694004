"""Whether `--in-place` ever damages a photo: valid and damaged files of every format, checked.

    python benchmarks/fuzz_in_place.py --count 5000 --seed 1

Each file gets a made-up caption as a batch would give it. What counts as damage is decided here
without the package's own code: Pillow's pixels, exiftool's metadata, the bytes that are common to
the file before and after, and, where a photo was left as it is, all of its bytes, times and mode.
Files that were found damaged are kept in --keep. Exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fuzz_photos import photo_with_metadata  # type: ignore[import-not-found]
from sightwords.batch.photo_files import PhotoFile, write_instead, write_photo_file
from sightwords.batch.xmp import EmbedError

GROUP = 250
"""Files that exiftool reads at a time."""
RECORD = {
    "caption": "a dog & a <größer> cat",
    "words": [{"word": word, "used": True} for word in ("dog", "cat")],
}
_MAY_CHANGE = (
    "System:", "SourceFile", "XMP-dc:Description", "XMP-dc:Subject",
    "XMP-iptcCore:AltTextAccessibility", "File:FileType", "RIFF:WebP_Flags", "RIFF:ImageWidth",
    "RIFF:ImageHeight", "RIFF:AlphaIsUsed",
)  # fmt: skip
_PLACES = ("Offset", "Start", "Offsets")
"""Ends of tags that give a place in the file, which may move with all that it points to."""
_MARKS = (b"adobe:ns:meta", b"com.adobe.xmp", b"ns.adobe.com/xap")
_TIME_NS = 10**18


def main() -> int:
    """Caption the files group by group, print the counts, and say whether all are whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("damaged-photos"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = random.Random(args.seed)
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    begun = time.monotonic()
    for first in range(0, args.count, GROUP):
        with tempfile.TemporaryDirectory() as folder:
            numbers = range(first, min(args.count, first + GROUP))
            _group(rng, Path(folder), numbers, args.keep, counts, reasons)
        print(f"{first + GROUP} files, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    _print(counts, reasons)
    return 1 if any(outcome == "damaged" for _, outcome in counts) else 0


def _group(
    rng: random.Random,
    folder: Path,
    numbers: range,
    keep: Path,
    counts: Counter[tuple[str, str]],
    reasons: Counter[str],
) -> None:
    photos = {}
    for number in numbers:
        kind, data = photo_with_metadata(rng)
        path = folder / f"{number:06}.{kind.partition('-')[0]}"
        path.write_bytes(data)
        os.utime(path, ns=(_TIME_NS + number, _TIME_NS + number))
        photos[path] = (kind, data)
    before = _exiftool(folder)
    outcomes = {path: _caption(path, reasons) for path in photos}
    after = _exiftool(folder)
    for path, (kind, data) in photos.items():
        wrong = _wrong(path, data, outcomes[path])
        if not wrong and outcomes[path] == "rewritten":
            wrong = _other_tags(before.get(path.name, {}), after.get(path.name, {}))
        if wrong:
            print(f"{kind} {path.name}: {wrong}", file=sys.stderr)
            keep.mkdir(exist_ok=True)
            (keep / path.name).write_bytes(data)
            shutil.copyfile(path, keep / f"after-{path.name}")
        counts[kind, "damaged" if wrong else outcomes[path]] += 1


def _caption(path: Path, reasons: Counter[str]) -> str:
    file = PhotoFile(path, path, path.with_suffix(".xmp"))
    record: dict[str, Any] = {"id": path.name, **RECORD}
    try:
        wrong = write_photo_file("embedded", file, record, overwrite="missing")
        return "rewritten" if wrong is None else "no sidecar"
    except EmbedError as error:
        reasons[str(error).split(": ", 2)[2].split(" (")[0].split(" at byte")[0]] += 1
        failed = {**record, "error": str(error)}
        write_instead(file.sidecar, failed, keep=True)
        return "sidecar" if file.sidecar.exists() else "no sidecar"


def _wrong(path: Path, old: bytes, outcome: str) -> str | None:
    new, state = path.read_bytes(), path.stat()
    if state.st_mtime_ns != _TIME_NS + int(path.stem):
        return "another modification time"
    if outcome == "no sidecar":
        return "no sidecar was written"
    if outcome != "rewritten":
        return None if new == old else "changed, though it was said to be left as it is"
    try:
        pixels = _pixels(old)
    except Exception as error:
        return f"rewritten, though it could not be decoded ({error!r})"
    try:
        if _pixels(new) != pixels:
            return "other pixels"
    except Exception as error:
        return f"can no longer be decoded ({error!r})"
    return _lost_bytes(old, new, path.suffix)


def _pixels(data: bytes) -> list[object]:
    found: list[object] = []
    with Image.open(io.BytesIO(data)) as image:
        found.append(image.format)
        for frame in range(getattr(image, "n_frames", 1)):
            image.seek(frame)
            image.load()
            digest = hashlib.sha256(image.tobytes()).hexdigest()
            times = [image.info.get(name) for name in ("duration", "loop", "transparency", "dpi")]
            found.append((image.mode, image.size, digest, image.getpalette(), times))
    return found


def _lost_bytes(old: bytes, new: bytes, ending: str) -> str | None:
    """Bytes of the old file that the new one lacks, other than an older packet."""
    if ending == ".tif":
        changed = sum(a != b for a, b in zip(old, new, strict=False))
        return None if changed <= 8 and len(new) > len(old) else f"{changed} bytes changed"
    if ending == ".webp":  # RIFF's length, VP8X and the packet change
        old, new = old[12:], new[12:]
        old = old[18:] if old.startswith(b"VP8X") else old
        new = new[18:]
    front = _common(old, new)
    back = _common(old[front:][::-1], new[front:][::-1])
    lost = old[front : len(old) - back]
    if lost and not any(mark in old for mark in _MARKS):
        return f"lost {len(lost)} bytes"
    if len(lost) > 4000 or b"IDAT" in lost or b"\xff\xda" in lost:
        return f"lost {len(lost)} bytes beside its XMP"
    return None


def _common(first: bytes, second: bytes) -> int:
    """How many bytes are the same from the start."""
    length = min(len(first), len(second))
    a, b = (np.frombuffer(data, np.uint8, length) for data in (first, second))
    differing = np.flatnonzero(a != b)
    return int(differing[0]) if len(differing) else length


def _exiftool(folder: Path) -> dict[str, dict[str, Any]]:
    if shutil.which("exiftool") is None:
        return {}
    command = ["exiftool", "-json", "-G1", "-a", "-struct", "-b", "-ext", "*", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    found = json.loads(done.stdout.decode("utf-8", "replace") or "[]", strict=False)
    return {Path(tags["SourceFile"]).name: tags for tags in found}


def _other_tags(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    changed = [
        f"{name}: {before.get(name)!r:.60} -> {after.get(name)!r:.60}"
        for name in sorted(before.keys() | after.keys())
        if not name.startswith(_MAY_CHANGE)
        and not name.endswith(_PLACES)
        and before.get(name) != after.get(name)
    ]
    return "; ".join(changed[:4]) or None


def _print(counts: Counter[tuple[str, str]], reasons: Counter[str]) -> None:
    columns = ("rewritten", "sidecar", "damaged")
    print("| format | " + " | ".join(columns) + " |\n|---" + "|---:" * len(columns) + "|")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"| {kind} | " + " | ".join(str(counts[kind, column]) for column in columns) + " |")
    totals = [sum(n for (_, c), n in counts.items() if c == column) for column in columns]
    print("| all | " + " | ".join(map(str, totals)) + " |\n")
    for reason, count in reasons.most_common(40):
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    sys.exit(main())
