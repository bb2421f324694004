"""From captioned images to a DMSM directory (section 5.1): the steps of `sightwords train dmsm`.

corpus + detector -> features -> trained networks -> dmsm.safetensors, image.onnx, text.onnx
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightwords.config import DmsmConfig
from sightwords.corpus import open_corpus
from sightwords.metrics.retrieval import Retrieval
from sightwords.sealed import sha256_of
from sightwords.train.data.sources import source_key
from sightwords.train.dmsm.data import dmsm_data
from sightwords.train.dmsm.export import WEIGHTS_NAME, DmsmExport, export_dmsm, save_dmsm
from sightwords.train.dmsm.image_features import ImageFeatures, detector_features, merged
from sightwords.train.dmsm.training import train_dmsm
from sightwords.train.dmsm.vectors import evaluate_network
from sightwords.train.fit import Progress
from sightwords.train.integrity import is_whole, summed_path
from sightwords.train.processes import first_then_others, is_first, process_group
from sightwords.words.artefact import NETWORK_NAME
from sightwords.words.detector import Detector

OnImages = Callable[[int], None]
"""Called with the number of images that have features."""


@dataclass(frozen=True, slots=True)
class DmsmRun:
    """The result of `run_dmsm`."""

    export: DmsmExport
    images: int
    captions: int
    retrieval: Retrieval | None
    """On the validation images, if given."""


def run_dmsm(
    sources: Sequence[str],
    out: str | os.PathLike[str],
    config: DmsmConfig,
    *,
    detector: str | os.PathLike[str],
    features: Sequence[str | os.PathLike[str]] = (),
    val: Sequence[str] = (),
    device: str = "cpu",
    cache: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    on_images: OnImages | None = None,
    progress: Progress | None = None,
) -> DmsmRun | None:
    """Train on every captioned image of the sources and write the directory `out`.

    Features not given as files are computed by the exported detector and kept in `cache` (default:
    `out`/training) with the checkpoint: the same call resumes where it stopped. Under torchrun only
    the first process computes features, writes files and returns a result.
    """
    work = Path(cache) if cache is not None else Path(out) / "training"
    given = merged([ImageFeatures.load(path) for path in features]) if features else None

    def described(several: Sequence[str]) -> ImageFeatures:
        if given is not None:
            return given.select([e.id for e in open_corpus(several)])
        return computed_features(
            several, work, detector=detector, threads=threads, progress=on_images
        )

    with process_group(device) as mine:
        captions = {e.id: e.captions for e in open_corpus(sources)}
        data = dmsm_data(first_then_others(lambda: described(sources)), captions, config)
        network = train_dmsm(data, config, device=mine, folder=work, progress=progress)
    if not is_first():
        return None
    save_dmsm(network, work / WEIGHTS_NAME)
    found = None
    if val:
        unseen = {e.id: e.captions for e in open_corpus(val)}
        found = evaluate_network(network, described(val), unseen)
    return DmsmRun(export_dmsm(network, out), len(data.features), len(data), found)


def computed_features(
    sources: Sequence[str],
    cache: Path,
    *,
    detector: str | os.PathLike[str],
    threads: int | None = None,
    progress: OnImages | None = None,
) -> ImageFeatures:
    """Features of an exported detector; those computed before for the same files are read."""
    loaded = Detector.load(detector, threads=threads, calibrated=False)
    key = f"{source_key(sources)}|{sha256_of(Path(detector) / NETWORK_NAME)}"
    path = cache / f"features-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npz"
    if not is_whole(path):
        found = detector_features(loaded, open_corpus(sources), progress=progress).features
        with summed_path(path) as temporary:
            found.save(temporary)
    return ImageFeatures.load(path)
