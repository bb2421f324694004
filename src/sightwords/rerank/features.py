"""Section 5, Table 2: candidate sentences -> a matrix (M, F) of their features.

    log_likelihood      1. the log-likelihood of the sequence
    length              2. its length in words
    log_prob_per_word   3. its log-probability per word, the end of sentence counting as one
    log_rank            4. the logarithm of its rank in the log-likelihood, from 1
    mentioned_0 ... 10  5. 1 if it mentions this many detected words, else 0
    dmsm                6. its similarity with the image (section 5.1)

Beyond the paper, off in its preset:

    word_log_prob       sum of log p of the detected words that it mentions
    absent_log_prob     sum of log(1 - p) of the detected words that it does not mention
    covered_precision   precisions of the mentioned words, over those of all detected words
    unused_confident    sum of the precisions of at least .7 of words that it does not mention
    doubtful_log_prob   sum of log p of content words that were not detected (p at least .05)
    consensus           agreement with the other candidates (minimum Bayes risk)
    grounded            the score of a second language model, which sees the image

Training (`train.rerank`) and decoding (`rerank.chooser`) share this code: `Candidates` holds an
image's list as numbers, whatever their numbering.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.rerank.consensus import agreement, posterior
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.types import DetectedWords, FloatArray, MBest

MENTIONED = tuple(f"mentioned_{x}" for x in range(11))
TABLE_2 = ("log_likelihood", "length", "log_prob_per_word", "log_rank", *MENTIONED)
"""Without `dmsm`, as in the paper's rows without it."""
PROBABILITIES = ("word_log_prob", "absent_log_prob")
COVERAGE = ("covered_precision", "unused_confident", "doubtful_log_prob")
BEYOND = (*PROBABILITIES, *COVERAGE, "consensus", "grounded")
NAMES = (*TABLE_2, "dmsm", *BEYOND)

CONFIDENT = 0.7
DOUBT = 0.05
"""The least probability of a word that was not detected."""
CERTAINTY = 0.999
"""The largest, where 1 - p is taken."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Candidates:
    """One image's M sentences and D known words, as numbers of one numbering."""

    tokens: Ints
    """(T,) sentence after sentence."""
    starts: Ints
    """(M + 1,)"""
    log_probs: FloatArray
    """(M,)"""
    words: Ints
    """(D,) content words with a probability, each once."""
    probs: FloatArray
    """(D,)"""
    precisions: FloatArray
    """(D,)"""
    offered: Bools
    """(D,) the detected words: those that the language model was given."""
    closed: Bools
    """By number: the closed-class words."""

    def __len__(self) -> int:
        return len(self.log_probs)

    @property
    def lengths(self) -> Ints:
        """(M,) in words."""
        return np.diff(self.starts)

    @property
    def sentence(self) -> Ints:
        """(T,) the sentence of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)


def candidates_of(
    m_best: MBest,
    detected: DetectedWords,
    known: Mapping[str, float] | None = None,
    *,
    closed_class: Collection[str] = CLOSED_CLASS,
) -> Candidates:
    """An M-best list as numbers: detected words first, then others in order of appearance.

    `known` adds words that were not detected, with their probabilities, for `doubtful_log_prob`.
    """
    found = {w.word: (w.prob, w.precision) for w in detected.words if w.word not in closed_class}
    offered = len(found)
    for word, prob in (known or {}).items():
        if word not in found and word not in closed_class:
            found[word] = (prob, prob)
    numbers = {word: number for number, word in enumerate(found)}
    flat = [w for h in m_best.hypotheses for w in h.tokens]
    tokens = [numbers.setdefault(word, len(numbers)) for word in flat]
    worth = np.array(list(found.values()), dtype=np.float32).reshape(-1, 2)
    lengths = [len(h.tokens) for h in m_best.hypotheses]
    return Candidates(
        tokens=np.array(tokens, dtype=np.int64),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        log_probs=np.array([h.log_prob for h in m_best.hypotheses], dtype=np.float32),
        words=np.arange(len(found)),
        probs=worth[:, 0],
        precisions=worth[:, 1],
        offered=np.arange(len(found)) < offered,
        closed=np.array([word in closed_class for word in numbers], dtype=np.bool_),
    )


def sentence_features(
    candidates: Candidates,
    names: Sequence[str],
    given: Mapping[str, npt.ArrayLike] | None = None,
) -> FloatArray:
    """(M, F) features in the order of `names`; `given` holds those that networks compute (M,)."""
    if not len(candidates):
        raise InputError("no candidate sentences to re-rank; the M-best list is empty")
    wanted = set(names)
    columns: dict[str, npt.ArrayLike] = {**_table_2(candidates, wanted), **(given or {})}
    if wanted & {*PROBABILITIES, *COVERAGE}:
        columns |= _word_features(candidates)
    if "consensus" in wanted:
        probs = posterior(_per_word(candidates) * candidates.lengths.mean())
        columns["consensus"] = agreement(candidates.tokens, candidates.starts, probs)
    missing = [name for name in names if name not in columns]
    if missing:
        known = "" if set(missing) <= set(NAMES) else f"; known: {', '.join(NAMES)}"
        raise InputError(f"the feature {missing[0]!r} was not computed for these candidates{known}")
    found = np.empty((len(candidates), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        found[:, place] = columns[name]
    _check_finite(found, names)
    return found


def mentions(candidates: Candidates) -> Bools:
    """(M, D) which known words each sentence has."""
    place = np.full(len(candidates.closed), -1, dtype=np.int64)
    place[candidates.words] = np.arange(len(candidates.words))
    column = place[candidates.tokens]
    known = column >= 0
    found = np.zeros((len(candidates), len(candidates.words)), dtype=np.bool_)
    found[candidates.sentence[known], column[known]] = True
    return found


def _table_2(candidates: Candidates, wanted: set[str]) -> dict[str, npt.ArrayLike]:
    log_probs = candidates.log_probs
    order = np.argsort(-log_probs, kind="stable")
    rank = np.empty(len(candidates), dtype=np.int64)
    rank[order] = np.arange(1, len(candidates) + 1)
    columns: dict[str, npt.ArrayLike] = {
        "log_likelihood": log_probs,
        "length": candidates.lengths,
        "log_prob_per_word": _per_word(candidates),
        "log_rank": np.log(rank),
    }
    if wanted & set(MENTIONED):
        mentioned = mentions(candidates)[:, candidates.offered].sum(axis=1)
        columns |= {name: mentioned == x for x, name in enumerate(MENTIONED)}
    return columns


def _per_word(candidates: Candidates) -> FloatArray:
    return (candidates.log_probs / (candidates.lengths + 1)).astype(np.float32)


def _word_features(candidates: Candidates) -> dict[str, npt.ArrayLike]:
    has = mentions(candidates)
    offered = candidates.offered
    mine = has[:, offered].astype(np.float32)  # (M, detected)
    probs, precisions = candidates.probs[offered], candidates.precisions[offered]
    log_p = np.log(np.maximum(probs, DOUBT))
    log_not = np.log1p(-np.minimum(probs, CERTAINTY))
    confident = np.where(precisions >= CONFIDENT, precisions, 0)
    return {
        "word_log_prob": mine @ log_p,
        "absent_log_prob": log_not.sum() - mine @ log_not,
        "covered_precision": mine @ precisions / max(float(precisions.sum()), 1e-6),
        "unused_confident": confident.sum() - mine @ confident,
        "doubtful_log_prob": _doubtful(candidates),
    }


def _doubtful(candidates: Candidates) -> npt.NDArray[np.float64]:
    """(M,) the sum of log p over tokens that are neither detected nor closed-class."""
    log_p = np.full(len(candidates.closed), np.log(DOUBT))
    log_p[candidates.words] = np.log(np.maximum(candidates.probs, DOUBT))
    log_p[candidates.words[candidates.offered]] = 0
    log_p[candidates.closed] = 0
    return np.bincount(candidates.sentence, log_p[candidates.tokens], len(candidates)).astype(
        np.float64
    )


def _check_finite(found: FloatArray, names: Sequence[str]) -> None:
    if np.isfinite(found).all():
        return
    row, place = np.argwhere(~np.isfinite(found))[0]
    raise InputError(
        f"feature {names[place]!r} of candidate {row + 1} is {found[row, place]}; expected a "
        "finite number: check what computes it"
    )
