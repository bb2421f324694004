"""Sentences that begin alike, read once: token sequences -> one tree of their prefixes.

Stage: re-ranking (section 5), for `grounded`. The candidates of a beam share most of their
beginnings; a model that reads each word after the words before it needs to read every distinct
prefix only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.types import FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """N distinct prefixes of M sentences; node 0 is the empty one, parents precede children."""

    tokens: IntArray
    """(N,) last token of each prefix; the start symbol in node 0."""
    parents: IntArray
    """(N,) the prefix one token shorter; node 0 is its own."""
    depths: IntArray
    """(N,) number of tokens."""
    last: IntArray
    """(M,) the node at which each sentence is complete."""

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]], start: int) -> PrefixTree:
        """Gather the prefixes of token sequences.

        >>> tree = PrefixTree.of([(5, 6), (5, 7), (5,)], start=9)
        >>> tree.tokens.tolist(), tree.parents.tolist(), tree.last.tolist()
        ([9, 5, 6, 7], [0, 0, 1, 1], [2, 3, 1])
        """
        tokens, parents, depths, last = [start], [0], [0], []
        place: dict[tuple[int, int], int] = {}
        for sentence in sentences:
            node = 0
            for token in sentence:
                key = (node, token)
                child = place.get(key)
                if child is None:
                    child = place[key] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                    depths.append(depths[node] + 1)
                node = child
            last.append(node)
        arrays = (np.array(values, dtype=np.int64) for values in (tokens, parents, depths, last))
        return cls(*arrays)

    def __len__(self) -> int:
        return len(self.tokens)

    def seen(self) -> npt.NDArray[np.bool_]:
        """(N, N) whether a node (row) sees another: itself and what its prefix is made of."""
        seen = np.eye(len(self), dtype=np.bool_)
        for depth in range(1, int(self.depths.max(initial=0)) + 1):
            here = np.flatnonzero(self.depths == depth)
            seen[here] |= seen[self.parents[here]]
        return seen

    def sums(self, steps: FloatArray) -> FloatArray:
        """(N,) of each step from a parent -> (N,) sums from the root; the root's own counts not.

        >>> tree = PrefixTree.of([(5, 6), (5, 7)], start=9)
        >>> tree.sums(np.array([9, 1, 2, 3], np.float32)).tolist()
        [0.0, 1.0, 3.0, 4.0]
        """
        sums = np.where(self.depths == 0, 0, steps).astype(np.float64)
        for depth in range(2, int(self.depths.max(initial=0)) + 1):
            here = np.flatnonzero(self.depths == depth)
            sums[here] += sums[self.parents[here]]
        return sums.astype(np.float32)
