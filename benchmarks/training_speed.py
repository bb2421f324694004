"""How fast a ViT-S detector trains, and how fast images reach it: ours beside webdataset.

    python benchmarks/training_speed.py coco-test-00.tar --device cuda          # about 4 minutes
    python benchmarks/training_speed.py coco-test-00.tar --device cpu --images 64 \
        --batch-size 16 --lanes 4 --sizes 168 --seconds 2                       # a quick try
    python benchmarks/training_speed.py coco-test-00.tar --device cpu --consumed 3000  # no steps

For each input size:

- steps: images/s of whole training steps (crops, forward, backward, optimiser, average) with the
  images (1) on the device, (2) in a decoded table, (3) streamed from JPEG shards by
  `sightwords.train.data.shard_loader` and by webdataset with torch's `DataLoader`, with different
  numbers of workers, (4) streamed from AVIF shards, decoded once and kept (run.keep_decoded). The
  time the GPU waits is what a step takes longer than in (1).
- loader: images/s that reach the device when nothing is trained, from the same sources, and the
  CPU time of the main process for each image.
- what decoding into a table costs once, on all cores, and single decoders.

webdataset is used as its documentation suggests: each worker reads its own shards, shuffles, and
collates whole batches into shared memory; the loader pins them two batches ahead. Both sides use
the same decoder, the same resizing, the same targets and the same files.

The images are resized to the stored size (8/7 of the input) and written into as many shards as
there are lanes, as JPEG (quality 90) and AVIF (quality 60); all files are in the page cache. If the
given shards hold fewer than --images images, these are used again. Weights are random, which does
not change the time of a step. Packages that are not installed are reported and left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import platform
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, count, cycle, islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, features

from sightwords.config import PRESETS, WordsConfig
from sightwords.corpus import open_corpus
from sightwords.images import decode, resize
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.data.batches import Onwards, Order, Rows
from sightwords.train.data.canvas import canvas, one_thread_a_decoder
from sightwords.train.data.image_table import ImageTable, build_table
from sightwords.train.data.shard_loader.decoded_cache import DecodedCache
from sightwords.train.data.shard_loader.index import shard_index
from sightwords.train.data.shard_loader.lanes import Lanes
from sightwords.train.data.shard_loader.loader import ShardLoader
from sightwords.train.words.labels import caption_targets
from sightwords.train.words.run import new_network, stored_px
from sightwords.train.words.training import WordsFit
from sightwords.types import Example, ImageRef

WORDS = Path(__file__).parent.parent / "src/sightwords/default_bundle/words/vocabulary.json"
WARM_UP = 4
Encoder = dict[str, Any]
FORMS: dict[str, Encoder] = {
    "jpg": {"format": "JPEG", "quality": 90},
    "avif": {"format": "AVIF", "quality": 60, "speed": 8},
}


def main() -> None:
    args = arguments()
    started = time.perf_counter()
    print(f"machine: {machine(args.device)}")
    if not features.check("avif"):
        print("this Pillow reads no AVIF: left out (pip install 'pillow>=11.3')")
        del FORMS["avif"]
    examples = list(islice(cycle(islice(open_corpus(args.shards), args.images)), args.images))
    found: dict[str, Any] = {"machine": machine(args.device)}
    with tempfile.TemporaryDirectory() as folder:
        for size_px in args.sizes:
            found[str(size_px)] = measured(args, examples, size_px, Path(folder) / str(size_px))
    print(f"{time.perf_counter() - started:.0f} s in all")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(
    args: argparse.Namespace, examples: list[Example], size_px: int, folder: Path
) -> dict[str, Any]:
    """Both parts at one input size."""
    config = replace(
        PRESETS["default"].words, batch_size=args.batch_size, lanes=args.lanes, epochs=10_000
    )
    vocabulary = load_vocabulary(WORDS)
    network = new_network(config, len(vocabulary), weights=None, size_px=size_px)
    side_px = stored_px(network.backbone.input, config)
    began = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pixels = np.stack(list(pool.map(lambda e: at_side(e, side_px), examples)))
        for form, options in FORMS.items():
            encoded = list(pool.map(lambda p, o=options: written(p, o), pixels))
            write_shards(folder / form, form, encoded, examples, args.lanes)
    sizes = {form: mean_bytes(folder / form, len(examples)) for form in FORMS}
    each = ", ".join(f"{form} {size / 1e3:.1f} kB" for form, size in sizes.items())
    print(
        f"\n## {size_px} px: {len(examples)} images of {side_px} px, {each}, made in "
        f"{time.perf_counter() - began:.0f} s"
    )
    table = ImageTable(
        pixels=on_disk(pixels, folder / "pixels.raw"),
        content=np.full((len(pixels), 2), side_px, dtype=np.int32),
        ids=tuple(e.id for e in examples),
        captions=tuple(e.captions for e in examples),
        resize="square",
    )
    targets = caption_targets(table.captions, vocabulary)
    lanes = stream_lanes(folder, vocabulary, config, side_px)
    steps: dict[str, dict[str, float]] = {}
    consumed = args.consumed
    if consumed is None:
        loop = WordsFit(
            network, table, targets, config, device=args.device, compile_network=args.compile
        )
        steps = step_speeds(args, loop, table, targets, lanes)
        consumed = steps["on the device"]["images_per_second"]
    rows = Rows(table, targets, torch.device(args.device))
    rows.pixels = None  # as where the table is larger than the GPU
    return {
        "steps": steps,
        "loader": loader_speeds(args, rows, lanes, consumed),
        "decoded once": table_speeds(folder, side_px, args.seconds),
        "decoders": decoder_speeds(folder, args.seconds / 3),
        "bytes": sizes,
    }


def stream_lanes(
    folder: Path, vocabulary: Vocabulary, config: WordsConfig, side_px: int
) -> dict[str, Lanes]:
    """The shards of each form, where webdataset is there to stream them."""
    if importlib.util.find_spec("webdataset") is None:
        print("webdataset is not installed: streaming is left out (pip install webdataset)")
        return {}
    began = time.process_time()
    indices = {form: shard_index([str(folder / form / "*.tar")], folder / form) for form in FORMS}
    speed = sum(map(len, indices.values())) / (time.process_time() - began)
    print(f"index of the shards: {speed:,.0f} images a second of CPU time")
    found = {
        form: Lanes(index, vocabulary, config, side_px=side_px, resize="square")
        for form, index in indices.items()
    }
    for form, lanes in list(found.items()):
        images = len(lanes.index)
        cache = DecodedCache(folder / "kept", key=form, images=images, side_px=side_px)
        found[f"{form}, kept"] = replace(lanes, cache=cache)
    return found


def step_speeds(
    args: argparse.Namespace,
    loop: WordsFit,
    table: ImageTable,
    targets: Any,
    lanes: dict[str, Lanes],
) -> dict[str, dict[str, float]]:
    """Whole steps, by where the images come from."""
    device = loop.device
    resident = Rows(table, targets, device)
    if resident.pixels is None:
        resident.pixels = torch.from_numpy(np.array(table.pixels)).to(device)
    copied = Rows(table, targets, device)
    copied.pixels = None
    sources: dict[str, Any] = {
        "on the device": resident,
        "decoded table": copied,
    }
    for workers in args.workers if "jpg" in lanes else ():
        stream = ShardLoader(lanes["jpg"], device=str(device), workers=workers)
        sources[f"JPEG shards, ours, {stream.workers} workers"] = stream
        peer = WebDatasetLoader(lanes["jpg"], device, workers=workers)
        sources[f"JPEG shards, webdataset, {workers} workers"] = peer
    if "avif, kept" in lanes:
        stream = ShardLoader(lanes["avif, kept"], device=str(device), workers=max(args.workers))
        sources[f"AVIF shards, kept, {stream.workers} workers"] = stream
    found: dict[str, dict[str, float]] = {}
    print("| images | images/s | ms a step | GPU waits |\n|---|---|---|---|")
    for name, rows in sources.items():
        loop.rows, loop.step = rows, 0
        loop.order = (
            Onwards(len(table), loop.plan.batch_size)
            if isinstance(rows, ShardLoader | WebDatasetLoader)
            else Order(len(table), loop.plan.batch_size, 0)
        )
        warm_up = (2 * len(table) // loop.plan.batch_size) if "kept" in name else WARM_UP
        seconds = seconds_a_step(loop, args.seconds, warm_up)
        best = found.get("on the device", {}).get("seconds_a_step", seconds)
        wait = max(0.0, 1 - best / seconds)
        speed = loop.plan.batch_size / seconds
        found[name] = {"images_per_second": speed, "seconds_a_step": seconds, "wait": wait}
        print(f"| {name} | {speed:,.0f} | {1e3 * seconds:.1f} | {100 * wait:.1f} % |", flush=True)
        if name == "on the device" and device.type == "cuda":
            found[name]["computed_seconds"] = computed_seconds(loop)
    if "computed_seconds" in found["on the device"]:
        print(
            f"on the device, GPU computes {1e3 * found['on the device']['computed_seconds']:.1f} ms"
        )
    return found


def computed_seconds(loop: WordsFit, steps: int = 8) -> float:
    """How long kernels run in a step, as the profiler counts it."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            loop.advance()
        wait_for(loop.device)
    return float(sum(one.self_device_time_total for one in seen.key_averages()) / 1e6 / steps)


def seconds_a_step(loop: WordsFit, seconds: float, warm_up: int = WARM_UP) -> float:
    """The mean, after a few steps that compile and fill buffers."""
    for _ in range(warm_up):
        loop.advance()
    wait_for(loop.device)
    began = time.perf_counter()
    for steps in count(1):
        loop.advance()
        # Checked rarely: the GPU must always have steps waiting.
        if steps % 8 == 0 or loop.device.type == "cpu":
            if steps % 32 == 0:
                wait_for(loop.device)
            if time.perf_counter() - began > seconds and steps > 1:
                break
    wait_for(loop.device)
    return (time.perf_counter() - began) / steps


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def loader_speeds(
    args: argparse.Namespace, rows: Rows, lanes: dict[str, Lanes], consumed: float
) -> dict[str, float]:
    """Images on their way to the device: nothing is trained."""
    found = {}
    cores = os.cpu_count() or 1
    print(
        f"\n| loader alone | images/s | times the step's {consumed:,.0f} | main process, CPU µs an "
        "image |\n|---|---|---|---|"
    )

    def note(label: str, speed: float, main: float) -> None:
        found[label] = speed
        print(f"| {label} | {speed:,.0f} | {speed / consumed:.2f} | {1e6 * main:.0f} |", flush=True)

    order = Order(len(rows.table), args.batch_size, 0)

    def gather(step: int) -> None:
        rows.expect(order.rows(step), order.rows(step + 1))
        rows.take(order.rows(step))

    note("decoded table, a thread", *speed_of(gather, args, time.perf_counter))
    for workers in args.workers if "jpg" in lanes else ():
        for turn in ("", ", again"):
            stream = ShardLoader(lanes["jpg"], device=args.device, workers=workers)
            note(f"jpg, ours, {workers} workers{turn}", *stream_speed(args, stream))
            peer = WebDatasetLoader(lanes["jpg"], torch.device(args.device), workers=workers)
            note(f"jpg, webdataset, {workers} workers{turn}", *stream_speed(args, peer))
    for form, one in lanes.items():
        if form != "jpg":
            workers = min(max(args.workers), args.lanes)
            stream = ShardLoader(one, device=args.device, workers=workers)
            note(f"{form}, {workers} workers on {cores} cores", *stream_speed(args, stream))
        if one.cache is None:
            note(f"{form}, a core", *stream_speed(args, ShardLoader(one, workers=0)))
    return found


class WebDatasetLoader:
    """The same shards by webdataset and torch's `DataLoader`, in place of a `ShardLoader`."""

    def __init__(self, lanes: Lanes, device: torch.device, *, workers: int) -> None:
        wds: Any = importlib.import_module("webdataset")
        shards = sorted(lanes.index.images)
        batch_size = lanes.config.batch_size
        dataset = (
            wds.WebDataset(shards, shardshuffle=len(shards), seed=lanes.config.seed)
            .repeat()
            .shuffle(500)
            .map(partial(sample_of, lanes=lanes))
            .batched(batch_size, collation_fn=partial(collated, lanes=lanes), partial=False)
        )
        self.loader = torch.utils.data.DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            pin_memory=device.type == "cuda",
            persistent_workers=True,
        )
        self.device, self.workers = device, workers
        self.batches: Iterator[Any] | None = None

    def take(self, rows: Any) -> Any:
        """The next batch, on the device."""
        del rows
        if self.batches is None:  # started when first used, as a `ShardLoader` is
            self.batches = iter(self.loader)
        return [part.to(self.device, non_blocking=True) for part in next(self.batches)]


def sample_of(sample: dict[str, Any], *, lanes: Lanes) -> Any:
    """A webdataset sample -> pixels on the canvas, their size, and the captions."""
    torch.set_num_threads(1)
    image = ImageRef(sample["__key__"], sample["__key__"], sample["jpg"])
    captions = tuple(json.loads(sample["json"])["captions"])
    example = Example(sample["__key__"], image, captions, split="", dataset="")
    found = canvas(example, side_px=lanes.side_px, mode=lanes.resize)
    assert not isinstance(found, str), found
    return *found, captions


def collated(samples: list[Any], *, lanes: Lanes) -> Any:
    """Samples -> the three tensors of a batch, the pixels in shared memory."""
    pixels, sizes, captions = zip(*samples, strict=True)
    return (
        torch.utils.data.default_collate([torch.from_numpy(one) for one in pixels]),
        torch.tensor(sizes, dtype=torch.int32),
        torch.from_numpy(lanes.targets(list(captions))),
    )


def stream_speed(
    args: argparse.Namespace, stream: ShardLoader | WebDatasetLoader
) -> tuple[float, float]:
    """Images a second; without workers, a second of this process' own CPU time."""
    size = args.batch_size

    def take(step: int) -> None:
        stream.take(np.arange(step * size, (step + 1) * size))

    return speed_of(take, args, time.perf_counter if stream.workers else time.process_time)


def speed_of(
    take: Callable[[int], None], args: argparse.Namespace, clock: Callable[[], float]
) -> tuple[float, float]:
    """Images a second of batches one after another, and this process' CPU seconds an image."""
    began, used, images, device = 0.0, 0.0, 0, torch.device(args.device)
    for step in count():
        take(step)
        if step == 4 * WARM_UP:  # what was made ahead is used up
            wait_for(device)
            began, used = clock(), time.process_time()
        elif step > 4 * WARM_UP:
            images += args.batch_size
            if clock() - began > args.seconds:
                break
    wait_for(device)
    return images / (clock() - began), (time.process_time() - used) / images


def table_speeds(folder: Path, side_px: int, seconds: float) -> dict[str, float]:
    """Shards -> a decoded table on disk, which is done once, by all cores."""
    found = {}
    print("\n| decoded once, all cores | images/s |\n|---|---|")
    for form in FORMS:
        began = time.perf_counter()
        # Four times over at most: the table is written to the disk.
        corpora = (open_corpus([str(folder / form / "*.tar")]) for _ in range(4))
        every = until(began + seconds, chain.from_iterable(corpora))
        table = build_table(every, folder / f"{form}-table", side_px=side_px)
        found[form] = len(table) / (time.perf_counter() - began)
        print(f"| {form} | {found[form]:,.0f} |", flush=True)
    return found


def until(end: float, examples: Iterable[Example]) -> Iterator[Example]:
    return takewhile(lambda _: time.perf_counter() < end, examples)


def decoder_speeds(folder: Path, seconds: float) -> dict[str, float]:
    """Bytes -> RGB pixels on one core, nothing else."""
    found = {}
    print("\n| decoder, one core | images/s |\n|---|---|")
    for name, form, decoder in decoders():
        if form not in FORMS:
            continue
        shards = sorted((folder / form).glob("*.tar"))
        images = [e.image.data for e in open_corpus([str(shards[0])]) if e.image is not None]
        blobs = [data for data in images if data is not None]
        began = time.process_time()  # what others do on this machine does not count
        with one_thread_a_decoder():
            for done in count(1):
                decoder(blobs[done % len(blobs)])
                if time.process_time() - began > seconds:
                    break
        found[name] = done / (time.process_time() - began)
        print(f"| {name} | {found[name]:,.0f} |", flush=True)
    return found


def decoders() -> Iterator[tuple[str, str, Callable[[bytes], object]]]:
    """Ours (Pillow with its checks) and others that are installed."""
    yield "sightwords.images.decode, JPEG", "jpg", decode
    if importlib.util.find_spec("simplejpeg"):
        simplejpeg: Any = importlib.import_module("simplejpeg")
        yield "simplejpeg (libjpeg-turbo), JPEG", "jpg", simplejpeg.decode_jpeg
    yield "sightwords.images.decode, AVIF", "avif", decode


def at_side(example: Example, side_px: int) -> Any:
    assert example.image is not None
    return np.asarray(resize(decode(example.image), (side_px, side_px), resample="bicubic"))


def written(pixels: Any, options: Encoder) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, **options)
    return stream.getvalue()


def write_shards(
    folder: Path, form: str, images: list[bytes], examples: list[Example], shards: int
) -> None:
    """Webdataset shards with the captions beside the images."""
    folder.mkdir(parents=True)
    for shard in range(shards):
        with tarfile.open(folder / f"{shard:03d}.tar", "w") as tar:
            for place in range(shard, len(images), shards):
                said = json.dumps({"captions": examples[place].captions}).encode()
                for ending, data in ((form, images[place]), ("json", said)):
                    member = tarfile.TarInfo(f"{place:06d}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def mean_bytes(folder: Path, images: int) -> float:
    return sum(path.stat().st_size for path in folder.glob("*.tar")) / images


def on_disk(pixels: Any, path: Path) -> Any:
    pixels.tofile(path)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=pixels.shape)


def machine(device: str) -> str:
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    gpu = f", {torch.cuda.get_device_name()}" if device.startswith("cuda") else ""
    return f"{name}, {os.cpu_count()} cores{gpu}, torch {torch.__version__}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shards", nargs="+", help="captioned images, of which the first are used")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--sizes", type=int, nargs="+", default=[224, 336])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument(
        "--workers", type=int, nargs="+", help="of the streamed steps; the loader takes the most"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument(
        "--consumed", type=float, help="images/s of a step, measured earlier: the loader alone"
    )
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    args.workers = args.workers or sorted({max(1, cores // 4), min(cores, args.lanes)})
    args.compile = args.device.startswith("cuda") if args.compile is None else args.compile
    return args


if __name__ == "__main__":
    main()
