"""A batch on one core and on all of them; and a batch that is killed again and again.

    python benchmarks/batch.py PHOTOGRAPHS               # images a second by processes
    python benchmarks/batch.py PHOTOGRAPHS --kills 20    # SIGKILL at random, then --resume

PHOTOGRAPHS is anything that `sightwords batch` takes. Speed is that of the photographs behind the
first tenth, so that starting the processes, a few seconds once, is told apart. After the kills the
output is compared with that of an unbroken run, byte by byte.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from sightwords.batch import BatchOptions, Progress, open_source, run_batch
from sightwords.runtime import available_cores


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        if args.kills:
            killed(args, Path(folder))
        else:
            scaling(args, Path(folder))


def scaling(args: argparse.Namespace, folder: Path) -> None:
    first = 0.0
    counts = sorted({1, *args.workers} if args.workers else {1, available_cores()})
    for workers in counts:
        speed, total = timed(args, folder / f"{workers}.jsonl", workers)
        first = first or speed
        print(
            f"{workers} processes: {speed:.2f} images a second, {speed / first:.2f} times one; "
            f"{total:.1f} s in all"
        )
        if (folder / f"{workers}.jsonl").read_bytes() != (folder / "1.jsonl").read_bytes():
            sys.exit(f"{workers} processes wrote other captions than one")


def timed(args: argparse.Namespace, out: Path, workers: int) -> tuple[float, float]:
    """Images a second behind the first tenth, and seconds of the whole run."""
    marks: list[tuple[float, int]] = []

    def mark(progress: Progress) -> None:
        marks.append((time.perf_counter(), progress.done))

    source = open_source(args.source, images=args.images)
    options = BatchOptions(out=out, bundle=args.bundle, workers=workers)
    started = time.perf_counter()
    run_batch(source, options, on_progress=mark)
    total = time.perf_counter() - started
    begin = marks[max(len(marks) // 10, 4 * workers)]
    return (marks[-1][1] - begin[1]) / (marks[-1][0] - begin[0]), total


def killed(args: argparse.Namespace, folder: Path) -> None:
    whole, out = folder / "whole.jsonl", folder / "killed.jsonl"
    workers = args.workers[0] if args.workers else available_cores()
    run_batch(
        open_source(args.source, images=args.images),
        BatchOptions(out=whole, bundle=args.bundle, workers=workers),
    )
    lines = whole.read_text(encoding="utf-8").splitlines()
    command = [sys.executable, "-m", "sightwords", "batch", args.source, "--out", str(out)]
    command += ["--resume", "--workers", str(workers)]
    command += ["--bundle", args.bundle] if args.bundle else []
    command += ["--images", args.images] if args.images else []
    kills, runs, draw = 0, 0, random.Random(args.seed)
    while not out.exists():
        runs += 1
        run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        if kills < args.kills:
            wait_for(run, out, draw.randint(0, max(1, 2 * len(lines) // args.kills)))
            time.sleep(draw.random() / 10)
            if run.poll() is None:
                run.send_signal(signal.SIGKILL)
                kills += 1
        run.wait()
    ids = Counter(json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines())
    wanted = {json.loads(line)["id"] for line in lines}
    print(
        f"{runs} runs, {kills} of them killed; {len(lines)} photographs: "
        f"{len(wanted - set(ids))} lost, {sum(n > 1 for n in ids.values())} twice, "
        f"output {'the same' if out.read_bytes() == whole.read_bytes() else 'NOT the same'}"
    )


def wait_for(run: subprocess.Popen[bytes], out: Path, more: int) -> None:
    """Until the journal has grown by so many lines, or the run has ended."""
    journal = out.with_name(f"{out.name}.part")

    def count() -> int:
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    start = count()
    while run.poll() is None and count() < start + more:
        time.sleep(0.002)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="a folder, a list or shards of photographs")
    parser.add_argument("--images", help="where the images are that a list names")
    parser.add_argument("--bundle", help="default: the one inside the package")
    parser.add_argument("--workers", type=int, nargs="*", default=[], help="processes to try")
    parser.add_argument("--kills", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
