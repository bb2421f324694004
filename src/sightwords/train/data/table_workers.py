"""Processes that decode images straight into the rows of a file.

    main process: a few examples  ->  worker: decodes, writes rows n, n + 1, ...
                  sizes, or what is wrong  <-

Pixels do not pass through the main process, which has enough to do with reading the corpus. Not
threads: those of one process wait for Python's lock and for the memory that decoders ask the
system for (docs/scale.md, "Training").
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
"""So few images are decoded before processes have started."""
GROUP_IMAGES, GROUP_BYTES = 32, 1 << 20
"""What a worker is given at a time, at most; but always one image."""
AHEAD = 3
"""Groups a worker that are under way: none waits, and memory holds them."""


@dataclass(frozen=True)
class RowFile:
    """Rows of one size in a file."""

    path: Path
    side_px: int
    resize: Resize

    @property
    def row_bytes(self) -> int:
        """Of an image's pixels."""
        return 3 * self.side_px**2

    def write(self, first: int, examples: list[Example]) -> list[Found]:
        """Decode these into the rows from `first` on; the row of a bad image holds anything."""
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
        while pixels:  # a disk may take less than it was given
            pixels = pixels[os.write(file, pixels) :]

    def keep(self, rows: list[int]) -> None:
        """Let these rows, in ascending order, be all that the file holds."""
        with self.path.open("r+b", buffering=0) as file:
            for place, row in enumerate(rows):
                if place != row:
                    file.seek(row * self.row_bytes)
                    self._put(file.fileno(), place, file.read(self.row_bytes))
            file.truncate(len(rows) * self.row_bytes)


def decoded(
    examples: Iterable[Example], rows: RowFile, *, workers: int
) -> Generator[tuple[Example, Found], None, None]:
    """Each example with what was found, in order; the n-th is in row n of the file."""
    waiting = iter(examples)
    head = list(islice(waiting, FEW))
    every = _numbered(_groups(chain(head, waiting)))
    if workers < 2 or len(head) < FEW:
        for first, group in every:
            yield from zip(group, rows.write(first, group), strict=True)
        return
    yield from _in_processes(rows.write, every, workers)


def _groups(examples: Iterable[Example]) -> Iterator[list[Example]]:
    group: list[Example] = []
    size = 0
    for example in examples:
        group.append(example)
        size += len(example.image.data or b"") if example.image is not None else 0
        if len(group) == GROUP_IMAGES or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _numbered(groups: Iterable[list[Example]]) -> Iterator[tuple[int, list[Example]]]:
    """Each group with the number of its first example."""
    first = 0
    for group in groups:
        yield first, group
        first += len(group)


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
                "a process that decodes images died, killed from outside or for want of memory; "
                "run the same command again, with fewer --workers"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)  # waits: until they end, workers hold the file


def _paired(group: list[Example], found: Future[list[Found]]) -> Iterator[tuple[Example, Found]]:
    return zip(group, found.result(), strict=True)
