"""Features of every image of many shards by a detector's weights, shards decoded side by side.

    python benchmarks/features.py 'coco-train-*.tar' 'coco-val-*.tar' \
        --weights weights.safetensors --vocabulary vocabulary.json --device cuda \
        --processes 16 --mirrored --out features.npz

Each shard is decoded by a process of its own into a table under --cache (memory is best; a table
that is there is taken as it is), while the network describes those that are ready. Writes the file
of `train.dmsm.image_features`; with --mirrored, each image seen in a mirror too.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.corpus.sources import expand
from sightwords.train.data.image_table import INDEX_NAME, ImageTable, build_table, open_table


def main() -> None:
    args = _arguments()
    began = time.perf_counter()
    # Forked before CUDA wakes up.
    waiting = decoding(named(args.shards), args.cache, args.size_px, processes=args.processes)

    from sightwords.config import PRESETS
    from sightwords.text.vocabulary_file import load_vocabulary
    from sightwords.train.dmsm.image_features import describe_images, merged
    from sightwords.train.words.run import load_weights, new_network

    words = len(load_vocabulary(args.vocabulary))
    network = new_network(PRESETS["default"].words, words, weights=None, size_px=args.size_px)
    load_weights(network, args.weights)
    parts = []
    for done in as_completed(waiting):
        table = open_table(done.result())
        found = describe_images(network, table, device=args.device, mirrored=args.mirrored)
        parts.append(found.features)
        print(f"{len(table)} images, at {time.perf_counter() - began:.0f} s", flush=True)
    found_all = merged(parts)
    found_all.save(args.out)
    print(f"{args.out}: {len(found_all)} images, {time.perf_counter() - began:.0f} s", flush=True)


def decoding(
    shards: Iterable[str], cache: Path, side_px: int, *, processes: int | None = None
) -> list[Future[Path]]:
    """Tables of these shards under `cache`, being made by processes.

    The slowest kind of image, Flickr's AVIF, goes first.
    """
    pool = ProcessPoolExecutor(processes or os.cpu_count(), mp_context=get_context("fork"))
    slowest_first = sorted(shards, key=lambda name: "flickr" not in name)
    return [pool.submit(decode, shard, cache, side_px) for shard in slowest_first]


def decode(shard: str, cache: Path, side_px: int) -> Path:
    """The folder of one shard's table, made unless it is there."""
    folder = cache / Path(shard).stem
    if not (folder / INDEX_NAME).exists():
        build_table(open_corpus([shard], need_captions=False), folder, side_px=side_px, workers=1)
    return folder


def decoded(sources: Iterable[str], cache: Path, side_px: int) -> list[ImageTable]:
    """The finished tables of all shards, in their order, none of them in memory yet."""
    shards = named(sources)
    missing = [s for s in shards if not (cache / Path(s).stem / INDEX_NAME).exists()]
    for done in decoding(missing, cache, side_px) if missing else ():
        done.result()
    return [open_table(cache / Path(shard).stem) for shard in shards]


def named(sources: Iterable[str]) -> list[str]:
    """The shards that patterns name."""
    return [shard for source in sources for shard in expand(source)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--size-px", type=int, default=224)
    parser.add_argument("--mirrored", action="store_true", help="each image in a mirror too")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--cache", type=Path, default=Path("runs/features"))
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
