"""Features of every image of many shards by a detector's weights, shards decoded side by side.

    python benchmarks/features.py 'coco-train-*.tar' 'coco-val-*.tar' \
        --weights weights.safetensors --vocabulary vocabulary.json --device cuda \
        --processes 16 --out features.npz

Each shard is decoded by a process of its own into a table under --cache (memory is best), while
the network describes those that are ready. Writes the file of `train.image_features`.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from sightwords.config import PRESETS
from sightwords.corpus import open_corpus
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.table import build_table, open_table


def main() -> None:
    args = _arguments()
    began = time.perf_counter()
    shards = [str(s) for p in map(Path, args.shards) for s in sorted(p.parent.glob(p.name))]
    # Forked before CUDA wakes up; the slowest kind of image, Flickr's AVIF, goes first.
    shards.sort(key=lambda name: "flickr" not in name)
    pool = ProcessPoolExecutor(args.processes, mp_context=get_context("fork"))
    waiting = [pool.submit(_decode, s, args.cache / Path(s).stem, args.size_px) for s in shards]

    from sightwords.train.detector import load_weights, new_network
    from sightwords.train.image_features import describe_images, merged

    words = len(load_vocabulary(args.vocabulary))
    network = new_network(PRESETS["default"].words, words, weights=None, size_px=args.size_px)
    load_weights(network, args.weights)
    parts = []
    for done in as_completed(waiting):
        table = open_table(done.result())
        parts.append(describe_images(network, table, device=args.device).features)
        print(f"{len(table)} images, at {time.perf_counter() - began:.0f} s", flush=True)
    found = merged(parts)
    found.save(args.out)
    print(f"{args.out}: {len(found)} images, {time.perf_counter() - began:.0f} s", flush=True)


def _decode(shard: str, folder: Path, size_px: int) -> Path:
    build_table(open_corpus([shard]), folder, side_px=size_px, workers=1)
    return folder


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--size-px", type=int, default=224)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--cache", type=Path, default=Path("runs/features"))
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
