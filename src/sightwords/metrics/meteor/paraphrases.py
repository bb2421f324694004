"""METEOR's paraphrase table: which of given phrases are paraphrases of each other.

The table has 5.3 million entries, 62 MB compressed; METEOR's jar spends most of its time and 1.4 GB
on loading it. Here a phrase is its hash (`hash.py`), and the table three columns of numbers.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sightwords.errors import ExternalToolError
from sightwords.metrics.meteor.hash import I64, NEWLINE, U64, SpanHasher
from sightwords.metrics.ngrams import spans

LONGEST_PHRASE = 7
"""Words; no phrase of METEOR's English table is longer."""

_CHUNK_BYTES = 1 << 18  # the columns of a chunk stay in the processor's cache


@dataclass(frozen=True, slots=True)
class ParaphraseTable:
    """The table by hash: `phrases[r]` has the `counts[r]` paraphrases from `starts[r]` on."""

    phrases: U64 = field(repr=False)
    """(rows,) ascending."""
    starts: U64 = field(repr=False)
    """(rows,)"""
    counts: U64 = field(repr=False)
    """(rows,)"""
    paraphrases: U64 = field(repr=False)
    """(entries,) in METEOR's order within a row."""

    def among(self, phrases: U64) -> tuple[I64, I64, I64]:
        """Entries whose phrase and paraphrase are both in `phrases` (ascending, distinct).

        Returns three arrays: the phrase and the paraphrase as indices into `phrases`, and the
        entry's place in its row, which decides between matches that are otherwise equal.
        """
        if not len(self.phrases) or not len(phrases):
            return (np.empty(0, np.int64),) * 3
        rows = np.searchsorted(self.phrases, phrases)
        rows[rows == len(self.phrases)] = 0
        known = np.flatnonzero(self.phrases[rows] == phrases)
        rows = rows[known]
        first = self.starts[rows].astype(np.int64)
        counts = self.counts[rows].astype(np.int64)
        entries = spans(first, counts)
        place = entries - np.repeat(first, counts)
        targets = self.paraphrases[entries]
        found = np.searchsorted(phrases, targets)
        found[found == len(phrases)] = 0
        kept = phrases[found] == targets
        return np.repeat(known, counts)[kept], found[kept], place[kept]


def read_table(path: Path) -> ParaphraseTable:
    """Read a METEOR paraphrase file: three lines per entry: probability, phrase, paraphrase."""
    phrases: list[U64] = []
    paraphrases: list[U64] = []
    lines = 0
    for hashes in _line_hashes(path):
        phrases.append(hashes[(1 - lines) % 3 :: 3].copy())
        paraphrases.append(hashes[(2 - lines) % 3 :: 3].copy())
        lines += len(hashes)
    if lines % 3 or not lines:
        raise ExternalToolError(
            f"{path}: expected METEOR's three lines per entry, found {lines} lines; "
            "reinstall pycocoevalcap"
        )
    return _by_phrase(np.concatenate(phrases), np.concatenate(paraphrases))


def _by_phrase(phrases: U64, paraphrases: U64) -> ParaphraseTable:
    starts = _run_starts(phrases)
    order = np.argsort(phrases[starts], kind="stable")
    rows = phrases[starts][order]
    if len(_run_starts(rows)) < len(rows):  # not METEOR's file, in which each phrase is one run
        order = np.argsort(phrases, kind="stable")
        return _by_phrase(phrases[order], paraphrases[order])
    counts = np.diff(starts, append=len(phrases))
    return ParaphraseTable(
        rows, starts[order].astype(np.uint64), counts[order].astype(np.uint64), paraphrases
    )


def _run_starts(values: U64) -> I64:
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def _line_hashes(path: Path) -> Iterator[U64]:
    hasher = SpanHasher(2 * _CHUNK_BYTES)
    for block in _whole_lines(path):
        text = np.frombuffer(block, dtype=np.uint8)
        sums = hasher.prefix_sums(text)
        ends = np.flatnonzero(text == NEWLINE)
        starts = np.concatenate(([0], ends[:-1] + 1))
        after = sums[ends]
        before = np.concatenate((np.zeros(1, np.uint64), after[:-1]))
        yield hasher.hashes(before, after, starts)


def _whole_lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for block in _decompressed(path):
        block = rest + block
        cut = block.rfind(b"\n") + 1
        rest = block[cut:]
        if len(rest) > _CHUNK_BYTES:
            raise ExternalToolError(f"{path}: a line longer than 256 kB; reinstall pycocoevalcap")
        if cut:
            yield block[:cut]


def _decompressed(path: Path) -> Iterator[bytes]:
    """Blocks of the file, decompressed by a thread one step ahead (zlib lets go of the GIL)."""
    blocks: queue.Queue[bytes | Exception | None] = queue.Queue(maxsize=8)
    abandoned = threading.Event()

    def put(item: bytes | Exception | None) -> bool:
        while not abandoned.is_set():
            with contextlib.suppress(queue.Full):
                blocks.put(item, timeout=0.1)
                return True
        return False

    def read() -> None:
        last: Exception | None = None
        try:
            with path.open("rb") as file:
                stream = zlib.decompressobj(wbits=31)
                pending = b""
                while not stream.eof:
                    pending = pending or file.read(_CHUNK_BYTES)
                    block = stream.decompress(pending, _CHUNK_BYTES)
                    if not (block or pending):
                        raise EOFError("the file ends early")
                    pending = stream.unconsumed_tail
                    if not put(block):
                        return
        except (OSError, EOFError, zlib.error) as error:
            last = error
        put(last)

    thread = threading.Thread(target=read, name="paraphrases", daemon=True)
    thread.start()
    try:
        while (item := blocks.get()) is not None:
            if isinstance(item, Exception):
                raise ExternalToolError(
                    f"{path} cannot be read: {item}; reinstall pycocoevalcap"
                ) from item
            yield item
    finally:
        abandoned.set()
        thread.join()
