"""What the language model costs by size of the vocabulary and by width of the beam, as a plot.

    python -m benchmarks.language_cost DATA --words top-words.npz --val words-val.npz
        --plot FILE.png

Trains two epochs on all captions at each size, counts what a token costs in training (NCE) and in
exact normalisation, and searches for the sentences of the first images of coco-val. One thread.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.beam import measure
from benchmarks.language_data import Data, add_arguments, fit, load, measured

from sightwords.errors import require
from sightwords.language.maxent import MaxEnt

SIZES = (1000, 4000, 16000)
WIDTHS = (25, 50, 100, 200, 400, 800)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    args = parser.parse_args()
    args.threads = 1
    by_size: dict[int, dict[str, float]] = {}
    by_width: dict[int, dict[str, float]] = {}
    for size in SIZES:
        args.vocabulary = size
        data = load(args)
        by_size[size], model = costs(data, args.images)
        print(size, {name: round(value, 3) for name, value in by_size[size].items()}, flush=True)
        if size == SIZES[1]:
            for width in WIDTHS:
                by_width[width] = search(model, images_of(data, args.images), width)
                print(width, {n: round(v, 2) for n, v in by_width[width].items()}, flush=True)
    if args.plot:
        draw(by_size, by_width, args.plot)


def costs(data: Data, images: int) -> tuple[dict[str, float], MaxEnt]:
    """Microseconds a token, milliseconds an image, megabytes."""
    config = dataclasses.replace(data.config, epochs=2)
    started = time.perf_counter()
    model = fit(data, config, threads=1)
    training = (time.perf_counter() - started) / (config.epochs * len(data.train.tokens))
    few = dataclasses.replace(data, val=_first(data, 2000))
    measured(few, model, 1)  # compile
    started = time.perf_counter()
    found = measured(few, model, 1)
    assert few.val is not None
    normalised = (time.perf_counter() - started) / len(few.val.tokens)
    small = model.quantised()
    with tempfile.TemporaryDirectory() as folder:
        small.save(folder)
        stored = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "training_us": 1e6 * training,
        "normalised_us": 1e6 * normalised,
        **search(small, images_of(data, images), 200),
        "megabytes": stored / 1e6,
        "perplexity": found,
    }, small


def search(model: MaxEnt, images: list[dict[str, float]], width: int) -> dict[str, float]:
    """Milliseconds of processor time an image."""
    return {
        f"{backend}_ms": 1000 / measure(model, images, width, backend)[2]
        for backend in ("dense", "numpy", "numba")
    }


def images_of(data: Data, count: int) -> list[dict[str, float]]:
    """Detected words of the first validation images that have some."""
    assert data.val_sets is not None
    sets, words = data.val_sets, data.vocabulary.words
    parts = [slice(*sets.offsets[i : i + 2]) for i in range(count)]
    found = [
        {words[w]: float(np.exp(p)) for w, p in zip(sets.ids[s], sets.log_probs[s], strict=True)}
        for s in parts
    ]
    return [image for image in found if image]


def _first(data: Data, sentences: int) -> Any:
    from benchmarks.language_data import first_sentences

    assert data.val is not None
    return first_sentences(data.val, sentences)


def draw(
    by_size: dict[int, dict[str, float]], by_width: dict[int, dict[str, float]], path: Path
) -> None:
    plt = require("matplotlib.pyplot", extra="eval", purpose="the plot")
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4))
    for name, label in (("training_us", "NCE training"), ("normalised_us", "all words normalised")):
        left.plot(list(by_size), [row[name] for row in by_size.values()], "o-", label=label)
    left.set(xlabel="words in the vocabulary", ylabel="microseconds a token")
    for axis, rows in ((middle, by_size), (right, by_width)):
        for name in ("dense", "numpy", "numba"):
            label = "every word scored" if name == "dense" else name
            axis.plot(list(rows), [row[f"{name}_ms"] for row in rows.values()], "o-", label=label)
        axis.set(ylabel="milliseconds an image")
    middle.set(xlabel="words in the vocabulary (k = 200)")
    right.set(xlabel="beam width k (4,000 words)")
    for axis in (left, middle, right):
        axis.set(xscale="log", yscale="log")
        shown = WIDTHS if axis is right else SIZES
        axis.set_xticks(shown, [f"{value:,}" for value in shown])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
