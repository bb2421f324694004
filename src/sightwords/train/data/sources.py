"""Corpora as training sees them: with images held out for calibration, decoded at most once."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.corpus.sources import expand
from sightwords.corpus.splits import hold_out as hold_out_ids
from sightwords.errors import CorpusError
from sightwords.train.data.image_table import ImageTable, Progress, cached_table
from sightwords.types import Example
from sightwords.words.artefact import Resize

log = logging.getLogger(__name__)

OPTIONS_ELSEWHERE = "'sightwords data convert' has these options, and its shards can be trained on"


def reported(sources: Sequence[str]) -> Iterator[Example]:
    """The corpus; at its end a warning counts what was left out."""
    corpus = open_corpus(sources)
    try:
        yield from corpus
    except CorpusError as error:
        if " --" in str(error):  # it names an option that training does not have
            raise CorpusError(f"{error}; {OPTIONS_ELSEWHERE}") from error
        raise
    if corpus.problems:
        log.warning(
            "left out of training: %s; for the list and remedies run: sightwords data inspect %s",
            corpus.problems.summary(),
            " ".join(sources),
        )


def training_examples(
    sources: Sequence[str], *, hold_out: int = 0, report: bool = False
) -> Iterator[Example]:
    """The corpus without `hold_out` images, chosen by their ids (`corpus.splits.hold_out`)."""
    chosen = _held_out(sources, hold_out)
    examples = reported(sources) if report else open_corpus(sources)
    return (example for example in examples if example.id not in chosen)


def held_out_examples(sources: Sequence[str], *, hold_out: int) -> Iterator[Example]:
    """The images that `training_examples` leaves out; the whole corpus if `hold_out` is 0."""
    if not hold_out:
        return iter(open_corpus(sources))
    chosen = _held_out(sources, hold_out)
    return (example for example in open_corpus(sources) if example.id in chosen)


def corpus_table(
    sources: Sequence[str],
    cache: str | os.PathLike[str],
    *,
    side_px: int,
    resize: Resize,
    workers: int | None = None,
    hold_out: int = 0,
    progress: Progress | None = None,
) -> ImageTable:
    """The decoded images of a corpus; a table made earlier from the same files is reused."""
    return cached_table(
        lambda: training_examples(sources, hold_out=hold_out, report=True),
        cache,
        key=f"{source_key(sources)}|{hold_out}",
        side_px=side_px,
        resize=resize,
        workers=workers,
        progress=progress,
    )


def source_key(sources: Sequence[str]) -> str:
    """Names, sizes and times of the files behind the sources; changed files change it."""
    files = [Path(name) for source in sources for name in _files(source)]
    return "|".join([*sources, *(_state(file) for file in files)])


def _files(source: str) -> Sequence[str]:
    if "://" in source or source.startswith("hf:"):
        return ()
    return [source] if Path(source).is_dir() else expand(source)


def _state(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return f"{path}: absent"
    return f"{path}: {found.st_size} {found.st_mtime_ns}"


def _held_out(sources: Sequence[str], count: int) -> frozenset[str]:
    if not count:
        return frozenset()
    return hold_out_ids((example.id for example in open_corpus(sources)), count)
