"""What every caption metric takes and returns.

A metric is a function `Comparison -> Score`; tokenising happens once, in `Comparison.of`, so that
all metrics see the same tokens and none of them pays for it again. The same holds for n-grams,
counted when BLEU or CIDEr first asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from sightwords._version import __version__
from sightwords.errors import ScoreError
from sightwords.metrics.ngrams import Interned, NgramTable, Tokens, count_ngrams, intern
from sightwords.text.ptb import TOKENIZER, tokenize_file


@dataclass(frozen=True)
class Comparison:
    """Candidates beside their references, tokenised once, in one order for every metric."""

    ids: tuple[str, ...]
    """No id twice."""
    candidates: tuple[Tokens, ...]
    """One per image; may be empty, which scores 0."""
    references: tuple[tuple[Tokens, ...], ...]
    """At least one per image; nothing matches a reference without tokens."""
    tokenizer: str = TOKENIZER

    def __post_init__(self) -> None:
        counts = len(self.ids), len(self.candidates), len(self.references)
        if len(set(counts)) > 1:
            raise ScoreError(
                "{} ids, {} candidates and {} groups of references; "
                "give one candidate and one group per image".format(*counts)
            )
        _refuse_repeats(self.ids)
        _refuse_gaps(self.ids, dict(zip(self.ids, self.references, strict=True)))

    @classmethod
    def of(
        cls, candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]
    ) -> Comparison:
        """Tokenise and align; the order is that of `candidates`.

        Every candidate needs at least one reference, and every image with references a candidate:
        leaving images out silently would make two systems' scores incomparable.

        >>> pairs = Comparison.of({"1": "A dog."}, {"1": ["a dog runs", "The dog"]})
        >>> pairs.candidates, pairs.references
        ((('a', 'dog'),), ((('a', 'dog', 'runs'), ('the', 'dog')),))
        """
        _refuse_wrong_shapes(candidates, references)
        _refuse_gaps(candidates, references)
        ids = tuple(candidates)
        # Each side as one file, as the COCO tools write it: see `tokenize_file`.
        flat = tokenize_file([candidates[i] for i in ids])
        flat_references = iter(tokenize_file([r for i in ids for r in references[i]]))
        return cls(
            ids=ids,
            candidates=tuple(map(tuple, flat)),
            references=tuple(
                tuple(tuple(next(flat_references)) for _ in references[i]) for i in ids
            ),
        )

    @cached_property
    def table(self) -> NgramTable:
        """The n-gram counts, made on first use and kept."""
        return count_ngrams(
            [(_parted(candidate),) for candidate in self.candidates],
            [tuple(map(_parted, of_image)) for of_image in self.references],
        )

    @cached_property
    def sentences(self) -> Interned:
        """The tokens as numbers, whole; the n-gram table's own unless that parted some."""
        captions = chain(self.candidates, *self.references)
        if any(_parted(tokens) is not tokens for tokens in captions):
            return intern([(candidate,) for candidate in self.candidates], self.references)
        return self.table.sentences

    @property
    def reference_counts(self) -> str:
        """How many references an image has, for signatures: `5`, or `4-6`."""
        counts = [len(r) for r in self.references]
        low, high = min(counts), max(counts)
        return str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True, slots=True)
class Sums:
    """Counts that add up over images, and what turns their sum into the corpus value.

    A bootstrap resamples the rows, adds them up and computes the metric from the sums.
    """

    rows: npt.NDArray[np.float64]
    """(N, D) in the order of the comparison's ids."""
    value_of: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
    """(..., D) sums -> (...) values."""


@dataclass(frozen=True, slots=True)
class Score:
    """One metric over one set of images."""

    metric: str
    """Key in result files: `bleu_4`, `meteor`, `rouge_l`, `cider`."""
    value: float
    per_image: npt.NDArray[np.float64] = field(repr=False)
    """(N,) in the order of the comparison's ids."""
    signature: str
    """Everything needed to reproduce the value."""
    sums: Sums | None = field(default=None, repr=False)
    """For a corpus value that is not the mean over images: the sums it is computed from."""


def signature(metric: str, pairs: Comparison, **settings: object) -> str:
    """The line that makes a score reproducible, in the manner of sacreBLEU.

    >>> pairs = Comparison.of({"1": "a dog"}, {"1": ["a dog", "dogs"]})
    >>> signature("cider", pairs, variant="D", sigma=6)  # doctest: +ELLIPSIS
    'cider|variant:D|sigma:6|images:1|refs:2|tok:ptb-coco|version:...'
    """
    parts = [metric, *(f"{key}:{value}" for key, value in settings.items())]
    parts += [f"images:{len(pairs.ids)}", f"refs:{pairs.reference_counts}"]
    parts += [f"tok:{pairs.tokenizer}", f"version:{__version__}"]
    return "|".join(parts)


def _parted(tokens: Tokens) -> Tokens:
    """Part tokens at no-break spaces (`1 1/2`), as the tools do for BLEU and CIDEr alone."""
    line = " ".join(tokens)
    return tuple(line.split()) if "\u00a0" in line else tokens


def _refuse_wrong_shapes(
    candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> None:
    """A string where a list belongs would be scored letter by letter, so look first."""
    for image, caption in candidates.items():
        if not isinstance(caption, str):
            raise ScoreError(
                f"the candidate of image {image!r} is a {type(caption).__name__}, "
                "expected one caption as a string"
            )
    for image, captions in references.items():
        if isinstance(captions, str) or not all(isinstance(c, str) for c in captions):
            raise ScoreError(
                f"the references of image {image!r} are {captions!r:.80}, "
                "expected a list of captions"
            )


def _refuse_repeats(ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids):
        repeated = [i for i, times in Counter(ids).items() if times > 1]
        raise ScoreError(
            f"{len(repeated)} image ids occur more than once (first: {repeated[0]!r}); "
            "give each image one candidate"
        )


def _refuse_gaps(
    candidates: Mapping[str, str] | Sequence[str], references: Mapping[str, Sequence[object]]
) -> None:
    if not candidates:
        raise ScoreError("no candidates to score; give at least one captioned image")
    unmatched = [i for i in candidates if not references.get(i)]
    if unmatched:
        raise ScoreError(
            f"{len(unmatched)} of {len(candidates)} candidates have no reference "
            f"(first: {unmatched[0]!r}); check that both files use the same image ids"
        )
    wanted = set(candidates)
    missing = [i for i in references if i not in wanted]
    if missing:
        raise ScoreError(
            f"{len(missing)} of {len(references)} images with references have no candidate "
            f"(first: {missing[0]!r}); caption them, or score a subset of the references"
        )
