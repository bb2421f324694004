"""Captions with detected words for the benchmarks of the language model.

Training words come from `--words`: detections of a detector that did not train on the images.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
from pathlib import Path
from typing import Any

from sightwords.config import PRESETS, LanguageConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.splits import half_by_hash
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import (
    AttributeSets,
    Sentences,
    encode_blocks,
    joined,
    joined_sets,
    read_detections,
)
from sightwords.train.language.maxent import fit_language
from sightwords.train.language.perplexity import corpus_perplexity
from sightwords.types import Example

BEST = PRESETS["default"].language
"""The settings of `sightwords train language`."""
BEFORE = LanguageConfig(attribute_samples=3, learning_rate=0.5, text_weight=0.3)
"""Those that the model before the one inside the package was trained with."""


@dataclasses.dataclass(frozen=True)
class Data:
    """Training and validation text with attribute sets."""

    config: LanguageConfig
    vocabulary: Vocabulary
    examples: list[Example]
    train: Sentences
    sets: AttributeSets
    val: Sentences | None
    val_sets: AttributeSets | None

    def part(self, sentences: int) -> Data:
        """With only the first sentences of the training text."""
        return dataclasses.replace(self, train=first_sentences(self.train, sentences))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="folder of the captions")
    parser.add_argument("--train", nargs="+", default=["coco-train.jsonl.gz"], metavar="FILE")
    parser.add_argument(
        "--words", nargs="+", type=Path, metavar="NPZ", required=True, help="out of fold"
    )
    parser.add_argument("--val-captions", default="coco-val.jsonl.gz", metavar="FILE")
    parser.add_argument("--val", type=Path, metavar="NPZ", help="words of those images")
    parser.add_argument("--half", type=int, choices=(0, 1), help="of them, by hash of the id")
    parser.add_argument("--vocabulary", type=int, default=4000, metavar="N")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--before", action="store_true", help="the settings of the model before the packaged one"
    )


def load(args: argparse.Namespace) -> Data:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    config = BEFORE if args.before else BEST
    # One corpus for each file: ids of one need not differ from those of another.
    examples = [e for name in args.train for e in open_corpus(str(args.data / name))]
    captions = (caption for example in examples for caption in example.captions)
    vocabulary = Vocabulary.of_captions(captions, size=args.vocabulary)
    found = [read_detections(path, threshold=config.attribute_threshold) for path in args.words]
    sets = joined_sets(each.attribute_sets(vocabulary) for each in found)
    train = joined(encode_blocks(examples, vocabulary, sets, text_weight=config.text_weight))
    print(
        f"{len(train)} captions ({(train.images >= 0).mean():.0%} with detected words), "
        f"{len(train.tokens)} tokens, {len(vocabulary)} words, "
        f"{len(sets.ids) / max(1, len(sets)):.1f} attributes per image"
    )
    val, val_sets = validation(args, vocabulary)
    return Data(config, vocabulary, examples, train, sets, val, val_sets)


def validation(
    args: argparse.Namespace, vocabulary: Vocabulary
) -> tuple[Sentences | None, AttributeSets | None]:
    if not args.val:
        return None, None
    sets = read_detections(args.val).attribute_sets(vocabulary)
    images = [
        example
        for example in open_corpus(str(args.data / args.val_captions))
        if sets.row(example.id) >= 0 and args.half in (None, half_by_hash(example.id))
    ]
    text = joined(encode_blocks(images, vocabulary, sets))
    half = "" if args.half is None else f" (half {args.half} by hash)"
    print(
        f"perplexity on {len(text)} captions, {len(text.tokens)} tokens, of {len(images)} images "
        f"of {args.val_captions}{half}; {(text.tokens == len(vocabulary)).sum()} tokens are <unk>"
    )
    return text, sets


def fit(data: Data, config: Any, *, threads: int, **options: Any) -> MaxEnt:
    sentences = options.pop("text", data.train)
    return fit_language(
        lambda: [sentences], data.vocabulary, config, sets=data.sets, threads=threads, **options
    )


def measured(data: Data, model: MaxEnt, threads: int) -> float:
    if data.val is None or data.val_sets is None:
        raise SystemExit("give --val")
    return corpus_perplexity(model, data.val, data.val_sets, threads=threads).value


def first_sentences(text: Sentences, count: int) -> Sentences:
    return Sentences(
        text.tokens[: text.offsets[count]],
        text.offsets[: count + 1],
        text.images[:count],
        text.weights[:count],
    )
