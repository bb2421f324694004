"""Images of a corpus, decoded once: one uint8 array on disk, read by row.

Stage: input of detector training (section 3.1). Input: examples. Output: an `ImageTable`.
Decoding a JPEG takes a hundred times as long as reading a row, and training visits each image many
times. So all cores decode the images once (`train.data.table_workers`) into an array of
(N, side, side, 3), which is then memory-mapped.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import CorpusError
from sightwords.files import claim
from sightwords.parallel import available_cores
from sightwords.train.data.table_workers import RowFile, decoded
from sightwords.train.integrity import damage, read_sealed, sums_of, write_sealed
from sightwords.types import Example
from sightwords.words.artefact import Resize

log = logging.getLogger(__name__)
Progress = Callable[[int], None]

INDEX_NAME = "index.json"
PIXELS_NAME = "pixels.raw"
CLAIM_SECONDS = 5.0
"""How long to wait for a table that another process is decoding into."""


@dataclass(frozen=True)
class ImageTable:
    """Decoded images beside their captions."""

    pixels: npt.NDArray[np.uint8]
    """(N, side, side, 3) RGB, memory-mapped."""
    content: npt.NDArray[np.int32]
    """(N, 2) width and height of each image on its canvas; the rest is padding."""
    ids: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    resize: Resize

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def side_px(self) -> int:
        """Side of the square canvas."""
        return int(self.pixels.shape[1])

    def select(self, rows: Sequence[int]) -> ImageTable:
        """The images of these rows as a new table, in memory."""
        return ImageTable(
            pixels=self.pixels[np.asarray(rows)],
            content=self.content[np.asarray(rows)],
            ids=tuple(self.ids[row] for row in rows),
            captions=tuple(self.captions[row] for row in rows),
            resize=self.resize,
        )


def gathered(tables: Sequence[ImageTable], wanted: Callable[[str], bool]) -> ImageTable:
    """The images of several tables whose ids are wanted, as one table in memory."""
    if not tables:
        raise CorpusError("no image tables to choose from; give a source of images")
    if len({(table.side_px, table.resize) for table in tables}) != 1:
        raise CorpusError("image tables of different sizes cannot be joined; give them one size")
    rows = [[row for row, name in enumerate(t.ids) if wanted(name)] for t in tables]
    side = tables[0].side_px
    pixels = np.empty((sum(map(len, rows)), side, side, 3), dtype=np.uint8)
    ends = np.cumsum([len(chosen) for chosen in rows])

    def fill(table: ImageTable, chosen: list[int], end: int) -> None:
        np.take(table.pixels, chosen, axis=0, out=pixels[end - len(chosen) : end], mode="clip")

    with ThreadPoolExecutor(available_cores()) as pool:  # numpy releases Python's lock
        list(pool.map(fill, tables, rows, ends))
    pairs = [(t, row) for t, chosen in zip(tables, rows, strict=True) for row in chosen]
    return ImageTable(
        pixels=pixels,
        content=np.concatenate([t.content[r] for t, r in zip(tables, rows, strict=True)]),
        ids=tuple(t.ids[row] for t, row in pairs),
        captions=tuple(t.captions[row] for t, row in pairs),
        resize=tables[0].resize,
    )


def build_table(
    examples: Iterable[Example],
    directory: str | os.PathLike[str],
    *,
    side_px: int,
    resize: Resize = "square",
    workers: int | None = None,
    progress: Progress | None = None,
) -> ImageTable:
    """Decode every image into a table under `directory`; a bad image is logged and left out.

    workers: processes, one per core unless given; with 0 or 1, this process decodes. The index is
    written last; a table without one is unfinished.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[tuple[str, list[str]]] = []  # without the images' bytes
    sizes: list[tuple[int, int]] = []
    good: list[int] = []
    rows = RowFile(folder / PIXELS_NAME, side_px, resize)
    with_image = (e for e in examples if e.image is not None)
    many = available_cores() if workers is None else workers
    with rows.path.open("ab") as file, closing(decoded(with_image, rows, workers=many)) as every:
        _claim(file, folder)
        (folder / INDEX_NAME).unlink(missing_ok=True)
        file.truncate(0)
        for row, (example, found) in enumerate(every):
            if isinstance(found, str):
                log.warning("left out %s: %s", example.id, found)
                continue
            good.append(row)
            sizes.append(found)
            kept.append((example.id, list(example.captions)))
            if progress:
                progress(len(kept))
        if not kept:
            raise CorpusError(
                f"{folder}: no image of the corpus could be decoded; see the warnings"
            )
        rows.keep(good)
        index = {
            "side_px": side_px,
            "resize": resize,
            "ids": [name for name, _ in kept],
            "captions": [captions for _, captions in kept],
            "content": sizes,
            "files": sums_of(folder, [PIXELS_NAME]),
        }
        write_sealed(folder / INDEX_NAME, index)
    return _opened(folder, index)


def _claim(file: IO[bytes], folder: Path) -> None:
    """Lock a table; workers of a killed process may take a moment to end."""
    patience = time.monotonic() + CLAIM_SECONDS
    while not claim(file):
        if time.monotonic() > patience:
            raise CorpusError(
                f"{folder}: another process is decoding into it; wait for its end and run the "
                "same command again, or give another run.work"
            )
        time.sleep(0.1)


def open_table(directory: str | os.PathLike[str]) -> ImageTable:
    """Open a finished table; its pixels are read once, to check their sum."""
    folder = Path(directory)
    if not (folder / INDEX_NAME).exists():
        raise CorpusError(f"{folder}: contains no finished image table; build it again")
    index = read_sealed(folder / INDEX_NAME)
    problem = f"see {INDEX_NAME}" if index is None else damage(folder, index["files"])
    if index is None or problem is not None:
        raise CorpusError(f"{folder}: damaged image table ({problem}); build it again")
    return _opened(folder, index)


def _opened(folder: Path, index: Mapping[str, Any]) -> ImageTable:
    shape = (len(index["ids"]), index["side_px"], index["side_px"], 3)
    return ImageTable(
        pixels=np.memmap(folder / PIXELS_NAME, dtype=np.uint8, mode="r", shape=shape),
        content=np.asarray(index["content"], dtype=np.int32),
        ids=tuple(index["ids"]),
        captions=tuple(tuple(c) for c in index["captions"]),
        resize=index["resize"],
    )


def cached_table(
    examples: Callable[[], Iterable[Example]],
    cache: str | os.PathLike[str],
    *,
    key: str,
    side_px: int,
    resize: Resize = "square",
    workers: int | None = None,
    progress: Progress | None = None,
) -> ImageTable:
    """The table of this source and size, built at most once; `key` is the source's state."""
    name = hashlib.sha256(f"{key}|{side_px}|{resize}".encode()).hexdigest()[:16]
    folder = Path(cache) / f"table-{name}"
    if (folder / INDEX_NAME).exists():
        try:
            return open_table(folder)
        except CorpusError as error:
            log.warning("%s", error)
    return build_table(
        examples(), folder, side_px=side_px, resize=resize, workers=workers, progress=progress
    )
