"""M-best lists of many images in one file: what re-ranking is trained on (section 5).

    word scores (NPZ) + a language model --make_lists--> Lists --save--> lists.npz

The beam does not depend on the re-ranking weights, so that one pass makes the lists for good.
Numbers only: tokens are places in `words`. N images, H hypotheses in all, D detected words in all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.corpus.ids import canonical_id
from sightwords.errors import InputError
from sightwords.files import DAMAGED_ZIP, atomic_path
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.types import Hypothesis, MBest

FORMAT = 1
LOG_PROB_STEP = 2.0**-12
"""Log-likelihoods are rounded to this: a third of the file, and no rank that matters changes."""
FEWEST_WORDS = 3
"""An image with fewer words above the threshold gets its likeliest ones, up to so many."""
Strings = npt.NDArray[np.str_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Tokens = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Lists:
    """The M-best lists of N images, likeliest sentence first."""

    ids: Strings
    """(N,) canonical, none twice."""
    splits: Strings
    """(N,) of the corpus that each image comes from; `` where it is not known."""
    words: tuple[str, ...]
    """The language model's vocabulary: what tokens and detected words are places in."""
    word_offsets: Ints
    """(N + 1,) where each image's detected words start."""
    word_ids: npt.NDArray[np.uint16]
    """(D,) content words only, ascending within an image."""
    word_probs: Floats
    """(D,) image-level probability."""
    word_precisions: Floats
    """(D,) calibrated; equal to `word_probs` where no calibration was at hand."""
    offsets: Ints
    """(N + 1,) where each image's hypotheses start."""
    token_offsets: Ints
    """(H + 1,) where each hypothesis' tokens start."""
    tokens: npt.NDArray[np.uint16]
    log_probs: Floats
    """(H,) of the words and the end of sentence."""
    coverage: npt.NDArray[np.uint8]
    """(N,) the T of section 4.2 that was reached."""
    minimum_prob: float = 0.15
    """Detected words of at least this probability were offered to the language model."""
    closed_class: tuple[str, ...] = CLOSED_CLASS
    """Of the language model's vocabulary."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def hypotheses(self) -> int:
        """H, the number of sentences."""
        return len(self.log_probs)

    @property
    def images(self) -> Ints:
        """(H,) the image of each hypothesis."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def lengths(self) -> Ints:
        """(H,) in words."""
        return np.diff(self.token_offsets)

    def sentence(self, hypothesis: int) -> Tokens:
        """The words of one hypothesis, by its number among all."""
        first, last = self.token_offsets[hypothesis], self.token_offsets[hypothesis + 1]
        return tuple(self.words[t] for t in self.tokens[first:last].tolist())

    def sentences(self, image: int) -> list[Tokens]:
        """The words of an image's hypotheses, likeliest first."""
        return [self.sentence(h) for h in range(self.offsets[image], self.offsets[image + 1])]

    def text(self, hypothesis: int) -> str:
        """One hypothesis as written."""
        return " ".join(self.sentence(hypothesis))

    def detected(self, image: int) -> dict[str, float]:
        """The words offered to the language model, with their probabilities."""
        part = slice(self.word_offsets[image], self.word_offsets[image + 1])
        ids, probs = self.word_ids[part], self.word_probs[part]
        offered = offered_words(probs, self.minimum_prob)
        pairs = zip(ids[offered].tolist(), probs[offered].tolist(), strict=True)
        return {self.words[i]: prob for i, prob in pairs}

    def m_best(self, image: int) -> MBest:
        """One image's list as the pipeline knows it."""
        attributes = self.detected(image).keys()
        first = int(self.offsets[image])
        found = [
            Hypothesis(
                tokens,
                float(self.log_probs[first + rank]),
                tuple(dict.fromkeys(w for w in tokens if w in attributes)),
            )
            for rank, tokens in enumerate(self.sentences(image))
        ]
        return MBest(tuple(found), int(self.coverage[image]))

    def rows(self, ids: Iterable[str]) -> Ints:
        """The places of images; an unknown id is an error."""
        place = {name: row for row, name in enumerate(self.ids.tolist())}
        try:
            return np.array([place[canonical_id(i)] for i in ids], dtype=np.int64)
        except KeyError as error:
            raise InputError(
                f"no list of image {error.args[0]!r} among {len(self)}; make lists that have it"
            ) from None

    def select(self, images: Sequence[int] | Ints) -> Lists:
        """The lists of some images, in this order."""
        chosen = np.asarray(images, dtype=np.int64)
        hypotheses, offsets = _gather(self.offsets, chosen)
        tokens, token_offsets = _gather(self.token_offsets, hypotheses)
        words, word_offsets = _gather(self.word_offsets, chosen)
        return Lists(
            ids=self.ids[chosen],
            splits=self.splits[chosen],
            words=self.words,
            word_offsets=word_offsets,
            word_ids=self.word_ids[words],
            word_probs=self.word_probs[words],
            word_precisions=self.word_precisions[words],
            offsets=offsets,
            token_offsets=token_offsets,
            tokens=self.tokens[tokens],
            log_probs=self.log_probs[hypotheses],
            coverage=self.coverage[chosen],
            minimum_prob=self.minimum_prob,
            closed_class=self.closed_class,
        )

    def best(self, m: int, scores: npt.NDArray[Any] | None = None) -> Lists:
        """The `m` hypotheses of each image with the largest scores (H,); of equal ones the first.

        Without scores the likeliest; the order stays that of likelihood.
        """
        ranks = np.arange(self.hypotheses) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        if scores is not None:
            ranks[np.lexsort((ranks, -scores, self.images))] = ranks.copy()
        return self.keep(ranks < m)

    @property
    def per_word(self) -> Floats:
        """(H,) log-likelihood a word, the end of sentence counting as one."""
        return (self.log_probs / (self.lengths + 1)).astype(np.float32)

    def keep(self, mask: npt.NDArray[np.bool_]) -> Lists:
        """Some hypotheses of each image: (H,) which; each image must keep one."""
        counts = np.add.reduceat(mask.astype(np.int64), self.offsets[:-1])
        if not counts.all():
            bare = str(self.ids[int(np.argmin(counts))])
            raise InputError(f"image {bare!r} would keep no hypothesis; keep at least one")
        kept = np.flatnonzero(mask)
        tokens, token_offsets = _gather(self.token_offsets, kept)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {
            "offsets": starts_of(counts),
            "token_offsets": token_offsets,
            "tokens": self.tokens[tokens],
            "log_probs": self.log_probs[kept],
        }
        return Lists(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one compressed NPZ file, whole or not at all."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file,
                format=np.array(FORMAT),
                ids=self.ids,
                split=self.splits,
                words=np.array(self.words),
                word_counts=np.diff(self.word_offsets).astype(np.uint16),
                word_ids=self.word_ids,
                word_probs=self.word_probs.astype(np.float16),
                word_precisions=self.word_precisions.astype(np.float16),
                counts=np.diff(self.offsets).astype(np.uint16),
                lengths=self.lengths.astype(np.uint8),
                tokens=self.tokens,
                log_prob_steps=_steps_down(self.log_probs, self.offsets),
                coverage=self.coverage,
                minimum_prob=np.array(self.minimum_prob, dtype=np.float32),
                closed_class=np.array(self.closed_class),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Lists:
        """Read what `save` wrote."""
        stored = _stored(path)
        if "format" not in stored or int(stored["format"]) != FORMAT:
            raise InputError(
                f"{path}: not M-best lists of format {FORMAT}; make them again with "
                "sightwords.train.rerank.make_lists"
            )
        offsets = starts_of(stored["counts"])
        return cls(
            ids=stored["ids"],
            splits=stored["split"],
            words=tuple(stored["words"].tolist()),
            word_offsets=starts_of(stored["word_counts"]),
            word_ids=stored["word_ids"],
            word_probs=stored["word_probs"].astype(np.float32),
            word_precisions=stored["word_precisions"].astype(np.float32),
            offsets=offsets,
            token_offsets=starts_of(stored["lengths"]),
            tokens=stored["tokens"],
            log_probs=_summed_down(stored["log_prob_steps"], offsets),
            coverage=stored["coverage"],
            minimum_prob=float(stored["minimum_prob"]),
            closed_class=tuple(np.asarray(stored.get("closed_class", CLOSED_CLASS)).tolist()),
        )


def offered_words(probs: Floats, minimum_prob: float) -> npt.NDArray[np.bool_]:
    """Which words the language model is offered: likely ones, or the likeliest few.

    As `words.selection.WordSelector` does; of equal ones those of lower id.

    >>> offered_words(np.array([0.1, 0.5, 0.01, 0.02], dtype=np.float32), 0.15).tolist()
    [True, True, False, True]
    """
    offered = probs >= minimum_prob
    if offered.sum() < FEWEST_WORDS:
        offered[np.argsort(-probs, kind="stable")[:FEWEST_WORDS]] = True
    return np.asarray(offered)


def joined(parts: Sequence[Lists]) -> Lists:
    """Lists of different images as one; all must be of one language model."""
    if not parts:
        raise InputError("no lists to join; give at least one")
    if any(part.words != parts[0].words for part in parts):
        raise InputError("lists of different language models; make all of them with one")
    ids = np.concatenate([part.ids for part in parts])
    if len(set(ids.tolist())) < len(ids):
        raise InputError("an image is in two of the lists; `merged` joins lists of the same images")
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("splits", "word_ids", "word_probs", "word_precisions", "tokens", "log_probs",
                     "coverage")
    }  # fmt: skip
    arrays |= {
        name: starts_of(np.concatenate([np.diff(getattr(part, name)) for part in parts]))
        for name in ("word_offsets", "offsets", "token_offsets")
    }
    first = parts[0]
    return Lists(
        ids=ids,
        words=first.words,
        minimum_prob=first.minimum_prob,
        closed_class=first.closed_class,
        **arrays,
    )


def starts_of(counts: npt.NDArray[Any]) -> Ints:
    """(N,) counts -> (N + 1,) offsets.

    >>> starts_of(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _gather(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Places of the items of some rows, and the offsets of those rows among them."""
    counts = np.diff(offsets)[rows]
    starts = starts_of(counts)
    places = np.arange(starts[-1]) + np.repeat(offsets[rows] - starts[:-1], counts)
    return places, starts


def _steps_down(log_probs: Floats, offsets: Ints) -> npt.NDArray[np.int32]:
    """(H,) in units of LOG_PROB_STEP: the first of each list, then how much each falls."""
    units = np.round(log_probs.astype(np.float64) / LOG_PROB_STEP).astype(np.int64)
    steps = np.diff(units, prepend=0)
    steps[offsets[:-1]] = units[offsets[:-1]]
    return steps.astype(np.int32)


def _summed_down(steps: npt.NDArray[np.int32], offsets: Ints) -> Floats:
    """The inverse of `_steps_down`."""
    sums = np.cumsum(steps.astype(np.int64))
    before = sums[offsets[:-1]] - steps[offsets[:-1]]  # the sum of all lists before
    units = sums - np.repeat(before, np.diff(offsets))
    return (units * LOG_PROB_STEP).astype(np.float32)


def _stored(path: str | os.PathLike[str]) -> Mapping[str, npt.NDArray[Any]]:
    try:
        with np.load(Path(path), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, *DAMAGED_ZIP) as error:
        raise InputError(f"{path}: cannot be read as NPZ ({error}); give M-best lists") from error


def in_chunks(total: int, size: int) -> Iterator[range]:
    """Ranges of at most `size` that cover `total`.

    >>> list(in_chunks(5, 2))
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return (range(first, min(first + size, total)) for first in range(0, total, size))
