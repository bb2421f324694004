"""Images of a corpus, decoded once: one uint8 array on disk, read by row.

Stage: input of detector training (section 3.1). Input: examples. Output: an `ImageTable`.
Decoding a JPEG costs a hundred times a row's read, and training visits each image many times, so
the pixels are decoded by all cores once, stored as (N, side, side, 3), and memory-mapped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightwords.errors import CorpusError, ImageError
from sightwords.files import write_text
from sightwords.images import ImageSource, decode, fit_size, resize, to_array
from sightwords.types import Example

log = logging.getLogger(__name__)
T = TypeVar("T")
Progress = Callable[[int], None]

INDEX_NAME = "index.json"
PIXELS_NAME = "pixels.raw"


@dataclass(frozen=True)
class ImageTable:
    """Decoded images beside their captions."""

    pixels: npt.NDArray[np.uint8]
    """(N, side, side, 3) RGB, memory-mapped."""
    content: npt.NDArray[np.int32]
    """(N, 2) width and height of the image on its canvas; the rest is padding."""
    ids: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    resize: Literal["square", "paper"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def side_px(self) -> int:
        """Side of the square canvas."""
        return int(self.pixels.shape[1])


def build_table(
    examples: Iterable[Example],
    directory: str | os.PathLike[str],
    *,
    side_px: int,
    resize: Literal["square", "paper"] = "square",
    workers: int | None = None,
    progress: Progress | None = None,
) -> ImageTable:
    """Decode every image into a table under `directory`; a bad image is logged and left out.

    The index is written last, so that a table without one is known to be unfinished.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[Example] = []
    sizes: list[tuple[int, int]] = []
    raw = folder / PIXELS_NAME
    with raw.open("wb") as file:
        for example, result in _decoded(examples, side_px, resize, workers):
            if isinstance(result, str):
                log.warning("left out %s: %s", example.id, result)
                continue
            file.write(result[0])
            sizes.append(result[1])
            kept.append(example)
            if progress:
                progress(len(kept))
    if not kept:
        raise CorpusError(f"{folder}: no image of the corpus could be decoded; see the warnings")
    index = {
        "side_px": side_px,
        "resize": resize,
        "ids": [e.id for e in kept],
        "captions": [list(e.captions) for e in kept],
        "content": sizes,
    }
    write_text(folder / INDEX_NAME, json.dumps(index, ensure_ascii=False))
    return open_table(folder)


def open_table(directory: str | os.PathLike[str]) -> ImageTable:
    """Open a finished table."""
    folder = Path(directory)
    try:
        index = json.loads((folder / INDEX_NAME).read_text(encoding="utf-8"))
        shape = (len(index["ids"]), index["side_px"], index["side_px"], 3)
        pixels = np.memmap(folder / PIXELS_NAME, dtype=np.uint8, mode="r", shape=shape)
    except FileNotFoundError as error:
        raise CorpusError(f"{folder}: holds no finished image table; build it again") from error
    except (ValueError, KeyError) as error:
        raise CorpusError(f"{folder}: damaged image table ({error}); build it again") from error
    return ImageTable(
        pixels=pixels,
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
    resize: Literal["square", "paper"] = "square",
    workers: int | None = None,
    progress: Progress | None = None,
) -> ImageTable:
    """The table for this source and size, built at most once; `key` names the source's state."""
    name = hashlib.sha256(f"{key}|{side_px}|{resize}".encode()).hexdigest()[:16]
    folder = Path(cache) / f"table-{name}"
    if (folder / INDEX_NAME).exists():
        return open_table(folder)
    return build_table(
        examples(), folder, side_px=side_px, resize=resize, workers=workers, progress=progress
    )


def _decoded(
    examples: Iterable[Example],
    side_px: int,
    mode: Literal["square", "paper"],
    workers: int | None,
) -> Iterator[tuple[Example, tuple[bytes, tuple[int, int]] | str]]:
    """Each example with its canvas and content size, or with what is wrong; in order."""
    with_image = (e for e in examples if e.image is not None)
    # fork is not safe beside torch's threads; spawn is, and costs a second once
    pool = ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn"))
    with pool:
        pending: list[tuple[list[Example], Future[list[tuple[bytes, tuple[int, int]] | str]]]] = []
        for batch in _batches(with_image, 32):
            images: list[ImageSource] = [e.image for e in batch if e.image is not None]
            pending.append((batch, pool.submit(_canvases, images, side_px, mode)))
            if len(pending) >= 64:  # bounds the memory held by decoded images
                done, future = pending.pop(0)
                yield from zip(done, future.result(), strict=True)
        for done, future in pending:
            yield from zip(done, future.result(), strict=True)


def _canvases(
    images: list[ImageSource], side_px: int, mode: Literal["square", "paper"]
) -> list[tuple[bytes, tuple[int, int]] | str]:
    return [_canvas(image, side_px, mode) for image in images]


def _canvas(
    source: ImageSource, side_px: int, mode: Literal["square", "paper"]
) -> tuple[bytes, tuple[int, int]] | str:
    """The image on its square canvas as bytes, with its size there; or the error as text."""
    try:
        image = decode(source)
    except ImageError as error:
        return str(error)
    if mode == "square":
        size = (side_px, side_px)
        image = resize(image, size, resample="bicubic")
    else:
        size = fit_size(*image.size, side_px)
        canvas = Image.new("RGB", (side_px, side_px))
        canvas.paste(resize(image, size, resample="bilinear"), (0, 0))
        image = canvas
    return to_array(image).tobytes(), size


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
