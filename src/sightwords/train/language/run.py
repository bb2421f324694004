"""Training of the language model, start to end: `train_language` (section 4.1).

Input: corpora and a detector's word scores. Output: a `MaxEnt`. Captions are tokenised once and
kept in memory as numbers; larger text is read again for each epoch, block by block, or stored on
disk as numbers by several processes (`store.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from sightwords.config import LanguageConfig
from sightwords.errors import InputError
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import (
    NO_SETS,
    AttributeSets,
    Counted,
    Sentences,
    encode_blocks,
    joined,
    joined_sets,
    read_detections,
)
from sightwords.train.language.maxent import Blocks, EpochReport, OnTokens, fit_language
from sightwords.train.language.store import Examples, Report, store_text

KEEP_TOKENS = 100_000_000
"""Tokens (400 MB) that stay in memory between epochs, at most."""


@dataclass(frozen=True)
class LanguageSources:
    """What to train on. Each corpus is a function, because every epoch may read it again."""

    captions: Sequence[Examples] = ()
    """Captioned images; those with word scores get attribute sets by their ids."""
    text: Sequence[Examples] = ()
    """Sentences without images, whatever their ids say."""
    word_scores: Sequence[str | os.PathLike[str]] = ()
    """NPZ files (see `read_detections`), of a detector that did not train on these images."""


def attribute_sets_of(
    sources: LanguageSources, vocabulary: Vocabulary, config: LanguageConfig
) -> AttributeSets:
    """The attribute sets of all images with word scores."""
    return joined_sets(
        read_detections(path, threshold=config.attribute_threshold).attribute_sets(vocabulary)
        for path in sources.word_scores
    )


def blocks_of(
    sources: LanguageSources,
    vocabulary: Vocabulary,
    sets: AttributeSets,
    config: LanguageConfig,
    *,
    keep_tokens: int = KEEP_TOKENS,
) -> Blocks:
    """A function that returns all sentences in blocks, each time it is called."""

    def read() -> Iterator[Sentences]:
        for some, their_sets in ((sources.captions, sets), (sources.text, NO_SETS)):
            examples = chain.from_iterable(corpus() for corpus in some)
            yield from encode_blocks(
                examples, vocabulary, their_sets, text_weight=config.text_weight
            )

    return Remembered(read, keep_tokens)


class Remembered:
    """Blocks that are kept in memory after they were read, unless they have too many tokens.

    They are kept as one block, which is shuffled as a whole, so that no epoch ends with one kind of
    text.
    """

    def __init__(self, read: Blocks, keep_tokens: int) -> None:
        self._read, self._keep_tokens = read, keep_tokens
        self._kept: list[Sentences] | None = None

    def __call__(self) -> Iterable[Sentences]:
        """The blocks, from memory or read again."""
        return self._read_and_keep() if self._kept is None else self._kept

    def _read_and_keep(self) -> Iterator[Sentences]:
        kept: list[Sentences] = []
        room = self._keep_tokens
        for block in self._read():
            room -= len(block.tokens)
            if room >= 0:
                kept.append(block)
            else:
                kept.clear()
            yield block
        if room >= 0:
            self._kept = [joined(kept)] if kept else []


def train_language(
    sources: LanguageSources,
    vocabulary: Vocabulary,
    config: LanguageConfig,
    *,
    threads: int = 1,
    processes: int = 1,
    store: str | os.PathLike[str] | None = None,
    store_key: str = "",
    start: MaxEnt | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[EpochReport], None] | None = None,
    on_tokens: OnTokens | None = None,
    on_parts: Report | None = None,
) -> MaxEnt:
    """Train a language model; see `fit_language` for the options.

    store: a folder in which `processes` processes store the text as numbers, once; training then
    keeps one block in memory at a time. Text that is already there is not read again.
    `store_key` is the state of the files (`train.data.sources.source_key`); stored text of other
    files is an error. The corpora must be picklable, such as
    `functools.partial(open_corpus, "text.jsonl")`.

    Captions of an image that no file of word scores contains are text: they count for
    `text_weight`. An image in which the detector found nothing has an empty attribute set.
    """
    if not sources.captions and not sources.text:
        raise InputError("no captions and no text to train on; name at least one corpus")
    sets = attribute_sets_of(sources, vocabulary, config) if sources.word_scores else NO_SETS
    blocks: Blocks = blocks_of(sources, vocabulary, sets, config)
    counted: Counted | None = None
    if store is not None:
        stored = store_text(
            store, (sources.captions, sources.text), vocabulary, config,
            sets=sets, processes=processes, key=store_key, report=on_parts,
        )  # fmt: skip
        blocks, counted = stored, stored.counted
    return fit_language(
        blocks,
        vocabulary,
        config,
        sets=sets,
        threads=threads,
        start=start,
        counted=counted,
        checkpoint=checkpoint,
        progress=progress,
        on_tokens=on_tokens,
    )
