"""Text larger than memory: read once by several processes, stored on disk as numbers.

Stage: input of section 4.1. Corpora -> parts -> word counts, added up -> a vocabulary; parts ->
blocks of `Sentences` in a folder, with the counts and the pairs of neighbours of each part. Sums
and unions do not depend on how a corpus is cut, so vocabulary and followers are those of one pass.
Training then reads one block at a time; memory does not grow with the text.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sightwords.config import LanguageConfig
from sightwords.errors import ConfigError, ExternalToolError
from sightwords.files import DAMAGED_ZIP, atomic_path
from sightwords.sealed import sha256_of
from sightwords.text.vocabulary import Vocabulary, WordCounts
from sightwords.train.integrity import (
    is_whole,
    read_sealed,
    remove_partials,
    summed_path,
    write_sealed,
)
from sightwords.train.language.data import (
    NO_SETS,
    AttributeSets,
    Counted,
    Sentences,
    count,
    encode_blocks,
    joined,
    merged,
)
from sightwords.types import Example

log = logging.getLogger(__name__)
Examples = Callable[[], Iterable[Example]]
Report = Callable[[int, int], None]
R = TypeVar("R")
RUN = 512
"""Neighbouring examples that stay together when a corpus is cut into parts."""
BLOCK = 50_000
"""Captions in a file."""
MIXED = 8
"""Files that are shuffled and learned together."""
ATTEMPTS = 3
"""How often a part whose process dies is tried."""
MANIFEST = "text.json"


@dataclass(frozen=True)
class Part:
    """Every `of`-th run of a corpus's examples, from run `number` on."""

    corpus: Examples
    number: int = 0
    of: int = 1

    def __iter__(self) -> Iterator[Example]:
        for place, example in enumerate(self.corpus()):
            if place // RUN % self.of == self.number:
                yield example

    def captions(self) -> Iterator[str]:
        """All captions, one after another."""
        return (caption for example in self for caption in example.captions)


def parts_of(corpora: Sequence[Examples], cut: int) -> list[Part]:
    """The corpora, each cut into so many parts.

    >>> [(part.number, part.of) for part in parts_of([list], 2)]
    [(0, 2), (1, 2)]
    """
    return [Part(corpus, number, cut) for corpus in corpora for number in range(cut)]


def cut_for(corpora: Sequence[Examples], processes: int) -> int:
    """Files are read in parallel; if there are fewer files than processes, each file is cut.

    >>> cut_for([list, list, list], 2), cut_for([list], 2)
    (1, 2)
    """
    return 1 if len(corpora) >= processes else processes


def count_words(corpora: Sequence[Examples], *, processes: int) -> WordCounts:
    """Word counts of all captions, counted by several processes."""
    parts = parts_of(corpora, cut_for(corpora, processes))
    found = _each({n: (part,) for n, part in enumerate(parts)}, _words_of, processes=processes)
    return reduce(WordCounts.__add__, (counts for _, counts in sorted(found.items())))


def _words_of(part: Part) -> WordCounts:
    return WordCounts.of_captions(part.captions())


@dataclass(frozen=True)
class StoredText:
    """Sentences in a folder; a call returns them in blocks, for `fit_language`."""

    files: tuple[Path, ...]
    counted: Counted
    """Counts of all sentences."""

    def __call__(self) -> Iterator[Sentences]:
        """One block after another, each of several files."""
        for first in range(0, len(self.files), MIXED):
            yield joined(_read_block(path) for path in self.files[first : first + MIXED])


def _read_block(path: Path) -> Sentences:
    with np.load(path, allow_pickle=False) as arrays:
        return Sentences(*(arrays[name] for name in _ARRAYS))


_ARRAYS = ("tokens", "offsets", "images", "weights")


def store_text(
    folder: str | os.PathLike[str],
    corpora: tuple[Sequence[Examples], Sequence[Examples]],
    vocabulary: Vocabulary,
    config: LanguageConfig,
    *,
    sets: AttributeSets = NO_SETS,
    processes: int = 1,
    key: str = "",
    report: Report | None = None,
) -> StoredText:
    """Encode captioned images and text, both in `corpora`, into a folder; parts there are kept.

    key: the state of the files behind the corpora (`train.data.sources.source_key`); a folder with
    text of other files is an error. report: called with the number of parts done and of all parts.

    Captions and text alternate evenly, so that no epoch ends with one of them.
    """
    place = Path(folder)
    cuts = [cut_for(some, processes) for some in corpora]
    cuts = _agreed(place, _identity(vocabulary, config, sets, corpora, key), cuts)
    kinds = zip(corpora, cuts, (True, False), strict=True)
    tasks = [(part, seen) for some, cut, seen in kinds for part in parts_of(some, cut)]
    ends = [place / f"part-{number:05d}.npz" for number in range(len(tasks))]
    todo = {n: (*task, ends[n]) for n, task in enumerate(tasks) if not _is_stored(ends[n])}
    given = _Given(vocabulary, sets, config.text_weight)
    done = (lambda count: report(len(tasks) - len(todo) + count, len(tasks))) if report else None
    _each(todo, _store_part, processes=processes, given=given, done=done)
    counted: list[Counted] = []
    files: tuple[list[Path], list[Path]] = ([], [])
    for end, (_, with_images) in zip(ends, tasks, strict=True):
        one, blocks = _read_end(end)
        counted.append(one)
        files[not with_images].extend(_block_path(end, number) for number in range(blocks))
    return StoredText(_in_turn(*files), merged(counted))


def _in_turn(*kinds: Sequence[Path]) -> tuple[Path, ...]:
    """All files, with those of each kind evenly spread.

    >>> [path.name for path in _in_turn([Path("a"), Path("b"), Path("c"), Path("d")], [Path("x")])]
    ['a', 'b', 'x', 'c', 'd']
    """
    places = [
        ((number + 0.5) / len(files), path) for files in kinds for number, path in enumerate(files)
    ]
    return tuple(path for _, path in sorted(places))


@dataclass(frozen=True)
class _Given:
    """What every process needs; sent once, not with each part."""

    vocabulary: Vocabulary
    sets: AttributeSets
    text_weight: float


_taken: list[_Given | None] = [None]


def _take(given: _Given | None) -> None:
    _taken[0] = given


def _store_part(part: Part, with_images: bool, end: Path) -> None:
    """Write the blocks of one part, then the file that marks it as complete."""
    given = _taken[0]
    assert given is not None
    counted, blocks = Counted.nothing(given.vocabulary), 0
    sums: list[str] = []
    for block in encode_blocks(
        part, given.vocabulary, given.sets if with_images else NO_SETS,
        text_weight=given.text_weight, block=BLOCK,
    ):  # fmt: skip
        with atomic_path(_block_path(end, blocks)) as temporary, temporary.open("wb") as stream:
            arrays = {name: getattr(block, name) for name in _ARRAYS}
            np.savez(stream, allow_pickle=False, **arrays)
        sums.append(sha256_of(_block_path(end, blocks)))
        counted, blocks = merged([counted, count(block, given.vocabulary)]), blocks + 1
    with summed_path(end) as temporary, temporary.open("wb") as stream:
        np.savez(
            stream, allow_pickle=False,
            counts=counted.counts, pairs=counted.pairs, blocks=np.array(blocks),
            sums=np.array(sums, dtype="U64"),
        )  # fmt: skip


def _is_stored(end: Path) -> bool:
    """Whether a part is complete and undamaged."""
    if not is_whole(end):
        return False
    with np.load(end, allow_pickle=False) as stored:
        sums = stored["sums"].tolist()
    for path, expected in ((_block_path(end, n), found) for n, found in enumerate(sums)):
        if not path.exists() or sha256_of(path) != expected:
            log.warning("%s: missing or damaged; the text of its part is read again", path)
            return False
    return True


def _block_path(end: Path, number: int) -> Path:
    return end.with_name(f"{end.stem}-block-{number:05d}.npz")


def _read_end(path: Path) -> tuple[Counted, int]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return Counted(stored["counts"], stored["pairs"]), int(stored["blocks"])
    except (OSError, KeyError, *DAMAGED_ZIP) as error:
        raise ConfigError(
            f"{path}: cannot be read as encoded text ({error}); delete the file, and its text is "
            "read again"
        ) from error


def _identity(
    vocabulary: Vocabulary,
    config: LanguageConfig,
    sets: AttributeSets,
    corpora: tuple[Sequence[Examples], Sequence[Examples]],
    key: str,
) -> str:
    digest = hashlib.sha256("\n".join(vocabulary.words).encode())
    for array in (sets.offsets, sets.ids, sets.log_probs):
        digest.update(array.tobytes())
    digest.update(f"{config.text_weight} {[len(some) for some in corpora]}".encode())
    digest.update(key.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _agreed(folder: Path, identity: str, cuts: list[int]) -> list[int]:
    """How the corpora are cut: as in the folder, if it has this text; otherwise `cuts`."""
    manifest = folder / MANIFEST
    remove_partials(folder)
    stored = read_sealed(manifest) if manifest.exists() else None
    if stored is None:
        for part in folder.glob("part-*.npz"):  # of unknown text
            part.unlink()
        write_sealed(manifest, {"identity": identity, "cuts": cuts})
        return cuts
    if stored["identity"] != identity:
        raise ConfigError(
            f"{folder}: contains text encoded with other words, settings or corpora; use the same "
            "ones, or delete the folder to read the text again"
        )
    return [int(cut) for cut in stored["cuts"]]


def _each(
    tasks: dict[int, Any],
    work: Callable[..., R],
    *,
    processes: int,
    given: _Given | None = None,
    done: Callable[[int], None] | None = None,
) -> dict[int, R]:
    """`work(*task)` for every task, in processes; the tasks of processes that die are repeated."""
    found: dict[int, R] = {}
    for attempt in range(ATTEMPTS):
        left = {number: task for number, task in tasks.items() if number not in found}
        if not left:
            break
        if attempt:
            log.warning(
                "a reading process died; reading %d of %d parts again", len(left), len(tasks)
            )
        # Spawned, not forked: a fork would copy locks that threads of this process hold.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(processes, len(left)), spawn, _take, (given,)) as pool:
            waiting = {pool.submit(work, *task): number for number, task in left.items()}
            for future in as_completed(waiting):
                if _alive(future):
                    found[waiting[future]] = future.result()
                    if done is not None:
                        done(len(found))
    if len(found) < len(tasks):
        raise ExternalToolError(
            f"reading processes died {ATTEMPTS} times, {len(tasks) - len(found)} of {len(tasks)} "
            "parts are not read: most often memory is short; run the same command with a smaller "
            "run.workers: it keeps what was read"
        )
    return found


def _alive(future: Future[Any]) -> bool:
    return not isinstance(future.exception(), BrokenProcessPool)
