"""The early system (rows 3 to 5 of the paper's table): frozen AlexNet on object proposals.

    python benchmarks/paper/proposals.py search --images coco-train-*.tar --boxes 30 --side-px 160 \
        --out early/train.jsonl
    python benchmarks/paper/early_rows.py describe coco-train-*.tar --proposals early/train.jsonl \
        --part train --weights alexnet-conv.fp16.safetensors --out early/train
    python benchmarks/paper/early_rows.py train early/train --captions coco-train.jsonl.gz \
        --out early/head.npz
    python benchmarks/paper/early_rows.py score early/test --head early/head.npz \
        --out described/test
    python benchmarks/paper/early_rows.py draw described/held-out/scores.npz \
        --captions coco-train.jsonl.gz --out early/top-words.npz
    python benchmarks/paper/early_rows.py language early/top-words.npz --start language \
        --captions coco-train.jsonl.gz --out early/language             # --start language-baseline
    python benchmarks/paper/early_rows.py bring early/train --head early/head.npz --device cuda \
        --held-out early/held-out --captions coco-train.jsonl.gz --name boxes --out runs \
        --sets coco-val=early/val coco-test=early/coco-test pascal1k=early/pascal1k

`describe` runs AlexNet's ImageNet convolutions over the whole photo, squashed to a square, and
pools their last map in each box. This is the slow part; it is done once per image and kept in
pieces, so that a stopped run resumes. `train` fits fc8 by the noisy-OR over the boxes. `score`
writes the `scores.npz` and `features.npz` that `paper_rows.py` reads. `draw` makes the detections
that the language model learns from: all training images were not scored out of fold, so theirs are
drawn from those of held-out images (`train/language/detection_noise.py`). `language` trains a
language model of another detector for one more epoch, which teaches it how far these words can be
trusted. `bring` writes `boxes-rows.npz` and `boxes-dmsm.zip`, which `paper_outputs.py` unpacks; for
a set described later, `score ... --components-of early/train` reduces features the same way.

Deviation: the early system described a box by fc7 of AlexNet, whose weights are not available.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import (  # type: ignore[import-not-found]
    PARTS,
    captions_of,
    likeliest,
    part_of,
    save_arrays,
)
from torch import Tensor

from sightwords.config import PRESETS, Config, LanguageConfig, WordsConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.word_scores import WordScoreTable, read_word_scores, write_word_scores
from sightwords.files import atomic_path
from sightwords.images import PAPER_SIDE_PX, TORCHVISION, decode, to_array
from sightwords.language.maxent import MaxEnt
from sightwords.settings import from_mapping, read_toml, save_resolved
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.data.augment import normalize
from sightwords.train.dmsm.image_features import Described, ImageFeatures
from sightwords.train.language.detection_noise import simulate_scores
from sightwords.train.language.run import LanguageSources, train_language
from sightwords.train.words.backbones import build_backbone
from sightwords.train.words.backbones.base import Backbone, tiles
from sightwords.train.words.boxes.network import pool_boxes
from sightwords.train.words.boxes.training import boxes_of
from sightwords.train.words.frozen.features import RegionTable
from sightwords.train.words.frozen.training import train_head
from sightwords.types import Box, Example
from sightwords.words.artefact import DEFAULT_DETECTOR, VOCABULARY_NAME
from sightwords.words.proposals import read_proposals

PIECE = 250
"""Images in a file of `describe`."""


def run_describe(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    backbone = build_backbone(
        "alexnet", weights=str(args.weights), size_px=PAPER_SIDE_PX, drop_path=0.0, grid=12
    )
    backbone.keep_map_alone()
    backbone.eval().to(args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    proposals = read_proposals(args.proposals)
    examples = part_of(args.sources, args.part)[: args.limit]
    began, made = time.perf_counter(), 0
    for number in range(-(-len(examples) // PIECE)):
        piece, path = examples[number * PIECE :][:PIECE], args.out / f"{number:04d}.npz"
        if path.exists():
            continue
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            arrays: dict[str, Any] = described(piece, proposals, backbone, args)
            np.savez(stream, **arrays)
        made += len(piece)
        each = 1000 * (time.perf_counter() - began) / made
        print(f"{path}: {each:.0f} ms an image", flush=True)


@torch.no_grad()
def described(
    examples: Sequence[Example],
    proposals: Mapping[str, Sequence[Box]],
    backbone: Backbone,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Features of boxes (n, 1 + R, C) and of images (n, T, D), with their ids."""
    regions, features = [], []
    for start in range(0, len(examples), args.batch_size):
        some = examples[start : start + args.batch_size]
        images = [decode(e.image) for e in some if e.image is not None]
        found = boxes_of(proposals, [e.id for e in some], limit=args.boxes)
        boxes = torch.from_numpy(found).to(args.device)
        size = (args.size_px, args.size_px)
        pixels = np.stack([to_array(image.resize(size)) for image in images])
        batch = torch.from_numpy(pixels).to(args.device).permute(0, 3, 1, 2).float()
        maps = backbone.feature_map(normalize(batch, TORCHVISION)).float()
        regions.append(pooled(maps, boxes, cells=args.cells).half().cpu().numpy())
        image_tokens = torch.cat([maps.mean(dim=(2, 3))[:, None], tiles(maps)], dim=1)
        features.append(image_tokens.half().cpu().numpy())
    return {
        "ids": np.array([canonical_id(e.id) for e in examples]),
        "regions": np.concatenate(regions),
        "features": np.concatenate(features),
    }


def pooled(maps: Tensor, boxes: Tensor, *, cells: int) -> Tensor:
    """(B, R, C) features of the boxes, each of mean square 1; zeros where there is no box."""
    found = pool_boxes(maps, boxes, cells=cells)
    found = found / found.square().mean(dim=-1, keepdim=True).sqrt().clamp_min(1e-6)
    return found * (boxes[..., 2:3] > boxes[..., 0:1])


def run_train(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    ids, regions, _ = kept(args.described)
    said = captions_of(args.captions)
    vocabulary = load_vocabulary(args.vocabulary)
    nothing = np.zeros((regions.shape[-1], 0), dtype=np.float32)
    table = RegionTable(
        regions, tuple(ids), tuple(said[i] for i in ids), nothing, np.zeros(0, dtype=np.float32)
    )
    config = settings(args)
    began = time.perf_counter()
    weight, bias = train_head(
        table,
        vocabulary,
        None,
        config,
        progress=lambda r: (
            print(f"{r.step}/{r.steps} loss {r.loss:.4f}", flush=True) if r.step % 50 == 0 else None
        ),
    )
    with atomic_path(args.out) as temporary, temporary.open("wb") as stream:
        np.savez(stream, weight=weight, bias=bias, words=np.array(vocabulary.words))
    seconds = time.perf_counter() - began
    print(json.dumps({"images": len(ids), "epochs": config.epochs, "seconds": round(seconds)}))


def settings(args: argparse.Namespace) -> WordsConfig:
    """AdamW with warm-up and a half cosine on fc8 alone; p = .18 an image at the start."""
    return WordsConfig(
        backbone="alexnet",
        regions="proposals",
        frozen=True,
        optimizer="adamw",
        schedule="cosine",
        warmup=0.1,
        learning_rate=args.rate,
        head_rate=1.0,
        weight_decay=args.weight_decay,
        batch_size=args.batch_size,
        epochs=args.epochs,
        dropout=0.5,
        initial_bias=-5.0,
        labels=PRESETS["paper"].words.labels,
    )


def run_score(args: argparse.Namespace) -> None:
    found, words = scored(args.described, args.head)
    scores = found.image_probs
    table = WordScoreTable(found.features.ids, words, scores.astype(np.float64))
    write_word_scores(args.out / "scores.npz", table)
    features = found.features
    if args.components_of:
        from paper_outputs import COMPONENTS, principal, reduced  # type: ignore[import-not-found]

        _, _, learned = kept([args.components_of])
        shorter = reduced(features.features, *principal(learned, COMPONENTS))
        features = ImageFeatures(features.ids, shorter)
    features.save(args.out / "features.npz")
    print(f"{args.out}: {len(scores)} images, {(scores > 0.15).sum(1).mean():.1f} words of p > .15")


def scored(described: Sequence[Path], path: Path) -> tuple[Described, tuple[str, ...]]:
    """Scores and features of what `describe` left, and the words."""
    ids, regions, features = kept(described)
    with np.load(path, allow_pickle=False) as head:
        weight, bias, words = head["weight"], head["bias"], head["words"].tolist()
    empty = tuple(() for _ in ids)
    probs = RegionTable(regions, tuple(ids), empty, weight, bias).probs(weight, bias)
    return Described(probs, ImageFeatures(tuple(ids), features)), tuple(words)


def run_bring(args: argparse.Namespace) -> None:
    from paper_outputs import pack

    ids, _, features = kept([args.described])
    held_out, words = scored([args.held_out], args.head)
    parts = dict(pair.split("=", 1) for pair in args.sets)
    args.out.mkdir(parents=True, exist_ok=True)
    pack(
        args.name,
        ImageFeatures(tuple(ids), features),
        held_out,
        {part: scored([Path(folder)], args.head)[0] for part, folder in parts.items()},
        words,
        captions_of(args.captions),
        out=args.out,
        device=args.device,
        dmsm=dataclasses.replace(PRESETS["paper"].dmsm, epochs=args.dmsm_epochs),
    )


def run_draw(args: argparse.Namespace) -> None:
    table = read_word_scores(args.scores)
    said = captions_of(args.captions)
    own = captions_of(args.own_captions or args.captions)
    rows = [row for row, i in enumerate(table.ids) if i in own]
    vocabulary = load_vocabulary(args.vocabulary)
    assert tuple(vocabulary.words) == tuple(table.words)
    real = table.scores[rows].astype(np.float32)
    ids = [i for i in said if i not in {table.ids[row] for row in rows}]
    mentions: Callable[..., np.ndarray] = vocabulary.mentions
    drawn = simulate_scores(
        mentions([said[i] for i in ids]), mentions([own[table.ids[row]] for row in rows]), real
    )
    mine = [row for row in rows if table.ids[row] in said]
    indices, probs = likeliest(np.concatenate([drawn, table.scores[mine]]))
    names = np.array([*ids, *(table.ids[row] for row in mine)])
    named = {"ids": names, "words": np.array(vocabulary.words)}
    save_arrays(args.out, {**named, "indices": indices, "probs": probs})
    print(f"{args.out}: {len(names)} images, drawn from {len(rows)}")


def run_language(args: argparse.Namespace) -> None:
    start = MaxEnt.load(args.start)
    path = args.start / "config.resolved.toml"
    before = from_mapping(LanguageConfig, read_toml(path)["language"], where=str(path))
    language = dataclasses.replace(before, epochs=args.epochs, first_square=args.first_square)
    began = time.perf_counter()
    sources = LanguageSources(
        captions=[lambda: open_corpus(args.captions)], word_scores=[args.words]
    )
    model = train_language(
        sources, start.vocabulary, language, start=start, threads=args.threads
    ).quantised()
    model.save(args.out)
    save_resolved(Config(language=language), args.out)
    print(f"{args.out}: {time.perf_counter() - began:.0f} s")


def kept(folders: Sequence[Path]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Ids, features of boxes and of images that `describe` left, as far as it came."""
    ids: list[str] = []
    regions, features = [], []
    for path in [p for folder in folders for p in sorted(folder.glob("[0-9]*.npz"))]:
        with np.load(path, allow_pickle=False) as piece:
            ids += piece["ids"].tolist()
            regions.append(piece["regions"])
            features.append(piece["features"])
    return ids, np.concatenate(regions), np.concatenate(features)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, required=True)
    common.add_argument("--threads", type=int, default=1)
    common.add_argument("--vocabulary", type=Path, default=DEFAULT_DETECTOR / VOCABULARY_NAME)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("describe", parents=[common])
    verb.add_argument("sources", nargs="+")
    verb.add_argument("--weights", type=Path, required=True)
    verb.add_argument("--proposals", type=Path, required=True, help="of `proposals.py search`")
    verb.add_argument("--part", choices=PARTS, default="all")
    verb.add_argument("--limit", type=int, help="the first N images")
    verb.add_argument("--boxes", type=int, default=30, help="beside the whole image")
    verb.add_argument("--cells", type=int, default=2, help="rows and columns of a box's features")
    verb.add_argument("--size-px", type=int, default=320, help="side, for AlexNet")
    verb.add_argument("--batch-size", type=int, default=10)
    verb.add_argument("--device", default="cpu")
    verb.set_defaults(run=run_describe)
    verb = verbs.add_parser("train", parents=[common])
    verb.add_argument("described", nargs="+", type=Path)
    verb.add_argument("--captions", nargs="+", required=True)
    verb.add_argument("--epochs", type=int, default=10)
    verb.add_argument("--batch-size", type=int, default=64)
    verb.add_argument("--rate", type=float, default=1e-3)
    verb.add_argument("--weight-decay", type=float, default=0.1)
    verb.set_defaults(run=run_train)
    verb = verbs.add_parser("score", parents=[common])
    verb.add_argument("described", nargs="+", type=Path)
    verb.add_argument("--head", type=Path, required=True)
    verb.add_argument("--components-of", type=Path, help="features as `bring` reduced these")
    verb.set_defaults(run=run_score)
    verb = verbs.add_parser("draw", parents=[common])
    verb.add_argument("scores", type=Path)
    verb.add_argument("--captions", nargs="+", required=True, help="of the images to draw for")
    verb.add_argument("--own-captions", nargs="+", help="of the scored images, where not the same")
    verb.set_defaults(run=run_draw)
    verb = verbs.add_parser("bring", parents=[common])
    verb.add_argument("described", type=Path, help="of the training images")
    verb.add_argument("--head", type=Path, required=True)
    verb.add_argument("--held-out", type=Path, required=True)
    verb.add_argument("--sets", nargs="+", required=True, help="SET=FOLDER of `describe`")
    verb.add_argument("--captions", nargs="+", required=True)
    verb.add_argument("--name", default="boxes")
    verb.add_argument("--dmsm-epochs", type=int, default=PRESETS["paper"].dmsm.epochs)
    verb.add_argument("--device", default="cpu")
    verb.set_defaults(run=run_bring)
    verb = verbs.add_parser("language", parents=[common])
    verb.add_argument("words", type=Path, help="of `draw`")
    verb.add_argument("--captions", nargs="+", required=True)
    verb.add_argument("--start", type=Path, required=True, help="a language model's directory")
    verb.add_argument("--epochs", type=int, default=1)
    verb.add_argument("--first-square", type=float, default=30.0, help="of AdaGrad")
    verb.set_defaults(run=run_language)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    options.run(options)
