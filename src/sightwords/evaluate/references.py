"""References in: human captions by image, from any corpus that `sightwords.corpus` reads."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id, canonical_ids
from sightwords.errors import ScoreError
from sightwords.types import ImageRef

log = logging.getLogger(__name__)


References = str | Path | Mapping[str, Sequence[str]]
"""A file of any corpus, or captions by image id."""


def load_references(references: References) -> dict[str, tuple[str, ...]]:
    """References by canonical image id, from a file or a mapping."""
    if isinstance(references, (str, Path)):
        return read_references(references)
    ids = canonical_ids(references, where="references")
    return {ids[str(key)]: tuple(captions) for key, captions in references.items()}


def read_references(source: str | Path) -> dict[str, tuple[str, ...]]:
    """Captions by canonical image id, in the order of the corpus.

    What the corpus reader could not use is counted and logged, with the first of it by name.
    """
    corpus = open_corpus(str(source))
    by_id = {example.id: example.captions for example in corpus}
    problems = corpus.problems
    if len(problems):
        log.warning(
            "%s: %d problems in the references (first: %s)",
            source,
            len(problems),
            next(iter(problems)),
        )
    if not by_id:
        raise ScoreError(f"{source}: no captioned image in it; expected references")
    ids = canonical_ids(by_id, where=str(source))
    return {ids[key]: captions for key, captions in by_id.items()}


def find_images(source: str | Path, ids: Collection[str]) -> dict[str, ImageRef]:
    """The images of some ids, in a second pass, so that a whole corpus is never held in memory."""
    wanted = set(ids)
    found: dict[str, ImageRef] = {}
    for example in open_corpus(str(source)):
        key = canonical_id(example.id)
        if key in wanted and example.image is not None:
            found[key] = example.image
            if len(found) == len(wanted):
                break
    return found
