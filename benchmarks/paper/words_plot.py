"""AP for CPU milliseconds: every network and input size in one picture.

    python benchmarks/paper/words_plot.py time --out runs/times.json
    python benchmarks/paper/words_plot.py draw --times runs/times.json --results runs/*/*.jsonl \
        --also dinov2-vits14:224:int8=43.1 --out docs/images/words-speed.png

`time` exports each network with random weights, which cost the same time, and runs it on one
thread, one image at a time: tensor in, regions' logits out, without decoding and resizing. It is
the processor's time, and the least of `--rounds` runs: what else the machine does only adds. `draw`
joins the times with AP from the `results.jsonl` of `words_baselines.py`, and prints the table;
networks without an AP are left out of the picture. Needs the extras `train` and `efficientnet`,
and matplotlib.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.evaluate.grid import Grid
from sightwords.files import write_text
from sightwords.runtime import Network

WORDS = 1000


@dataclass(frozen=True, order=True)
class Kind:
    """One network as it would be served."""

    backbone: str
    size_px: int
    form: str = "float32"
    pooling: str = "noisy_or"

    @classmethod
    def parse(cls, text: str) -> Kind:
        """BACKBONE:SIZE[:FORM[:POOLING]].

        >>> Kind.parse("vgg16:565").form
        'float32'
        """
        backbone, size_px, *rest = text.split(":")
        return cls(backbone, int(size_px), *rest)

    def __str__(self) -> str:
        return f"{self.backbone}:{self.size_px}:{self.form}:{self.pooling}"


VIT_SIZES = (168, 196, 224, 280)
KINDS = (
    *(Kind("dinov2-vits14", size) for size in VIT_SIZES),
    *(Kind("dinov2-vits14", size, "int8") for size in VIT_SIZES),
    *(Kind("efficientnet-lite2", size) for size in (256, 288, 384)),
    Kind("alexnet", 565),
    Kind("vgg16", 565),
)

LOOKS = {
    ("dinov2-vits14", "float32"): ("ViT-S/14", "#0072B2", "o"),
    ("dinov2-vits14", "int8"): ("ViT-S/14, int8", "#56B4E9", "D"),
    ("efficientnet-lite2", "float32"): ("EfficientNet-Lite2", "#009E73", "s"),
    ("alexnet", "float32"): ("AlexNet", "#E69F00", "^"),
    ("vgg16", "float32"): ("VGG16", "#D55E00", "v"),
}
"""Okabe and Ito's colours, which the colour-blind tell apart; shapes say the same again."""


def main() -> None:
    args = arguments()
    if args.verb == "time":
        kinds = [Kind.parse(text) for text in args.kinds] or KINDS
        found: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
        for kind in kinds:
            found[str(kind)] = measure(kind, rounds=args.rounds)
            print(f"{kind}: {found[str(kind)]:.1f} ms", flush=True)
            write_text(args.out, json.dumps(found, indent=1) + "\n")
        return
    times = {Kind.parse(text): float(ms) for text, ms in json.loads(args.times.read_text()).items()}
    points = joined(times, precisions(args.results, args.also))
    print(table(points).markdown())
    draw(points, args.out, title=args.title)


def measure(kind: Kind, *, rounds: int) -> float:
    """Milliseconds of the processor in the fastest run."""
    with tempfile.TemporaryDirectory() as folder:
        path = exported(kind, Path(folder))
        network = Network(path, threads=1)
        image = np.random.default_rng(0).normal(size=(1, 3, kind.size_px, kind.size_px))
        feed = {"image": image.astype(np.float32)}
        network.run(feed)
        return 1000 * min(_seconds(network, feed) for _ in range(rounds))


def exported(kind: Kind, folder: Path) -> Path:
    """The network as ONNX, quantised where asked."""
    import torch

    from sightwords.config import WordsConfig
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.text.vocabulary_file import save_vocabulary
    from sightwords.train.words.export import detector_spec, write_onnx
    from sightwords.train.words.quantise import quantise_detector
    from sightwords.train.words.run import new_network
    from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME

    torch.set_num_threads(1)
    grid = min(12, kind.size_px // 32) if kind.backbone == "efficientnet-lite2" else 12
    pooling: Any = kind.pooling
    words = WordsConfig(backbone=kind.backbone, grid=grid, pooling=pooling)
    network = new_network(words, WORDS, weights=None, size_px=kind.size_px).eval()
    plain = folder / "plain"
    plain.mkdir()
    write_onnx(network, plain / NETWORK_NAME)
    if kind.form == "float32":
        return plain / NETWORK_NAME
    from sightwords.config import Config

    names = tuple(f"word{i:04d}" for i in range(WORDS))
    save_vocabulary(Vocabulary(names, (1,) * WORDS, WORDS), plain / VOCABULARY_NAME)
    detector_spec(network, Config(words=words)).save(plain)
    form: Any = kind.form
    quantise_detector(plain, folder / "small", form=form)
    return folder / "small" / NETWORK_NAME


def precisions(results: Sequence[Path], also: Sequence[str]) -> dict[Kind, float]:
    """AP of all words, in per cent; of two runs of one kind the later counts."""
    found = {}
    for path in results:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            form = row.get("form", "float32")
            kind = Kind(row["backbone"], row["size_px"], form, row["pooling"])
            # A network trained at its size is better than one used at another than its own.
            if "-at-" not in row["row"] or kind not in found:
                found[kind] = float(row["All"]["ap"])
    for text in also:
        name, _, ap = text.rpartition("=")
        found[Kind.parse(name)] = float(ap)
    return found


def joined(
    times: Mapping[Kind, float], aps: Mapping[Kind, float]
) -> dict[Kind, tuple[float, float | None]]:
    """Kind -> milliseconds and AP, fastest first."""
    order = sorted(times, key=lambda kind: times[kind])
    return {kind: (times[kind], aps.get(kind)) for kind in order}


def table(points: Mapping[Kind, tuple[float, float | None]]) -> Grid:
    """One row a network."""
    rows = tuple(
        (_name(kind), str(kind.size_px), f"{ms:.0f}", "–" if ap is None else f"{ap:.1f}")
        for kind, (ms, ap) in points.items()
    )
    return Grid(("network", "px", "CPU ms, one thread", "AP, all words"), rows)


def draw(points: Mapping[Kind, tuple[float, float | None]], path: Path, *, title: str) -> None:
    """AP over milliseconds on a logarithmic axis; sizes of one network joined by a line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), dpi=130)
    for key, (label, colour, shape) in LOOKS.items():
        for pooling, face, suffix in (
            ("noisy_or", colour, ""),
            ("whole_image", "white", ", Classification"),
        ):
            mine = [
                (ms, ap, kind.size_px)
                for kind, (ms, ap) in points.items()
                if (kind.backbone, kind.form) == key and kind.pooling == pooling and ap is not None
            ]
            if not mine:
                continue
            x, y, sizes = zip(*mine, strict=True)
            axes.plot(x, y, shape + "-", color=colour, mfc=face, label=label + suffix, ms=7)
            for across, up, size in zip(x, y, sizes, strict=True):
                axes.annotate(
                    f"{size}", (across, up), xytext=(0, 7), textcoords="offset points",
                    ha="center", fontsize=8,
                )  # fmt: skip
    axes.set_xscale("log")
    ticks = [t for t in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if _is_near(t, points)]
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.minorticks_off()
    axes.margins(x=0.08, y=0.14)
    axes.set_xlabel("CPU milliseconds an image, one thread (input side in px at each point)")
    axes.set_ylabel("mean AP of 1000 words, %")
    axes.set_title(title, fontsize=10)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="best")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def _is_near(tick: float, points: Mapping[Kind, tuple[float, float | None]]) -> bool:
    drawn = [ms for ms, ap in points.values() if ap is not None]
    return bool(drawn) and 0.6 * min(drawn) <= tick <= 1.7 * max(drawn)


def _name(kind: Kind) -> str:
    label = LOOKS.get((kind.backbone, kind.form), (f"{kind.backbone}, {kind.form}",))[0]
    return label + (", Classification" if kind.pooling == "whole_image" else "")


def _seconds(network: Network, feed: Mapping[str, Any]) -> float:
    started = time.process_time()
    network.run(feed)
    return time.process_time() - started


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    timing = verbs.add_parser("time")
    timing.add_argument("kinds", nargs="*", help="BACKBONE:SIZE[:FORM[:POOLING]]; all unless given")
    timing.add_argument("--rounds", type=int, default=15)
    timing.add_argument("--out", type=Path, default=Path("runs/times.json"), help="added to")
    drawing = verbs.add_parser("draw")
    drawing.add_argument("--times", type=Path, required=True)
    drawing.add_argument("--results", nargs="*", type=Path, default=[])
    drawing.add_argument("--also", action="append", default=[], help="KIND=AP in per cent")
    drawing.add_argument("--title", default="Word detection: precision and time")
    drawing.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
