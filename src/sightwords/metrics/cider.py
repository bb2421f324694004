"""CIDEr-D and plain CIDEr (Vedantam et al., CVPR 2015) as the COCO caption tools compute them.

`Comparison` -> `Score`. Sentences become tf-idf vectors of n-grams, n = 1 to 4, with document
frequencies counted over the images' references; a candidate's score is the mean cosine with its
references, averaged over n, times 10.

What the COCO tools, and everybody quoting them, call CIDEr is the variant CIDEr-D: `cider` here.
It clips the candidate's counts to the reference's and multiplies by a Gaussian of the difference
in length. `cider_plain` does neither. The paper also stems the words; the tools do not, nor does
this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sightwords.errors import ScoreError
from sightwords.metrics.ngrams import (
    ORDERS,
    FloatArray,
    IntArray,
    Interned,
    NgramTable,
    OrderCounts,
    Pairs,
    Tokens,
    count_in_blocks,
    count_ngrams,
    pair_up,
    spans,
)
from sightwords.metrics.score import Comparison, Score, signature

SIGMA = 6.0
"""Of the Gaussian length penalty, in tokens."""
SCALE = 10.0


@dataclass(frozen=True, slots=True)
class CiderIdf:
    """Document frequencies of n-grams in a set of images, to score other images with.

    With the frequencies of a large corpus a caption's score does not depend on which other images
    are scored beside it, as tuning and consensus need.
    """

    images: int
    vocabulary: Mapping[str, int]
    keys: tuple[IntArray, ...]
    """Per order (G,), ascending: number of the prefix times vocabulary size plus last token."""
    document_frequency: tuple[IntArray, ...]
    """Per order (G,): images with the n-gram in a reference."""

    @classmethod
    def of(cls, references: Sequence[Sequence[Tokens]]) -> CiderIdf:
        """Count in how many images each n-gram of the references occurs.

        >>> idf = CiderIdf.of([[("a", "dog"), ("a", "cat")], [("a", "cat")]])
        >>> idf.images, idf.document_frequency[0].tolist()  # a, dog, cat
        (2, [2, 1, 2])
        """
        if not references:
            raise ScoreError("no references to count; give the references of at least one image")
        table = count_ngrams([()] * len(references), references)
        size = len(table.sentences.vocabulary)
        return cls(
            images=len(references),
            vocabulary=table.sentences.vocabulary,
            keys=tuple(order.prefix * size + order.last for order in table.orders),
            document_frequency=tuple(map(_document_frequency, table.orders)),
        )

    def frequencies(self, table: NgramTable) -> list[IntArray]:
        """Per order (G,), for the n-grams of another table; 0 for those never counted."""
        size = len(self.vocabulary)
        words = table.sentences.vocabulary
        token = np.array([self.vocabulary.get(w, -1) for w in words], dtype=np.int64)
        number = np.zeros(1, dtype=np.int64)  # of the prefix, here; -1 where it is not known
        found = []
        for order, keys, counts in zip(
            table.orders, self.keys, self.document_frequency, strict=True
        ):
            prefix, last = number[order.prefix], token[order.last]
            wanted = prefix * size + last
            place = np.searchsorted(keys, wanted)
            known = (prefix >= 0) & (last >= 0) & (place < len(keys))
            known[known] = keys[place[known]] == wanted[known]
            number = np.where(known, place, -1)
            found.append(np.where(known, np.append(counts, 0)[place], 0))
        return found


def cider(pairs: Comparison, *, idf: CiderIdf | None = None) -> Score:
    """CIDEr-D of each image and their mean: the COCO tools' CIDEr.

    Without `idf`, frequencies are those of the comparison's references: a single image then
    scores 0, every n-gram of it being in every image.

    >>> same, other = ("a", "dog", "runs", "fast"), ("two", "cats", "sit", "still")
    >>> pairs = Comparison(("1", "2"), (same, same), ((same,), (other,)))
    >>> cider(pairs).per_image.round(6).tolist()
    [10.0, 0.0]
    """
    per_image = candidate_scores(pairs.table, idf=idf)
    return _score("cider", pairs, per_image, idf, variant="D", sigma=f"{SIGMA:g}")


def cider_plain(pairs: Comparison, *, idf: CiderIdf | None = None) -> Score:
    """CIDEr without clipping and length penalty, per image and their mean.

    >>> one, two = ("a", "dog", "runs", "fast"), ("two", "cats", "sit", "still")
    >>> pairs = Comparison(("1", "2"), (one + one, two), ((one,), (two,)))
    >>> cider_plain(pairs).per_image.round(2).tolist(), cider(pairs).per_image.round(2).tolist()
    ([9.03, 10.0], [3.61, 10.0])
    """
    per_image = candidate_scores(pairs.table, idf=idf, plain=True)
    return _score("cider_plain", pairs, per_image, idf, variant="plain")


def scores_of(
    candidates: Sequence[Sequence[Tokens]],
    references: Sequence[Sequence[Tokens]],
    *,
    idf: CiderIdf,
) -> FloatArray:
    """CIDEr-D of many candidates per image (M-best lists), in order.

    >>> idf = CiderIdf.of([[("a", "dog")], [("a", "cat")]])
    >>> scores_of([[("a", "dog"), ("a", "cat")]], [[("a", "dog")]], idf=idf).tolist()
    [5.0, 0.0]
    """
    tables = count_in_blocks(candidates, references)
    return np.concatenate([candidate_scores(table, idf=idf) for table in tables])


def candidate_scores(
    table: NgramTable, *, idf: CiderIdf | None = None, plain: bool = False
) -> FloatArray:
    """(C,) score of every candidate of the table; any number of them per image."""
    pairs = pair_up(table.sentences)
    cosines = np.zeros(len(pairs.candidate))  # (P,) summed over the orders
    for order, weight in zip(table.orders, _idf_weights(table, idf), strict=True):
        cosines += _cosines(order, weight, table.sentences, pairs, clip=not plain)
    if not plain:
        cosines *= _length_penalty(table.sentences, pairs)
    per_pair = np.diff(np.append(pairs.starts, len(cosines)))
    summed = np.add.reduceat(cosines, pairs.starts) if len(pairs.starts) else cosines
    scores: FloatArray = summed / (ORDERS * per_pair) * SCALE
    return scores


def _idf_weights(table: NgramTable, idf: CiderIdf | None) -> list[FloatArray]:
    """Per order (G,): log(images / frequency), an unseen n-gram counting as seen once."""
    if idf is None:
        frequencies = [_document_frequency(order) for order in table.orders]
        images = table.sentences.images
    else:
        frequencies, images = idf.frequencies(table), idf.images
    return [np.log(float(max(images, 1))) - np.log(np.maximum(1.0, f)) for f in frequencies]


def _document_frequency(order: OrderCounts) -> IntArray:
    """(G,) the images with the n-gram in a reference."""
    return np.bincount(
        order.run_gram[order.reference_count > 0], minlength=len(order.prefix)
    ).astype(np.int64)


def _cosines(
    order: OrderCounts, weight: FloatArray, sentences: Interned, pairs: Pairs, *, clip: bool
) -> FloatArray:
    """(P,) cosine of candidate and reference vectors of one order."""
    value = order.count * weight[order.gram]  # (E,) tf-idf
    norm = np.sqrt(np.bincount(order.sentence, value * value, len(sentences.image)))
    inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    candidate, reference = _meeting_cells(order, sentences)
    mine, theirs = value[candidate], value[reference]
    products = (np.minimum(mine, theirs) if clip else mine) * theirs
    sentence, other = order.sentence[candidate], order.sentence[reference]
    pair = pairs.offset[sentence] + other
    dot: FloatArray = np.bincount(pair, products, len(pairs.candidate)).astype(np.float64)
    cosines: FloatArray = dot * inverse[pairs.candidate] * inverse[pairs.reference]
    return cosines


def _meeting_cells(order: OrderCounts, sentences: Interned) -> tuple[IntArray, IntArray]:
    """Cells (candidate, reference) of the same n-gram and image; candidates lead their run."""
    is_candidate = sentences.is_candidate[order.sentence]
    candidate = np.flatnonzero(is_candidate & (order.reference_count > 0)[order.run])
    runs = len(order.run_gram)
    references = np.bincount(order.run[~is_candidate], minlength=runs)
    ends = np.cumsum(np.bincount(order.run, minlength=runs))
    run = order.run[candidate]
    width = references[run]
    first = (ends - references)[run]
    return np.repeat(candidate, width), spans(first, width)


def _length_penalty(sentences: Interned, pairs: Pairs) -> FloatArray:
    """(P,) the tools measure length in bigrams, so that empty and one-word sentences are equal."""
    bigrams = np.maximum(sentences.lengths - 1, 0)
    delta = (bigrams[pairs.candidate] - bigrams[pairs.reference]).astype(np.float64)
    penalty: FloatArray = np.exp(-(delta**2) / (2 * SIGMA**2))
    return penalty


def _score(
    metric: str, pairs: Comparison, per_image: FloatArray, idf: CiderIdf | None, **settings: str
) -> Score:
    source = "references" if idf is None else f"given-{idf.images}-images"
    return Score(
        metric=metric,
        value=float(per_image.mean()),
        per_image=per_image,
        signature=signature(metric, pairs, **settings, idf=source),
    )
