"""A whole detector directory around the tiny colour network (see `make_networks.py`)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightwords.images import Normalization
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec, Pooling
from sightwords.words.calibration_fit import fit_calibration

DATA = Path(__file__).parent / "data"
WORDS = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
UNIT = Normalization("RGB", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

MakeDetector = Callable[..., Path]


@pytest.fixture
def make_detector(tmp_path: Path) -> MakeDetector:
    """Write a detector directory; the calibration gives every word precision = probability."""

    def make(
        network: str = "colours", *, pooling: Pooling = "noisy_or", calibrated: bool = True
    ) -> Path:
        folder = tmp_path / f"detector-{network}"
        folder.mkdir()
        shutil.copy(DATA / f"{network}.onnx", folder / "network.onnx")
        counts = tuple(range(80, 0, -10))
        save_vocabulary(Vocabulary(WORDS, counts, sum(counts)), folder / "vocabulary.json")
        DetectorSpec(
            backbone="colours",
            pooling=pooling,
            input=InputSpec(resize="square", size_px=16, resample="bilinear", normalization=UNIT),
            grid=GridSpec(rows=4, columns=4, window=1, stride=1, canvas=4),
            words=len(WORDS),
        ).save(folder)
        if calibrated:
            rng = np.random.default_rng(0)
            scores = rng.random((2000, len(WORDS)))
            labels = rng.random(scores.shape) < scores
            fit_calibration(scores, labels).save(folder)
        return folder

    return make


@pytest.fixture
def colour_detector(make_detector: MakeDetector) -> Path:
    return make_detector()
