"""Every sentence is one path of the tree, and no prefix stands twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightwords.rerank.prefix_tree import PrefixTree

SENTENCES = st.lists(st.lists(st.integers(0, 3), max_size=6).map(tuple), min_size=1, max_size=8)


def _path(tree: PrefixTree, node: int) -> tuple[int, ...]:
    tokens: list[int] = []
    while node:
        tokens.append(int(tree.tokens[node]))
        node = int(tree.parents[node])
    return tuple(reversed(tokens))


@given(SENTENCES)
def test_paths_are_the_sentences(sentences: list[tuple[int, ...]]) -> None:
    tree = PrefixTree.of(sentences, start=9)
    assert [_path(tree, node) for node in tree.last] == sentences
    prefixes = {s[:n] for s in sentences for n in range(len(s) + 1)}
    assert {_path(tree, node) for node in range(len(tree))} == prefixes | {()}
    assert len(tree) == len(prefixes | {()})


@given(SENTENCES)
def test_a_node_sees_its_prefix_and_itself(sentences: list[tuple[int, ...]]) -> None:
    tree = PrefixTree.of(sentences, start=9)
    seen = tree.seen()
    paths = [_path(tree, node) for node in range(len(tree))]
    for node, path in enumerate(paths):
        ancestors = {n for n, other in enumerate(paths) if path[: len(other)] == other}
        assert set(np.flatnonzero(seen[node])) == ancestors
        assert tree.depths[node] == len(path)


@given(SENTENCES)
def test_sums_run_along_paths(sentences: list[tuple[int, ...]]) -> None:
    tree = PrefixTree.of(sentences, start=9)
    steps = np.random.default_rng(0).standard_normal(len(tree)).astype(np.float32)
    seen = tree.seen()
    seen[:, 0] = False
    np.testing.assert_allclose(tree.sums(steps), seen @ steps, atol=1e-5)


def test_no_sentences_leave_the_root() -> None:
    tree = PrefixTree.of([], start=9)
    assert len(tree) == 1
    assert tree.sums(np.ones(1, np.float32)).tolist() == [0.0]
