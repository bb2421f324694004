"""What a corpus holds, counted in one pass: `sightwords data inspect`.

Memory holds the counts of words and of lengths, not the captions or the images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from sightwords.corpus.open import Corpus
from sightwords.corpus.problems import Kind
from sightwords.errors import ImageError
from sightwords.parallel import available_cores, ordered_map
from sightwords.types import Example, ImageRef

T = TypeVar("T")

Tokenizer = Callable[[list[str]], list[list[str]]]
Probe = Callable[[ImageRef], tuple[str, int, int]]
"""Format, width and height of an image; raises ImageError or OSError when it cannot be read."""

VOCABULARY_SIZE = 1000
"""The paper's (section 3): the 1000 most frequent words of the captions."""

_BATCH = 64
"""Examples whose image bytes are in memory at once."""


@dataclass(slots=True)
class Summary:
    """Counts over the examples that were read."""

    examples: int = 0
    images: int = 0
    captions: int = 0
    captions_per_image: Counter[int] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    datasets: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    """Tokens of a caption -> how many captions."""
    longest: str = ""
    """Id of the first caption with the most tokens."""
    words: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    smallest: tuple[int, int] | None = None
    """Width and height of the image with the fewest pixels (the first of equals)."""
    largest: tuple[int, int] | None = None

    def coverage(self, size: int = VOCABULARY_SIZE) -> float:
        """Share of all tokens that the `size` most frequent words cover."""
        total = self.words.total()
        return sum(count for _, count in self.words.most_common(size)) / total if total else 0.0

    def to_json(self) -> dict[str, Any]:
        """For machines; counters as objects, most frequent or shortest first."""
        return {
            "examples": self.examples,
            "images": self.images,
            "captions": self.captions,
            "captions_per_image": {str(k): n for k, n in sorted(self.captions_per_image.items())},
            "splits": dict(self.splits.most_common()),
            "datasets": dict(self.datasets.most_common()),
            "tokens": self.words.total(),
            "tokens_per_caption": length_statistics(self.lengths),
            "longest_caption_id": self.longest,
            "vocabulary": len(self.words),
            f"coverage_at_{VOCABULARY_SIZE}": round(self.coverage(), 6),
            "image_formats": dict(self.formats.most_common()),
            "smallest_image": self.smallest,
            "largest_image": self.largest,
        }


def summarise(
    corpus: Corpus,
    *,
    into: Summary,
    tokenize: Tokenizer,
    probe: Probe | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Read all of a corpus and count; with `probe`, every image is decoded, and bad ones named.

    Counts go into `into` as they come, so that they are there even if the corpus ends in an error.
    """
    for batch in _batches(corpus, _BATCH):
        for example in batch:
            _count(into, example)
        _count_words(into, batch, tokenize)
        if probe is not None:
            _count_images(into, batch, probe, corpus)
        if progress is not None:
            progress(into.examples)


def _count(into: Summary, example: Example) -> None:
    into.examples += 1
    into.images += example.image is not None
    into.captions += len(example.captions)
    into.captions_per_image[len(example.captions)] += 1
    into.splits[example.split] += 1
    into.datasets[example.dataset] += 1


def _count_words(into: Summary, batch: list[Example], tokenize: Tokenizer) -> None:
    ids = [example.id for example in batch for _ in example.captions]
    captions = [caption for example in batch for caption in example.captions]
    most = max(into.lengths, default=-1)
    for caption_id, tokens in zip(ids, tokenize(captions), strict=True):
        into.words.update(tokens)
        into.lengths[len(tokens)] += 1
        if len(tokens) > most:
            most, into.longest = len(tokens), caption_id


def _count_images(into: Summary, batch: list[Example], probe: Probe, corpus: Corpus) -> None:
    images = [example.image for example in batch if example.image is not None]
    for image, facts in ordered_map(_guarded(probe), images, workers=available_cores()):
        if isinstance(facts, str):
            corpus.problems.add(Kind.UNREADABLE_IMAGE, str(image), facts)
            continue
        kind, width, height = facts
        into.formats[kind] += 1
        size = (width, height)
        into.smallest = min(into.smallest or size, size, key=_pixels)
        into.largest = max(into.largest or size, size, key=_pixels)


def _pixels(size: tuple[int, int]) -> int:
    return size[0] * size[1]


def _guarded(probe: Probe) -> Callable[[ImageRef], tuple[str, int, int] | str]:
    """A probe that returns what is wrong instead of raising it."""

    def safe(image: ImageRef) -> tuple[str, int, int] | str:
        try:
            return probe(image)
        except (ImageError, OSError) as error:
            return str(error).removeprefix(f"{image}: ")

    return safe


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


def length_statistics(lengths: Counter[int]) -> dict[str, float]:
    """Mean and quantiles; a quantile is the shortest length that that share does not exceed.

    >>> length_statistics(Counter({8: 1, 10: 2, 13: 1}))
    {'mean': 10.25, 'min': 8, '25%': 8, '50%': 10, '75%': 10, '95%': 13, 'max': 13}
    """
    total = lengths.total()
    if not total:
        return {}
    ordered = sorted(lengths.items())
    result: dict[str, float] = {
        "mean": round(sum(length * n for length, n in ordered) / total, 2),
        "min": ordered[0][0],
    }
    for percent in (25, 50, 75, 95):
        below = 0
        for length, n in ordered:
            below += n
            if below * 100 >= percent * total:
                result[f"{percent}%"] = length
                break
    return {**result, "max": ordered[-1][0]}
