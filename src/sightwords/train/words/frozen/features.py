"""Features of every image's regions from an exported detector, computed once and kept on disk.

Stage: input of `frozen` training (section 3.1). 110 kB an image of 144 regions of 384 units.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import CorpusError, ImageError, InputError
from sightwords.files import atomic_path
from sightwords.images import decode
from sightwords.parallel import ordered_map
from sightwords.runtime import Network
from sightwords.sealed import sha256_of
from sightwords.train.integrity import damage, read_sealed, sums_of, write_sealed
from sightwords.train.words.frozen.graft import LOGITS, REGIONS, open_model, with_regions
from sightwords.types import Example, FloatArray
from sightwords.words.artefact import NETWORK_NAME, DetectorSpec

log = logging.getLogger(__name__)
HalfArray = npt.NDArray[np.float16]
FIT_IMAGES = 40
"""Images that the old last layer is measured on: thousands of regions for hundreds of units."""


@dataclass(frozen=True)
class RegionTable:
    """Features of the regions of N images, with their captions."""

    regions: HalfArray
    """(N, rows * columns, C), memory-mapped."""
    ids: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    old_weight: FloatArray
    """(C, V) of the detector's own last layer."""
    old_bias: FloatArray
    """(V,)"""

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: Sequence[int]) -> RegionTable:
        """These images alone."""
        return replace(
            self,
            regions=self.regions[list(rows)],
            ids=tuple(self.ids[r] for r in rows),
            captions=tuple(self.captions[r] for r in rows),
        )

    def probs(self, weight: FloatArray, bias: FloatArray) -> FloatArray:
        """(N, V) Eq. 1 for a last layer, block by block."""
        found = np.empty((len(self), len(bias)), dtype=np.float32)
        for start in range(0, len(self), 32):
            part = self.regions[start : start + 32].astype(np.float32)
            logits = part @ weight + bias
            found[start : start + 32] = -np.expm1(-np.logaddexp(0, logits).sum(axis=1))
        return found


def region_table(
    base: str | os.PathLike[str],
    examples: Callable[[], Iterable[Example]],
    cache: str | os.PathLike[str],
    *,
    key: str,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> RegionTable:
    """Run a detector's network over every image once; an existing table is opened.

    `key` names the state of the source, as in `train.data.image_table.cached_table`.
    """
    spec = DetectorSpec.load(base)
    if spec.pooling != "noisy_or":
        raise InputError(
            f"{base}: pooling is {spec.pooling!r}; give a detector with regions ('noisy_or')"
        )
    name = hashlib.sha256(f"{key}|{sha256_of(Path(base) / NETWORK_NAME)}".encode()).hexdigest()[:16]
    folder = Path(cache) / f"regions-{name}"
    index = _whole_index(folder)
    if index is None:
        _fill(folder, Path(base), spec, examples(), threads=threads, progress=progress)
        index = read_sealed(folder / "index.json")
        assert index is not None
    with np.load(folder / "head.npz", allow_pickle=False) as head:
        weight, bias = head["weight"], head["bias"]
    shape = (len(index["ids"]), spec.grid.rows * spec.grid.columns, len(weight))
    return RegionTable(
        np.memmap(folder / "regions.raw", dtype=np.float16, mode="r", shape=shape),
        tuple(index["ids"]),
        tuple(tuple(captions) for captions in index["captions"]),
        weight,
        bias,
    )


def _whole_index(folder: Path) -> dict[str, Any] | None:
    """The index of a finished, undamaged table; None if it has to be built."""
    if not (folder / "index.json").exists():
        return None
    index = read_sealed(folder / "index.json")
    problem = None if index is None else damage(folder, index["files"])
    if problem is not None:
        log.warning("damaged: %s; the table is built again", problem)
        return None
    return index


def _fill(
    folder: Path,
    base: Path,
    spec: DetectorSpec,
    examples: Iterable[Example],
    *,
    threads: int | None,
    progress: Callable[[int], None] | None,
) -> None:
    """Write regions.raw, head.npz and, last, index.json."""
    network = Network(with_regions(open_model(base / NETWORK_NAME)), threads=threads)
    kept: list[Example] = []
    shown: list[tuple[FloatArray, FloatArray]] = []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.json").unlink(missing_ok=True)

    def prepared(example: Example) -> FloatArray | ImageError:
        assert example.image is not None
        try:
            return spec.input.prepare(decode(example.image))
        except ImageError as error:
            return error

    with_image = (example for example in examples if example.image is not None)
    with (folder / "regions.raw").open("wb") as file:
        for example, image in ordered_map(prepared, with_image, workers=1):
            if isinstance(image, ImageError):
                log.warning("left out %s: %s", example.id, image)
                continue
            found = network.run({"image": image[None]}, about=example.id)
            regions = found[REGIONS][0].reshape(-1, found[REGIONS].shape[-1])
            file.write(regions.astype(np.float16).tobytes())
            kept.append(example)
            if len(shown) < FIT_IMAGES:
                shown.append((regions, found[LOGITS][0].reshape(len(regions), -1)))
            if progress:
                progress(len(kept))
    if not kept:
        raise CorpusError(f"{folder}: no image of the corpus could be decoded; see the warnings")
    weight, bias = old_head(
        np.concatenate([r for r, _ in shown]), np.concatenate([y for _, y in shown])
    )
    with atomic_path(folder / "head.npz") as temporary, temporary.open("wb") as stream:
        np.savez(stream, weight=weight, bias=bias)
    index = {
        "ids": [e.id for e in kept],
        "captions": [list(e.captions) for e in kept],
        "files": sums_of(folder, ["head.npz", "regions.raw"]),
    }
    write_sealed(folder / "index.json", index)


def old_head(regions: FloatArray, logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The last layer that turns `regions` (R, C) into `logits` (R, V), by ridge regression.

    The file may hold it in one of several int8 forms; measuring it is easier than reading it.

    >>> weight, bias = old_head(np.eye(3, dtype=np.float32), np.array([[2.0], [3.0], [4.0]]))
    >>> (np.eye(3) @ weight + bias).round(2).ravel().tolist()
    [2.0, 3.0, 4.0]
    """
    mean = logits.mean(axis=0)
    padded = np.concatenate([regions, np.ones((len(regions), 1))], axis=1).astype(np.float64)
    square = padded.T @ padded
    square[np.diag_indices_from(square)] += 1e-6 * np.trace(square) / len(square)
    found = np.linalg.solve(square, padded.T @ (logits - mean))
    return found[:-1].astype(np.float32), (found[-1] + mean).astype(np.float32)
