"""From corpora and a detector's word scores to a trained language model, in one call.

Stage: section 4.1, training. Captions are tokenised once and kept as numbers while they are few
enough; larger text is read anew for each epoch, block by block.
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
"""Up to so many tokens (400 MB) stay in memory between epochs."""


@dataclass(frozen=True)
class LanguageSources:
    """What to train on. Each corpus is a function, since every epoch may read it anew."""

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
    """A function that gives all sentences in blocks, each time it is called."""

    def read() -> Iterator[Sentences]:
        for some, their_sets in ((sources.captions, sets), (sources.text, NO_SETS)):
            examples = chain.from_iterable(corpus() for corpus in some)
            yield from encode_blocks(
                examples, vocabulary, their_sets, text_weight=config.text_weight
            )

    return Remembered(read, keep_tokens)


class Remembered:
    """Blocks that are kept after the first reading, unless they hold too many tokens.

    What is kept is one block from then on: its order is shuffled as a whole, so that no epoch ends
    with a kind of text of its own.
    """

    def __init__(self, read: Blocks, keep_tokens: int) -> None:
        self._read, self._keep_tokens = read, keep_tokens
        self._kept: list[Sentences] | None = None

    def __call__(self) -> Iterable[Sentences]:
        """The blocks, from memory or anew."""
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

    With `store`, a folder, so many `processes` read the text once and leave it there as numbers,
    of which one block is in memory at a time; what is there already is not read again, and is
    refused where `store_key` says that it comes from other files
    (`train.data.sources.source_key`). The
    corpora must then be picklable, such as `functools.partial(open_corpus, "text.jsonl")`.

    Captions of an image that no file of word scores knows are text: they count for
    `text_weight`. An image whose detector found nothing has an empty attribute set instead.
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
