"""SIGKILL `sightwords batch` at random moments and change its photos between the runs.

    python benchmarks/kill_batch.py --kills 300 --seed 1
    python benchmarks/kill_batch.py --kills 300 --seed 1 --bundle my-bundle --formats txt,csv

An episode is one output. Its run is killed again and again; after each kill photos are replaced,
added, removed, swapped, renamed or damaged, and the run is resumed with --resume. A run that ends
before it is killed is followed by one with --overwrite missing. At the end of an episode a run is
left alone. Then every photo of the source must have exactly one caption, and it must be the one
that its bytes get in an unbroken run; damaged photos, and no others, must be in the errors file;
no temporary file and no journal may be left.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from sightwords.batch import BatchOptions, Format
from sightwords.batch.outputs import read_results

NAMES = {
    "jsonl": "c.jsonl",
    "csv": "c.csv",
    "coco": "c.json",
    "txt": "texts",
    "parquet": "c.parquet",
}
PHOTOS = 14
KILLS_IN_AN_EPISODE = 8
COLOURS = ("red", "lime", "blue", "white", "black", "yellow", "magenta", "gray")


class Bench:
    """The photos that a source may have, what each one's caption is, and the counts."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.rng = random.Random(args.seed)
        self.bundle = ["--bundle", args.bundle] if args.bundle else []
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.pool = [self._photo(number) for number in range(3 * PHOTOS)]
        self.captions = self._captions()

    def _photo(self, number: int) -> bytes:
        """A small picture of two colours."""
        path = self.folder / "one.png"
        image = Image.new("RGB", (24, 24), COLOURS[number % len(COLOURS)])
        colour = tuple(self.rng.randrange(256) for _ in range(3))
        image.paste(colour, (0, 0, 8 + number % 9, 12))
        image.save(path)
        return path.read_bytes()

    def _captions(self) -> dict[str, str]:
        """By the sum of a photo's bytes: its caption in an unbroken run."""
        source, out = self.folder / "pool", self.folder / "pool.jsonl"
        source.mkdir()
        for number, data in enumerate(self.pool):
            (source / f"{number}.png").write_bytes(data)
        subprocess.run(self.command(source, out), check=True, capture_output=True)
        lines = map(json.loads, out.read_text(encoding="utf-8").splitlines())
        texts = {record["id"]: record["caption"] for record in lines}
        self.counts["different captions"] = len(set(texts.values()))
        return {_sum(data): texts[f"{n}.png"] for n, data in enumerate(self.pool)}

    def command(self, source: Path, out: Path, *more: str) -> list[str]:
        """One run of the batch."""
        given = [str(source), "--out", str(out), "--workers", "1", *self.bundle, *more]
        return [sys.executable, "-m", "sightwords", "batch", *given]


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Episode:
    """One output, from its first run to the last."""

    def __init__(self, bench: Bench, number: int, kind: Format) -> None:
        self.bench, self.rng = bench, bench.rng
        self.folder = bench.folder / f"episode-{number}"
        self.source = self.folder / "photos"
        self.to = BatchOptions(out=self.folder / NAMES[kind], format=kind)
        self.source.mkdir(parents=True)
        self.was_whole = False
        for photo in range(PHOTOS):
            self._put(f"{photo:03d}.png")

    def kill_once(self) -> bool:
        """Run the batch and kill it; whether it was still running."""
        run = subprocess.Popen(
            self.bench.command(self.source, self.to.out, *self._mode()),
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self._wait_for_the_moment(run)
        run.kill()
        said = run.communicate()[1].decode()
        if run.returncode == -9:
            self.bench.counts["kills"] += 1
            return True
        self._count_problems(run.returncode, said)
        self.was_whole = True
        return False

    def _mode(self) -> list[str]:
        # It may have been killed after its last act.
        self.was_whole |= not self.to.journal.exists() and self.to.sums.exists()
        overwrite = ["--overwrite", "missing"] if self.was_whole else []
        return ["--resume", *overwrite]

    def _wait_for_the_moment(self, run: subprocess.Popen[bytes]) -> None:
        """Some lines of the journal later, or when the output is written, and a little more."""
        at_the_end = self.rng.random() < 0.25
        lines = self._lines() + (10 * PHOTOS if at_the_end else self.rng.randint(1, PHOTOS // 2))
        until = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < until and self._lines() < lines:
            if at_the_end and any(self.folder.rglob(".*.partial*")) and self._lines() > 2:
                break
            time.sleep(0.0005)
        time.sleep(self.rng.random() * 0.01)

    def _lines(self) -> int:
        try:
            return self.to.journal.read_bytes().count(b"\n")
        except OSError:
            return 0

    def change(self) -> None:
        """Change some photos of the source."""
        for _ in range(self.rng.randint(1, 4)):
            names = sorted(path.name for path in self.source.iterdir())
            one, other = self.rng.sample(names, 2)
            what = self.rng.choice(["replace", "add", "remove", "swap", "rename", "damage"])
            if what == "replace":
                self._put(one)
            elif what == "add" or len(names) < PHOTOS // 2:
                self._put(f"{self.rng.randrange(1000):03d}.png")
            elif what == "remove":
                (self.source / one).unlink()
            elif what == "damage":
                (self.source / one).write_bytes(b"no image %d" % self.rng.randrange(10**9))
            else:
                (self.source / one).rename(self.source / "held")
                if what == "swap":
                    (self.source / other).rename(self.source / one)
                (self.source / "held").rename(self.source / other)
            self.bench.counts[what] += 1

    def _put(self, name: str) -> None:
        (self.source / name).write_bytes(self.rng.choice(self.bench.pool))

    def finish(self) -> None:
        """An unbroken run, and the checks."""
        done = subprocess.run(
            self.bench.command(self.source, self.to.out, *self._mode()),
            check=False,
            capture_output=True,
            text=True,
        )
        self._count_problems(done.returncode, done.stderr)
        photos = {path.name: path.read_bytes() for path in self.source.iterdir()}
        wanted = {n: self.bench.captions.get(_sum(data)) for n, data in photos.items()}
        found = self._found(set(photos))
        bad = {name for name, caption in wanted.items() if caption is None}
        counts = self.bench.counts
        counts["photos checked"] += len(photos)
        for name, caption in wanted.items():
            given = found.get(name, [])
            counts["LOST"] += caption is not None and not given
            counts["DOUBLED"] += len(given) > 1
            counts["FOREIGN"] += bool(given) and name not in bad and set(given) != {caption}
        counts["OF NO PHOTO"] += 0 if self.was_whole else len(found.keys() - photos.keys())
        counts["WRONG ERRORS"] += self._errors() != bad
        left = [p for p in self.folder.rglob("*") if ".partial" in p.name or p == self.to.journal]
        counts["FILES LEFT"] += len(left)
        if left:
            print(f"left: {[path.name for path in left]}", file=sys.stderr)

    def _count_problems(self, code: int, said: str) -> None:
        bad = any(p.read_bytes().startswith(b"no image") for p in self.source.iterdir())
        if code not in (0, 1) or "Traceback" in said or (code == 1 and not bad):
            self.bench.counts["WRONG EXIT"] += 1
            print(f"exit {code}: {said}", file=sys.stderr)

    def _found(self, photos: set[str]) -> dict[str, list[str]]:
        """By the photo's name: the captions that the output has for it."""
        found: dict[str, list[str]] = {}
        if self.to.format == "txt":
            for name in photos:
                text = self.to.out / f"{Path(name).stem}.txt"
                if text.exists():
                    found[name] = [text.read_text(encoding="utf-8").rstrip("\n")]
            return found
        for record in read_results(self.to.out, self.to.format):
            found.setdefault(self._name(record), []).append(record["caption"])
        return found

    def _errors(self) -> set[str]:
        if not self.to.errors.exists():
            return set()
        lines = self.to.errors.read_text(encoding="utf-8").splitlines()
        return {self._name(json.loads(line)) for line in lines}

    def _name(self, record: dict[str, Any]) -> str:
        return f"{int(record['id']):03d}.png" if self.to.format == "coco" else str(record["id"])


def main() -> int:
    """Kill, change, resume, check; print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bundle", help="a smaller bundle makes the runs shorter")
    parser.add_argument("--formats", default=",".join(NAMES))
    args = parser.parse_args()
    kinds = args.formats.split(",")
    with tempfile.TemporaryDirectory(prefix="kill-batch-") as folder:
        bench = Bench(args, Path(folder))
        number = 0
        while bench.counts["kills"] < args.kills:
            kind = kinds[number % len(kinds)]
            episode = Episode(bench, number, kind)
            number += 1
            for _ in range(bench.rng.randint(1, KILLS_IN_AN_EPISODE)):
                episode.kill_once()
                episode.change()
            episode.finish()
            shutil.rmtree(episode.folder)
            done = f"{bench.counts['kills']} kills, wrong: {_wrong(bench) or 'nothing'}"
            print(f"episode {number} ({kind}): {done}", flush=True)
    print(json.dumps({"episodes": number, "seed": args.seed, **bench.counts}, indent=1))
    return 1 if _wrong(bench) else 0


def _wrong(bench: Bench) -> list[str]:
    return [name for name, count in bench.counts.items() if name.isupper() and count]


if __name__ == "__main__":
    sys.exit(main())
