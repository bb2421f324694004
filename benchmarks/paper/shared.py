"""What the scripts of this folder share: parts of a corpus, decoded tables, pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.sources import expand
from sightwords.corpus.splits import coco_half, hold_out
from sightwords.files import atomic_path
from sightwords.train.data.image_table import INDEX_NAME, ImageTable, build_table, open_table
from sightwords.train.language.detected_words import top_words
from sightwords.types import Example

PARTS = ("all", "half0", "half1", "train", "held-out")
"""Halves by the hash of the id; the images left to calibration, and the others."""
HELD_OUT = 4000


def part_of(sources: Sequence[str], part: str) -> list[Example]:
    """The images of one part, in the order of the shards."""
    examples = list(open_corpus(sources))
    if part in ("half0", "half1"):
        return [e for e in examples if coco_half(e.id) == int(part[-1])]
    if part == "all":
        return examples
    held = hold_out([e.id for e in examples], min(HELD_OUT, len(examples) // 2))
    return [e for e in examples if (e.id in held) == (part == "held-out")]


def captions_of(sources: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Captions by canonical id."""
    return {canonical_id(e.id): e.captions for e in open_corpus(sources)}


def decoded(sources: Iterable[str], cache: Path, side_px: int) -> list[ImageTable]:
    """A table of decoded images per shard, kept under `cache`."""
    tables = []
    for shard in (shard for source in sources for shard in expand(source)):
        folder = cache / Path(shard).stem
        if not (folder / INDEX_NAME).exists():
            build_table(open_corpus([shard], need_captions=False), folder, side_px=side_px)
        tables.append(open_table(folder))
    return tables


def likeliest(probs: npt.NDArray[np.floating]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(N, V) -> places and probabilities (N, 40) of each image's likeliest words."""
    found = [top_words(row.astype(np.float32)) for row in probs]
    return np.stack([places for places, _ in found]), np.stack([values for _, values in found])


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """A compressed NPZ file, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def marked(name: str) -> re.Pattern[str]:
    """What stands around a marked place of a page, and what is in it."""
    return re.compile(rf"(<!-- {re.escape(name)} -->\n)(.*?)(<!-- end -->)", re.S)


def placed(page: str, name: str, text: str) -> str:
    r"""The page with `text` in a marked place.

    >>> placed("a\n<!-- x -->\nold\n<!-- end -->\nb\n", "x", "| new |")
    'a\n<!-- x -->\n| new |\n<!-- end -->\nb\n'
    """
    page, count = marked(name).subn(lambda match: f"{match[1]}{text}\n{match[3]}", page)
    if count != 1:
        raise SystemExit(f"{count} places `<!-- {name} -->` ... `<!-- end -->`; expected 1")
    return page
