"""Which photos serve which stage of `sightwords train all`; each id decides by its hash.

    train        all but those held out train the detectors
    calibration  held out: they fit the precision of each word
    re-ranking   the validation sources, or else half of those held out: MERT and confidence
    more         few captions or none: they train pupils, and their captions the models of sentences

The language model, the DMSM and the grounded model learn from all captions but those for
re-ranking.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.corpus import open_corpus
from sightwords.corpus.sources import expand
from sightwords.corpus.splits import half_by_hash
from sightwords.errors import CorpusError
from sightwords.train.integrity import sums_of
from sightwords.train.recipe import Recipe
from sightwords.train.stages import Job
from sightwords.types import Example

FOLD_SALT = "fold"
Work = Job[Recipe]
Figures = Mapping[str, object]


@dataclass(frozen=True)
class Split:
    """Which images serve what; each id decides by its hash."""

    images: int
    """Of the training sources."""
    calibration: frozenset[str]
    rerank: frozenset[str]
    """For MERT and confidence; from the validation sources where there are some."""

    @classmethod
    def load(cls, folder: Path) -> Split:
        """What the stage `vocabulary` decided."""
        stored = json.loads((folder / "split.json").read_text(encoding="utf-8"))
        return cls(stored["images"], frozenset(stored["calibration"]), frozenset(stored["rerank"]))

    @property
    def held_out(self) -> frozenset[str]:
        """Images of the training sources that train no detector, and perhaps others."""
        return self.calibration | self.rerank


def detector_examples(recipe: Recipe, split: Split) -> Iterator[Example]:
    """Images that train detectors: all of `train` but those held out."""
    held = split.held_out
    return (example for example in open_corpus(recipe.data.train) if example.id not in held)


def learning_examples(recipe: Recipe, split: Split) -> Iterator[Example]:
    """Images whose captions later stages may learn: all but those for re-ranking."""
    return (e for e in open_corpus(recipe.sources) if e.captions and e.id not in split.rerank)


def rerank_examples(recipe: Recipe, split: Split) -> Iterator[Example]:
    """Images for MERT and confidence."""
    examples = open_corpus(recipe.data.validation or recipe.data.train)
    return (example for example in examples if example.id in split.rerank)


def folds_of(ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """(N,) 0 or 1: the half of the training images that each belongs to; both have some."""
    fold = np.array([half_by_hash(name, salt=FOLD_SALT) for name in ids])
    if fold.all() or not fold.any():
        raise CorpusError(
            f"all {len(fold)} training images are in one half, and the other is empty; "
            'give more photos, or set cross_fit = "off" in [data]'
        )
    return fold


def data_key(recipe: Recipe) -> tuple[str, ...]:
    """The content of the captioned images, each with what it serves."""
    data = recipe.data
    several = {"train": data.train, "validation": data.validation, "more": data.more}
    return tuple(f"{name}:{content_key(names)}" for name, names in several.items() if names)


def content_key(sources: Iterable[str]) -> str:
    """A sum over the files behind some sources: the same wherever they lie, other for other files.

    What is fetched (`s3://...`, `hf:...`) is known by its name. Images that a list names are not
    looked at.
    """
    parts = [part for source in sources for part in _parts(source)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _parts(source: str) -> Iterator[str]:
    if "://" in source or source.startswith("hf:"):
        yield source
    elif Path(source).is_dir():
        for file in sorted(f for f in Path(source).rglob("*") if f.is_file()):
            yield f"{_sum_of(file)}  {file.relative_to(source).as_posix()}"
    else:
        yield from (_sum_of(Path(name)) for name in expand(source))


def _sum_of(file: Path) -> str:
    try:
        state = file.stat()
    except OSError:
        return "absent"
    return _known_sum(str(file), state.st_size, state.st_mtime_ns)


@functools.cache
def _known_sum(file: str, size: int, changed_ns: int) -> str:
    """Each file is read once, however many stages ask; another state asks again."""
    del size, changed_ns
    folder, name = Path(file).parent, Path(file).name
    return str(sums_of(folder, [name])[name]["sha256"])
