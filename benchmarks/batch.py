"""A batch on one core and on all of them: images per second by the number of cores.

    python benchmarks/batch.py PHOTOS

PHOTOS is anything that `sightwords batch` takes. Speed is that of the photos behind the first
tenth, so that starting the processes, which takes a few seconds once, is told apart. All runs must
write the same bytes. For runs that are killed there is `kill_batch.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from sightwords.batch import BatchOptions, Progress, open_source, run_batch
from sightwords.parallel import available_cores


def main() -> None:
    args = arguments()
    first = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for workers in sorted({1, *(args.workers or [available_cores()])}):
            out = Path(folder) / f"{workers}.jsonl"
            speed, total = timed(args, out, workers)
            first = first or speed
            print(
                f"{workers} cores: {speed:.2f} images a second, {speed / first:.2f} times one; "
                f"{total:.1f} s in all"
            )
            if out.read_bytes() != (Path(folder) / "1.jsonl").read_bytes():
                sys.exit(f"{workers} cores wrote other captions than one")


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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="a folder, a list or shards of photos")
    parser.add_argument("--images", help="where the images are that a list names")
    parser.add_argument("--bundle", help="default: the one inside the package")
    parser.add_argument(
        "--workers", type=int, nargs="*", default=[], help="numbers of cores to try"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
