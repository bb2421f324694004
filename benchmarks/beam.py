"""Images per second of the beam search on one thread: numpy, numba, and scoring every word.

    python benchmarks/beam.py MODEL --words detected.jsonl --widths 50,100,200

MODEL is a language model's folder. Each line of `--words` is one image: {"dog": 0.9, ...}. The
search is warmed up first; the time to load or compile the code is printed apart. Speeds are by the
clock, and by this process' CPU time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import cast

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402 - reads the number of threads when it is loaded

from sightwords.config import GenerationConfig  # noqa: E402
from sightwords.language.constraints import Constraints  # noqa: E402
from sightwords.language.extend_dense import DenseExtensions  # noqa: E402
from sightwords.language.generate import Backend, Generator  # noqa: E402
from sightwords.language.maxent import MaxEnt  # noqa: E402

Image = dict[str, float]


def main() -> None:
    args = arguments()
    model = MaxEnt.load(args.model)
    images = read(args.words, model)[: args.images]
    words = np.mean([len(image) for image in images])
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"numpy {version('numpy')}; 1 thread; {len(model.vocabulary)} words; "
        f"{len(images)} images of {words:.0f} words on average"
    )
    backends = ["dense", "numpy"]
    if find_spec("numba"):
        backends.append("numba")
    for width in map(int, args.widths.split(",")):
        speeds = {backend: measure(model, images, width, backend) for backend in backends}
        for backend, (prepare, clock, processor) in speeds.items():
            label = "every word" if backend == "dense" else backend
            print(
                f"k = {width:4d}  {label:10s} {clock:7.1f} images/s by the clock "
                f"{processor:7.1f} by CPU time {processor / speeds['dense'][2]:5.1f} x every word  "
                f"ready after {prepare:.2f} s"
            )


def measure(
    model: MaxEnt, images: list[Image], width: int, backend: str
) -> tuple[float, float, float]:
    """Seconds to prepare, images per second by clock and by CPU time (better of two rounds)."""
    started = time.perf_counter()
    config = GenerationConfig(beam_width=width)
    if backend == "dense":
        dense = DenseExtensions.of(model, frequent_words=config.frequent_words)
        generator = Generator(model, config, dense, Constraints())
    else:
        generator = Generator.of(model, config, backend=cast("Backend", backend))
    prepare = time.perf_counter() - started
    few = images[: max(2, len(images) // 20)] if backend == "dense" else images
    generator.sentences(few[0])
    rounds = []
    for _ in range(2):
        started, used = time.perf_counter(), time.process_time()
        for image in few:
            generator.sentences(image)
        rounds.append((time.perf_counter() - started, time.process_time() - used))
    clock, processor = (len(few) / min(seconds) for seconds in zip(*rounds, strict=True))
    return prepare, clock, processor


def read(path: Path, model: MaxEnt) -> list[Image]:
    """Images from JSON lines; words that the model does not know are left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    images = [json.loads(line) for line in lines if line.strip()]
    return [{w: p for w, p in image.items() if w in model.vocabulary} for image in images]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--words", type=Path, required=True, help="JSON lines of detected words")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--widths", default="50,100,200")
    return parser.parse_args()


if __name__ == "__main__":
    main()
