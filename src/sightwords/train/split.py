"""Which photographs serve which stage of `sightwords train all`; each id decides by its hash."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.train.data.sources import source_key
from sightwords.train.recipe import Recipe
from sightwords.train.stages import Job
from sightwords.types import Example

Work = Job[Recipe]
Figures = Mapping[str, object]


@dataclass(frozen=True)
class Split:
    """Which images serve what; each id decides by its hash."""

    held_out: int
    """So many images of the training sources train no detector."""
    calibration: frozenset[str]
    rerank: frozenset[str]
    """For MERT and confidence; from the validation sources where there are some."""

    @classmethod
    def load(cls, folder: Path) -> Split:
        """What the stage `vocabulary` decided."""
        stored = json.loads((folder / "split.json").read_text(encoding="utf-8"))
        return cls(
            stored["held_out"], frozenset(stored["calibration"]), frozenset(stored["rerank"])
        )


def learning_examples(recipe: Recipe, split: Split) -> Iterator[Example]:
    """Images whose captions later stages may learn: all but those for re-ranking."""
    examples = open_corpus(recipe.data.train)
    return (example for example in examples if example.id not in split.rerank)


def rerank_examples(recipe: Recipe, split: Split) -> Iterator[Example]:
    """Images for MERT and confidence."""
    examples = open_corpus(recipe.data.validation or recipe.data.train)
    return (example for example in examples if example.id in split.rerank)


def data_key(recipe: Recipe) -> str:
    """The state of the captioned images."""
    return source_key([*recipe.data.train, *recipe.data.validation])
