r"""What captioning costs as the number of photos grows: CPU and GPU seconds, bytes, memory.

    python benchmarks/scale.py cut 'coco-train-*.tar' --out cut       # shards of 1,000 images
    python benchmarks/scale.py grow cut --images 1000 3000 10000 --out growth.json
    python benchmarks/scale.py overhead cut --images 2000             # Ray beside the local engine
    python benchmarks/scale.py rows captions.jsonl                    # bytes per row
    python benchmarks/scale.py keys --keys 10000000                   # the check for doubles
    python benchmarks/scale.py plot growth.json --out docs/images/scale.png
    python benchmarks/scale.py gpu 'coco-train-*.tar' 'coco-val-*.tar' \
        --images 10000 50000 --device cuda --processes 16

`grow` and `overhead` run `sightwords batch` from start to end and add up the CPU seconds (user and
system) of all its processes; other work on the machine changes these less than the wall seconds,
which are noted too. Every few seconds they note the memory of each process. `gpu` decodes
shards into tables and times the detector over them: seconds of the network alone, and with the
decoding beside it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sightwords.batch.parquet import write_parquet
from sightwords.batch.ray.keys import shared_prints
from sightwords.corpus.folder import is_image_name
from sightwords.corpus.shards import split_name
from sightwords.corpus.sources import expand
from sightwords.words.artefact import DEFAULT_DETECTOR, VOCABULARY_NAME

SHARD_IMAGES = 1000
SAMPLE_SECONDS = 1.0
KEEP_SECONDS = 5.0


@dataclass(slots=True)
class Process:
    """One process as it was last seen."""

    role: str
    cpu_seconds: float = 0.0
    bytes_read: int = 0
    rss_mb: list[tuple[float, int, float]] = field(default_factory=list)
    """Seconds since the start, photos done, megabytes."""


@dataclass(slots=True)
class Run:
    """One batch from start to end."""

    images: int
    engine: str
    workers: int
    wall_seconds: float
    cpu_seconds: float
    load_before: float
    input_bytes: int
    output_bytes: int
    processes: list[Process]


def main() -> None:
    args = arguments()
    args.verb(args)


def cut(args: argparse.Namespace) -> None:
    """Copy the images of some shards into shards of 1,000, so that each run reads whole ones."""
    args.out.mkdir(parents=True, exist_ok=True)
    number, held, last, tar = 0, SHARD_IMAGES, "", None
    for shard in expand(args.source):
        with tarfile.open(shard) as opened:
            for member in opened:
                key = split_name(member.name)[0]
                if key != last and held == SHARD_IMAGES:
                    if tar is not None:
                        tar.close()
                    if number * SHARD_IMAGES >= args.images:
                        return
                    tar = tarfile.open(args.out / f"cut-{number:02d}.tar", "w")  # noqa: SIM115
                    number, held = number + 1, 0
                last, held = key, held + is_image_name(member.name)
                assert tar is not None
                tar.addfile(member, opened.extractfile(member))
    if tar is not None:
        tar.close()


def grow(args: argparse.Namespace) -> None:
    runs: list[dict[str, Any]] = []
    for images in args.images:
        with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
            out = Path(folder) / "out.jsonl"
            run = measured(first(args.source, images), out, args.engine, args.workers, images)
        runs.append(asdict(run))
        args.out.write_text(json.dumps(runs))
        tell(run)


def overhead(args: argparse.Namespace) -> None:
    """Both engines over the same shards, the same number of cores, the same bytes out."""
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        runs = []
        for engine in ("local", "ray"):
            out = Path(folder) / f"{engine}.jsonl"
            source = first(args.source, args.images)
            runs.append(measured(source, out, engine, args.workers, args.images))
            tell(runs[-1])
        outputs = {path.read_bytes() for path in Path(folder).glob("*.jsonl")}
    local, ray = runs
    print(
        f"{args.images} images, {args.workers} cores: Ray takes {ray.wall_seconds:.1f} s, "
        f"{ray.wall_seconds / local.wall_seconds - 1:+.1%}; {ray.cpu_seconds:.1f} CPU s, "
        f"{ray.cpu_seconds / local.cpu_seconds - 1:+.1%}; "
        f"output {'the same' if len(outputs) == 1 else 'NOT the same'}"
    )


def first(folder: Path, images: int) -> str:
    """The pattern of the shards that hold the first so many images."""
    return f"{folder}/cut-{{00..{images // SHARD_IMAGES - 1:02d}}}.tar"


def tell(run: Run) -> None:
    print(
        f"{run.images} images, {run.engine}, {run.workers} cores: {run.cpu_seconds:.1f} CPU s, "
        f"{run.cpu_seconds / run.images:.4f} per image; {run.wall_seconds:.1f} s, load before "
        f"{run.load_before:.1f}; {run.input_bytes / run.images:.0f} bytes per image in, "
        f"{run.output_bytes / run.images:.0f} bytes per row out",
        flush=True,
    )
    for process in run.processes:
        if process.rss_mb and process.cpu_seconds > run.cpu_seconds / 100:
            shown = " ".join(f"{mb:.0f}@{done}" for _, done, mb in thinned(process.rss_mb))
            print(
                f"  {process.role}: {process.cpu_seconds:.1f} CPU s, "
                f"{process.bytes_read / 1e6:.0f} MB read, memory in MB @ images: {shown}",
                flush=True,
            )


def rows(args: argparse.Namespace) -> None:
    records = [json.loads(line) for line in args.captions.read_text("utf-8").splitlines()]
    stream = io.BytesIO()
    write_parquet(stream, records)
    jsonl, parquet = args.captions.stat().st_size, len(stream.getvalue())
    print(
        f"{len(records)} rows: {jsonl / len(records):.0f} bytes each as JSONL, "
        f"{parquet / len(records):.0f} as Parquet"
    )


def keys(args: argparse.Namespace) -> None:
    """The end of a batch on Ray: prints of all keys, in shards of 10,000, none of them twice."""
    draw = np.random.default_rng(0)
    prints = [draw.integers(0, 2**64, 10_000, np.uint64) for _ in range(args.keys // 10_000)]
    began = time.process_time()
    shared = shared_prints(prints)
    print(f"{args.keys} keys: {time.process_time() - began:.2f} CPU s, {len(shared)} shared prints")


def plot(args: argparse.Namespace) -> None:
    """CPU seconds and memory of a worker by number of images, from `grow`'s file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = json.loads(args.growth.read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    images = [run["images"] for run in runs]
    seconds = [run["cpu_seconds"] for run in runs]
    slope, start = np.polyfit(images, seconds, 1)
    left.plot(images, seconds, "o", color="#1b6ca8")
    left.plot([0, images[-1]], [start, start + slope * images[-1]], "-", color="#1b6ca8", lw=1)
    left.set(xlabel="photos", ylabel="CPU seconds, end to end", xlim=(0, None), ylim=(0, None))
    left.set_title(f"{1000 * slope:.0f} ms for each further photo", fontsize=10)
    worker = max(runs[-1]["processes"], key=lambda process: process["cpu_seconds"])
    driver = runs[-1]["processes"][0]
    for process, name in ((worker, "worker"), (driver, "driver")):
        samples = [(done, mb) for _, done, mb in process["rss_mb"] if done > 0]
        right.plot(*zip(*samples, strict=True), label=name)
    right.set(xlabel="photos done", ylabel="resident memory, MB", ylim=(0, None))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(args.out, dpi=110)
    print(f"{1000 * slope:.2f} CPU ms per photo, {start:.1f} CPU s to start; {args.out}")


def gpu(args: argparse.Namespace) -> None:
    """Seconds of the detector stage: the network over tables in memory, and with decoding."""
    import torch

    from sightwords.config import PRESETS
    from sightwords.text.vocabulary_file import load_vocabulary
    from sightwords.train.data.image_table import open_table
    from sightwords.train.dmsm.image_features import describe_images
    from sightwords.train.words.run import load_weights, new_network

    shards = [str(s) for p in map(Path, args.shards) for s in sorted(p.parent.glob(p.name))]
    words = len(load_vocabulary(args.vocabulary))
    pool = ProcessPoolExecutor(args.processes, mp_context=get_context("spawn"))
    network = new_network(PRESETS["default"].words, words, weights=None, size_px=args.size_px)
    if args.weights:
        load_weights(network, args.weights)
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        # The first pass chooses and compiles kernels.
        describe_images(network, open_table(decode(shards[0], Path(folder), args.size_px)),
                        device=args.device, batch_size=args.batch)  # fmt: skip
    for images in args.images:
        with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
            began = time.perf_counter()
            waiting = deque(pool.submit(decode, s, Path(folder), args.size_px) for s in shards)
            done, busy = 0, 0.0
            while waiting and done < images:
                table = open_table(waiting.popleft().result())
                start = time.perf_counter()
                describe_images(network, table, device=args.device, batch_size=args.batch)
                if args.device.startswith("cuda"):
                    torch.cuda.synchronize()
                busy += time.perf_counter() - start
                done += len(table)
            for unneeded in waiting:
                unneeded.cancel()
            wall = time.perf_counter() - began
        print(
            f"{done} images on {args.device}: {busy:.1f} s of the network, "
            f"{1e6 * busy / done:.0f} s a million; {wall:.1f} s with decoding by {args.processes} "
            f"processes, {1e6 * wall / done:.0f} s a million",
            flush=True,
        )
    pool.shutdown(cancel_futures=True)


def decode(shard: str, scratch: Path, side_px: int) -> Path:
    """Decode one shard into a table of its own; its folder."""
    from sightwords.corpus import open_corpus
    from sightwords.train.data.image_table import build_table

    folder = scratch / Path(shard).stem
    build_table(open_corpus([shard], need_captions=False), folder, side_px=side_px, workers=1)
    return folder


def thinned(samples: list[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    return samples[:: max(1, len(samples) // 8)]


def measured(source: str, out: Path, engine: str, workers: int, images: int) -> Run:
    """Run one batch and watch all its processes."""
    command = [sys.executable, "-m", "sightwords", "batch", source, "--out", str(out)]
    command += ["--workers", str(workers)]
    command += ["--engine", engine] if engine != "local" else []
    load = os.getloadavg()[0]
    began = time.perf_counter()
    seen: dict[int, Process] = {}
    noted = -KEEP_SECONDS
    with subprocess.Popen(command) as run:
        while run.poll() is None:
            now = time.perf_counter() - began
            keep = now - noted >= KEEP_SECONDS
            noted = now if keep else noted
            watch(run.pid, seen, (now, done(out)) if keep else None)
            time.sleep(SAMPLE_SECONDS)
    wall = time.perf_counter() - began
    if run.returncode:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}")
    return Run(
        images=images,
        engine=engine,
        workers=workers,
        wall_seconds=wall,
        cpu_seconds=sum(process.cpu_seconds for process in seen.values()),
        load_before=load,
        input_bytes=sum(Path(name).stat().st_size for name in expand(source)),
        output_bytes=out.stat().st_size,
        processes=list(seen.values()),
    )


def done(out: Path) -> int:
    """Photos that a running batch has finished, read off its journal or its parts."""
    journal = out.with_name(f"{out.name}.part")
    if journal.is_file():
        return journal.read_bytes().count(b"\n") - 1
    parts = out.with_name(f"{out.name}.parts")
    return sum(part.read_bytes().count(b"\n") for part in parts.glob("*.jsonl"))


def watch(root: int, seen: dict[int, Process], moment: tuple[float, int] | None) -> None:
    """Note CPU seconds, bytes read and, at this moment, memory of a process and all below it."""
    with suppress(psutil.NoSuchProcess):
        driver = psutil.Process(root)
        for process in (driver, *driver.children(recursive=True)):
            with suppress(psutil.Error), process.oneshot():
                known = seen.setdefault(process.pid, Process(role(process, root)))
                times = process.cpu_times()
                known.cpu_seconds = times.user + times.system
                known.bytes_read = process.io_counters().read_chars
                if moment is not None:
                    known.rss_mb.append((*moment, process.memory_info().rss / 1e6))
                    known.role = role(process, root)  # Ray names its processes late


def role(process: psutil.Process, root: int) -> str:
    command = " ".join(process.cmdline())
    if process.pid == root:
        return "driver"
    return "worker" if "spawn_main" in command or "Captioning" in command else command[:60]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)

    def verb(run: Callable[[argparse.Namespace], None], *more: str) -> argparse.ArgumentParser:
        """A verb, with those of the common options that it takes."""
        added = verbs.add_parser(run.__name__)
        added.set_defaults(verb=run)
        if "cut" in more:
            added.add_argument("source", type=Path, help="the folder that `cut` has written")
            added.add_argument("--workers", type=int, default=2)
        if "scratch" in more:
            added.add_argument("--scratch", type=Path)
        if "out" in more:
            added.add_argument("--out", type=Path, required=True)
        return added

    cutting = verb(cut, "out")
    cutting.add_argument("source")
    cutting.add_argument("--images", type=int, default=10_000)
    growing = verb(grow, "cut", "scratch", "out")
    growing.add_argument("--images", type=int, nargs="+", default=[1000, 3000, 10_000])
    growing.add_argument("--engine", choices=("local", "ray"), default="local")
    verb(overhead, "cut", "scratch").add_argument("--images", type=int, default=2000)
    verb(rows).add_argument("captions", type=Path, help="JSONL that a batch has written")
    verb(keys).add_argument("--keys", type=int, default=10_000_000)
    verb(plot, "out").add_argument("growth", type=Path, help="the file that `grow` has written")
    detecting = verb(gpu, "scratch")
    detecting.add_argument("shards", nargs="+")
    detecting.add_argument("--weights", type=Path, help="random, which cost the same, unless given")
    detecting.add_argument("--vocabulary", type=Path, default=DEFAULT_DETECTOR / VOCABULARY_NAME)
    detecting.add_argument("--images", type=int, nargs="+", default=[10_000, 50_000])
    detecting.add_argument("--size-px", type=int, default=224)
    detecting.add_argument("--batch", type=int, default=256)
    detecting.add_argument("--device", default="cpu")
    detecting.add_argument("--processes", type=int, default=16)
    return parser.parse_args()


if __name__ == "__main__":
    main()
