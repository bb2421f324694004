"""Train and judge the rows of the paper's word table: MIL and Classification on several networks.

    python benchmarks/paper/words_baselines.py --train 'coco-train-*.tar' --val 'coco-val-*.tar' \
        --test coco-test-00.tar --weights WEIGHTS --device cuda \
        --out runs/baselines --rows vit-whole vgg16-mil:2 alexnet-mil

`ROWS` lists the rows; `NAME:EPOCHS` sets other epochs, `--load NAME=FILE` judges weights that there
are. WEIGHTS is a folder that holds `dinov2-vits14/`, `vgg16-conv.fp16.safetensors` and
`alexnet-conv.fp16.safetensors`; packages that lie in it (EfficientNet's two) are imported from
there. `--sizes` judges a ViT at other input sizes too, its position embeddings resampled.

Each row writes `NAME.npz`: `ids`, `words`, `scores` float16 (N, V) of the first half of `--val` by
id hash and of `--test` (`sightwords evaluate words` reads it), and for `--test` the region
of each map's peak, which `localisation.py` plays the pointing game with. `results.jsonl` has AP and
PHR by part of speech of that half of `--val`; `--test` is scored and not judged. `--outputs
SET=SOURCE ...` writes what the paper's rows of captions need besides (`paper_outputs.py`).

Where the rows depart from the paper: its solver (SGD, one image a step, 3 epochs) would take hours,
and fc6 and fc7 start from random weights, since their ImageNet weights are not available. All rows
train with AdamW, warm-up and a half cosine, on crops and mirrored images. Photos are squashed to a
square of `--stored-px`, as training images are in the shards; the 565 px canvas is then full.
EfficientNet-Lite2 has 32 px a cell: 12 x 12 regions need 384 px, 288 px has 9 x 9, 256 px 8 x 8.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paper_outputs  # type: ignore[import-not-found]
import torch
from localisation import NAMES  # type: ignore[import-not-found]
from shared import HELD_OUT, decoded, save_arrays  # type: ignore[import-not-found]
from torch import Tensor
from torch.nn import functional

from sightwords.config import PRESETS, WordsConfig
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash, hold_out
from sightwords.images import region_boxes
from sightwords.settings import to_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.data.augment import network_input
from sightwords.train.data.image_table import ImageTable, gathered
from sightwords.train.fit import StepReport, precision
from sightwords.train.weights import save_weights
from sightwords.train.words.labels import caption_targets
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import image_prob
from sightwords.train.words.run import load_weights, new_network
from sightwords.train.words.training import train_words
from sightwords.train.words.validation import judge
from sightwords.words.artefact import DEFAULT_DETECTOR, VOCABULARY_NAME

CLASSIFICATION: dict[str, Any] = {"pooling": "whole_image", "initial_bias": -4.0}
VIT = PRESETS["default"].words
VGG = dataclasses.replace(
    VIT,
    backbone="vgg16",
    epochs=2,
    batch_size=64,
    learning_rate=3e-5,
    head_rate=5.0,  # fc6, fc7 and fc8: all new, and wide
    layer_decay=1.0,
    dropout=0.5,
    weight_average=0.99,
)
ALEXNET = dataclasses.replace(VGG, backbone="alexnet", epochs=6)
LITE = dataclasses.replace(
    VIT,
    backbone="efficientnet-lite2",
    epochs=6,
    learning_rate=4e-4,
    head_rate=5.0,
    layer_decay=0.95,
)


@dataclass(frozen=True)
class Row:
    """How one row is trained."""

    config: WordsConfig
    size_px: int
    weights: str | None


def _classification(config: WordsConfig, **changes: Any) -> WordsConfig:
    return dataclasses.replace(config, **CLASSIFICATION, **changes)


DINO, VGG_FILE, ALEXNET_FILE = (
    "dinov2-vits14",
    "vgg16-conv.fp16.safetensors",
    "alexnet-conv.fp16.safetensors",
)
ROWS = {
    "vit-mil": Row(VIT, 224, DINO),
    "vit-whole": Row(_classification(VIT), 224, DINO),
    "vgg16-mil": Row(VGG, 565, VGG_FILE),
    "vgg16-whole": Row(_classification(VGG, epochs=6, batch_size=128), 224, VGG_FILE),
    "alexnet-mil": Row(ALEXNET, 565, ALEXNET_FILE),
    "alexnet-whole": Row(_classification(ALEXNET, epochs=8), 224, ALEXNET_FILE),
    "lite2-mil": Row(LITE, 384, None),
    "lite2-whole": Row(_classification(LITE), 384, None),
    "lite2-mil-288": Row(dataclasses.replace(LITE, grid=9), 288, None),
    "lite2-mil-256": Row(dataclasses.replace(LITE, grid=8), 256, None),
    "vit-mil-168": Row(VIT, 168, DINO),
    "vit-mil-280": Row(VIT, 280, DINO),
}
DEFAULT_ROWS = (
    "vit-whole",
    "alexnet-whole",
    "alexnet-mil",
    "vgg16-whole",
    "vgg16-mil",
    "lite2-mil",
)


@dataclass(frozen=True)
class Seen:
    """What a network says of a table."""

    scores: npt.NDArray[np.float16]
    """(N, V) probabilities."""
    peaks: npt.NDArray[np.uint8]
    """(N, n) number of the region, row by row, where each named thing's map is highest."""


def main() -> None:
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    sys.path.append(str(args.weights))
    torch.backends.cudnn.benchmark = True
    train, held_out, val, test = tables(args)
    outputs = dict(pair.split("=", 1) for pair in args.outputs)
    sets = {part: all_of([source], args) for part, source in outputs.items()}
    vocabulary = load_vocabulary(args.vocabulary)
    targets = caption_targets(train.captions, vocabulary)
    spent = time.perf_counter() - began
    sizes = " + ".join(str(len(table)) for table in (train, val, test) if table is not None)
    print(f"{sizes} images, {spent:.0f} s", flush=True)
    for asked in args.rows or DEFAULT_ROWS:
        name, _, epochs = asked.partition(":")
        given = dict(pair.split("=", 1) for pair in args.load).get(name)
        row = ROWS[name]
        if epochs:
            config = dataclasses.replace(row.config, epochs=int(epochs))
            row = dataclasses.replace(row, config=config)
        started = time.perf_counter()
        network = built(row, vocabulary, args)
        if given:
            load_weights(network, given)
        else:
            train_words(network, train, targets, row.config, device=args.device, progress=say)
        seconds = time.perf_counter() - started
        record(name, row, network, val, test, vocabulary, args, seconds=seconds)
        if sets:
            paper_outputs.bring(
                name,
                network,
                train,
                held_out,
                sets,
                vocabulary.words,
                out=args.out,
                device=args.device,
            )
            print(f"{name}: brought after {time.perf_counter() - began:.0f} s", flush=True)
        for size_px in args.sizes if row.config.backbone == VIT.backbone else ():
            other = resized(network, row, size_px, vocabulary, args)
            named = dataclasses.replace(row, size_px=size_px)
            at = f"{name}-at-{size_px}"
            record(at, named, other, val, None, vocabulary, args, seconds=0, keep=False)
        del network
        if args.device == "cuda":
            torch.cuda.empty_cache()


def tables(
    args: argparse.Namespace,
) -> tuple[ImageTable, ImageTable, ImageTable, ImageTable | None]:
    """Training images, those held out for calibration, half of --val, and --test."""
    parts = decoded(args.train, args.cache, args.stored_px)
    coco = [name for part in parts for name in part.ids if name.isdigit()]
    held_out = hold_out(coco, min(HELD_OUT, len(coco) // 2))
    used = table_of(parts, lambda name: name not in held_out, limit=args.limit)
    held = table_of(parts, lambda name: name in held_out, limit=args.limit)
    val = all_of(args.val, args, lambda name: half_by_hash(name) == 0)
    return used, held, val, all_of(args.test, args) if args.test else None


def all_of(
    sources: Sequence[str],
    args: argparse.Namespace,
    wanted: Callable[[str], bool] = lambda name: True,
) -> ImageTable:
    """Images of some shards, all or those whose ids are wanted."""
    return table_of(decoded(sources, args.cache, args.stored_px), wanted, limit=args.limit)


def table_of(
    parts: Sequence[ImageTable], wanted: Callable[[str], bool], *, limit: int
) -> ImageTable:
    found = gathered(parts, wanted)
    return found.select(range(min(limit, len(found)))) if limit else found


def built(row: Row, vocabulary: Vocabulary, args: argparse.Namespace) -> WordNetwork:
    """A new network; channels last, which convolutions on a GPU are fastest with."""
    weights = str(args.weights / row.weights) if row.weights else None
    network = new_network(row.config, len(vocabulary), weights=weights, size_px=row.size_px)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def resized(
    network: WordNetwork, row: Row, size_px: int, vocabulary: Vocabulary, args: argparse.Namespace
) -> WordNetwork:
    """The same ViT for another input size: its position embeddings are resampled."""
    changed = new_network(
        row.config, len(vocabulary), weights=str(args.weights / str(row.weights)), size_px=size_px
    )
    key = "backbone.vit.embeddings.position_embeddings"
    state = {k: v.detach().cpu() for k, v in network.state_dict().items()}
    side = int(changed.state_dict()[key].shape[1] - 1) ** 0.5
    state[key] = resample_positions(state[key], round(side))
    changed.load_state_dict(state)
    return changed


def resample_positions(positions: Tensor, side: int) -> Tensor:
    """(1, 1 + n^2, C) -> (1, 1 + side^2, C): the class token's stays, the square's are bicubic."""
    old = round((positions.shape[1] - 1) ** 0.5)
    square = positions[:, 1:].transpose(1, 2).reshape(1, -1, old, old)
    new = functional.interpolate(square, size=(side, side), mode="bicubic", antialias=side < old)
    return torch.cat([positions[:, :1], new.flatten(2).transpose(1, 2)], dim=1)


def record(
    name: str,
    row: Row,
    network: WordNetwork,
    val: ImageTable,
    test: ImageTable | None,
    vocabulary: Vocabulary,
    args: argparse.Namespace,
    *,
    seconds: float,
    keep: bool = True,
) -> None:
    """Score, judge and, unless told otherwise, write one row."""
    named = [vocabulary.index(word) for word in named_words(vocabulary)]
    judged = look(network, val, named, device=args.device)
    several = [place for place, said in enumerate(val.captions) if len(said) > 1]
    scores = judged.scores[several].astype(np.float32)
    means = judge(scores, val.select(several), vocabulary)
    result = {
        "row": name,
        "backbone": row.config.backbone,
        "pooling": row.config.pooling,
        "size_px": row.size_px,
        "epochs": row.config.epochs,
        "images": len(val),
        "seconds": round(seconds),
        **{m.pos: {"ap": _percent(m.ap), "phr": _percent(m.phr)} for m in means},
    }
    print(json.dumps(result), flush=True)
    with (args.out / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
    if not keep:
        return
    seen = {"val": (val, judged)}
    if test is not None:
        seen["test"] = (test, look(network, test, named, device=args.device))
    write(args.out / f"{name}.npz", row, network, seen, vocabulary)
    if name in args.keep:
        save_weights(network, args.out / f"{name}.safetensors")


def named_words(vocabulary: Vocabulary) -> list[str]:
    """The words of the pointing game that the vocabulary has, sorted."""
    return sorted({w for names in NAMES.values() for w in names.split()} & set(vocabulary.words))


@torch.no_grad()
def look(
    network: WordNetwork,
    table: ImageTable,
    named: Sequence[int],
    *,
    device: str,
    batch_size: int = 64,
) -> Seen:
    """Scores of all words, and the peaks of the named ones."""
    network.eval().to(device)
    scores, peaks = [], []
    for start in range(0, len(table), batch_size):
        rows = slice(start, start + batch_size)
        pixels = torch.from_numpy(np.array(table.pixels[rows])).to(device)
        content = torch.from_numpy(table.content[rows]).to(device)
        with precision(torch.device(device)):
            output = network(network_input(pixels, content, network.backbone.input))
        scores.append(image_prob(output.bag_logits).cpu().numpy().astype(np.float16))
        maps = output.region_logits[..., list(named)].flatten(1, 2)  # (B, regions, n)
        peaks.append(maps.argmax(dim=1).to(torch.uint8).cpu().numpy())
    return Seen(np.concatenate(scores), np.concatenate(peaks))


def write(
    path: Path,
    row: Row,
    network: WordNetwork,
    seen: Mapping[str, tuple[ImageTable, Seen]],
    vocabulary: Vocabulary,
) -> None:
    """One file a row, without pickles."""
    grid = network.backbone.grid
    boxes = region_boxes(
        grid.rows, grid.columns, window=grid.window, stride=grid.stride, canvas=grid.canvas
    )
    ids = [canonical_id(i) for table, _ in seen.values() for i in table.ids]
    arrays = {
        "ids": np.array(ids),
        "words": np.array(vocabulary.words),
        # Word by word in memory: neighbours are alike, which makes the file smaller.
        "scores": np.asfortranarray(np.concatenate([said.scores for _, said in seen.values()])),
        "parts": np.array([part for part, (table, _) in seen.items() for _ in table.ids]),
        "peak_words": np.array(named_words(vocabulary)),
        "peaks": np.concatenate([said.peaks for _, said in seen.values()]),
        "corners": boxes.corners.reshape(-1, 4).astype(np.float32),
        "size_px": np.array(row.size_px),
        "config": np.array(to_toml(row.config)),
    }
    save_arrays(path, arrays)


def say(report: StepReport) -> None:
    if report.step % 200 == 0 or report.step in (20, report.steps):
        print(
            f"  {report.step}/{report.steps} loss {report.loss:.4f} "
            f"{report.examples_per_second:.0f} images/s, {report.seconds_left:.0f} s left",
            flush=True,
        )


def _percent(share: float) -> float:
    return round(100 * share, 2)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", help=f"of {', '.join(ROWS)}; NAME or NAME:EPOCHS")
    parser.add_argument("--train", nargs="+", required=True, help="captioned shards")
    parser.add_argument("--val", nargs="+", required=True)
    parser.add_argument("--test", nargs="+", help="scored, not judged; peaks for the pointing game")
    parser.add_argument("--weights", type=Path, required=True, help="folder of ImageNet weights")
    parser.add_argument(
        "--vocabulary", type=Path, default=DEFAULT_DETECTOR / VOCABULARY_NAME, help="with tags"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", nargs="*", type=int, default=[], help="judge ViT rows at these")
    parser.add_argument(
        "--load", nargs="*", default=[], help="NAME=FILE: judge these weights, train nothing"
    )
    parser.add_argument(
        "--outputs", nargs="*", default=[], help="SET=SOURCE: what the rows of captions need"
    )
    parser.add_argument("--keep", nargs="*", default=[], help="rows whose weights to keep")
    parser.add_argument("--stored-px", type=int, default=256)
    parser.add_argument("--limit", type=int, default=0, help="the first N images of each source")
    parser.add_argument("--cache", type=Path, default=Path("runs/tables"), help="used if there")
    parser.add_argument("--out", type=Path, default=Path("runs/baselines"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
