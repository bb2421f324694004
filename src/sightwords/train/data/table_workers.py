"""Processes that decode images straight into the rows of a file.

    main process: a group of examples  ->  worker: decodes, writes rows n, n + 1, ...
                  sizes, or errors     <-

Pixels do not pass through the main process, which is busy reading the corpus. Threads would wait
for Python's lock and for memory (docs/scale.md, "Training").
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sightwords.errors import ExternalToolError
from sightwords.files import named_when_full
from sightwords.parallel import begin_worker
from sightwords.train.data.canvas import canvas, one_thread_a_decoder
from sightwords.types import Example
from sightwords.words.artefact import Resize

Found = tuple[int, int] | str
"""Width and height of an image on its canvas, or why it could not be decoded."""

FEW = 64
"""Fewer images than this are decoded without starting processes."""
GROUP_IMAGES, GROUP_BYTES = 32, 1 << 20
"""A worker is given at most this much at a time, but at least one image."""
AHEAD = 3
"""Groups per worker that are sent ahead, so that no worker waits."""


@dataclass(frozen=True)
class RowFile:
    """Rows of one size in a file."""

    path: Path
    side_px: int
    resize: Resize

    @property
    def row_bytes(self) -> int:
        """Bytes of an image's pixels."""
        return 3 * self.side_px**2

    def write(self, first: int, examples: list[Example]) -> list[Found]:
        """Decode these into the rows from `first` on; the row of a bad image is undefined."""
        with (
            named_when_full(self.path),
            one_thread_a_decoder(),
            self.path.open("r+b", buffering=0) as file,
        ):
            return [self._one(file.fileno(), row, e) for row, e in enumerate(examples, first)]

    def _one(self, file: int, row: int, example: Example) -> Found:
        found = canvas(example, side_px=self.side_px, mode=self.resize)
        if isinstance(found, str):
            return found
        self._put(file, row, found[0].tobytes())
        return found[1]

    def _put(self, file: int, row: int, pixels: bytes) -> None:
        os.lseek(file, row * self.row_bytes, os.SEEK_SET)
        while pixels:  # a disk may write only a part
            pixels = pixels[os.write(file, pixels) :]

    def keep(self, rows: list[int]) -> None:
        """Keep only these rows, in ascending order."""
        with self.path.open("r+b", buffering=0) as file:
            for place, row in enumerate(rows):
                if place != row:
                    file.seek(row * self.row_bytes)
                    self._put(file.fileno(), place, file.read(self.row_bytes))
            file.truncate(len(rows) * self.row_bytes)


def decoded(
    examples: Iterable[Example], rows: RowFile, *, workers: int
) -> Generator[tuple[Example, Found], None, None]:
    """Each example with its size or error, in order; the n-th is in row n of the file."""
    waiting = iter(examples)
    head = list(islice(waiting, FEW))
    groups = _groups(chain(head, waiting))
    if workers < 2 or len(head) < FEW:
        for first, group in groups:
            yield from zip(group, rows.write(first, group), strict=True)
        return
    yield from _in_processes(rows.write, groups, workers)


def _groups(examples: Iterable[Example]) -> Iterator[tuple[int, list[Example]]]:
    """Groups of examples, each with the number of its first example."""
    group: list[Example] = []
    size = 0
    for number, example in enumerate(examples, 1):
        group.append(example)
        size += len(example.image.data or b"") if example.image is not None else 0
        if len(group) == GROUP_IMAGES or size >= GROUP_BYTES:
            yield number - len(group), group
            group, size = [], 0
    if group:
        yield number - len(group), group


def _in_processes(
    write: Callable[[int, list[Example]], list[Found]],
    groups: Iterator[tuple[int, list[Example]]],
    workers: int,
) -> Generator[tuple[Example, Found], None, None]:
    with ProcessPoolExecutor(workers, initializer=begin_worker) as pool:
        flying: deque[tuple[list[Example], Future[list[Found]]]] = deque()
        try:
            for first, group in groups:
                flying.append((group, pool.submit(write, first, group)))
                if len(flying) > AHEAD * workers:
                    yield from _paired(*flying.popleft())
            while flying:
                yield from _paired(*flying.popleft())
        except BrokenProcessPool as error:
            raise ExternalToolError(
                "a process that decodes images was killed, often for lack of memory; run the same "
                "command again with fewer run.workers"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)  # waits until the workers have closed the file


def _paired(group: list[Example], found: Future[list[Found]]) -> Iterator[tuple[Example, Found]]:
    return zip(group, found.result(), strict=True)
