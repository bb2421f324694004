"""Section 3.1: a photo -> probability of each word in each region (Eq. 2) and in the image.

    detector = Detector.load("my-detector", threads=1)
    regions = detector(decode("dog.jpg"))           # RegionScores (12, 12, V)      Eq. 2
    scores = pool(regions)                          # WordScores (V,)               Eq. 1
    words = detector.calibrate(scores, regions)     # DetectedWords with boxes      section 3.2

`Detector.words` does all three. Everything is float32; 144 x 1000 logits take about a
millisecond beside the network's own time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from PIL import Image

from sightwords.config import CalibrationConfig
from sightwords.errors import BundleError, VocabularyError
from sightwords.images import ImageSource, decode_apart
from sightwords.runtime import Network
from sightwords.sealed import Sealed, folder_of
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.types import (
    Box,
    DetectedWord,
    DetectedWords,
    FloatArray,
    Patches,
    RegionScores,
    WordScores,
)
from sightwords.words.artefact import (
    DEFAULT_DETECTOR,
    NETWORK_NAME,
    VOCABULARY_NAME,
    DetectorSpec,
    usual_whole_token,
)
from sightwords.words.calibration import Calibration, choose_words
from sightwords.words.maps import word_maps
from sightwords.words.noisy_or import pool, sigmoid


class Detector:
    """A loaded word detector; call it with an upright RGB image (`images.decode` makes one)."""

    def __init__(
        self,
        spec: DetectorSpec,
        vocabulary: Vocabulary,
        network: Network,
        calibration: Calibration | None = None,
        *,
        config: CalibrationConfig | None = None,
    ) -> None:
        """Combine the parts; they must agree on the number of words and the grid."""
        self.spec = spec
        self.vocabulary = vocabulary
        self.network = network
        self.calibration = calibration
        self.config = config or CalibrationConfig()
        _check_parts(self)

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike[str] | Sealed = DEFAULT_DETECTOR,
        *,
        threads: int | None = None,
        calibrated: bool = True,
        config: CalibrationConfig | None = None,
    ) -> Detector:
        """Read a detector directory, the one inside the package if none is named.

        `calibrated=False` is for one whose calibration is not fitted yet.
        """
        folder = folder_of(directory)
        if not folder.is_dir():
            raise BundleError(f"{folder}: no such directory; give one that training has written")
        spec = DetectorSpec.load(folder)
        try:
            vocabulary = load_vocabulary(folder / VOCABULARY_NAME)
        except VocabularyError as error:  # inside a bundle it is the bundle that is at fault
            raise BundleError(str(error)) from error
        calibration = Calibration.load(folder) if calibrated else None
        network = Network(folder / NETWORK_NAME, threads=threads)
        return cls(spec, vocabulary, network, calibration, config=config)

    def __call__(self, image: Image.Image, *, name: str = "") -> RegionScores:
        """Eq. 2: upright RGB -> RegionScores; `name` is what errors call the image."""
        # One image per run: an int8 network takes the scale of its values from its whole input, so
        # in a batch the words of a photo would depend on the other photos. On a CPU a batch would
        # take as long.
        outputs = self.network.run({"image": self.spec.input.prepare(image)[None]}, about=name)
        _check_outputs(self.spec, outputs, self.network.name)
        return RegionScores(
            region_probs=sigmoid(outputs["region_logits"][0]),
            corners=self.spec.regions(*image.size).corners.astype(np.float32),
            features=outputs["features"][0],
            whole_token=self._whole_token(outputs["features"]),
            image_probs=(
                sigmoid(outputs["image_logits"][0]) if "image_logits" in outputs else None
            ),
            patches=self._patches(outputs, image.size),
        )

    def _whole_token(self, features: FloatArray) -> int:
        """Which of the T tokens of (B, T, D) describes the whole image."""
        known = self.spec.whole_token
        return usual_whole_token(features.shape[1]) if known is None else known

    def _patches(self, outputs: dict[str, FloatArray], size: tuple[int, int]) -> Patches | None:
        if "patch_logits" not in outputs:
            return None
        corners = self.spec.patches(*size).corners.astype(np.float32)
        return Patches(outputs["patch_logits"][0], outputs["attention"][0], corners)

    def calibrate(
        self, scores: WordScores, regions: RegionScores, *, threshold: float | None = None
    ) -> DetectedWords:
        """Section 3.2 as in the paper: the detected words, each with a precision and a box."""
        precisions = self._precisions(scores)
        threshold = self.config.threshold if threshold is None else threshold
        chosen = choose_words(
            precisions,
            scores.image_probs,
            self.vocabulary.words,
            threshold=threshold,
            minimum_content_words=self.config.minimum_content_words,
            closed_class=self.vocabulary.closed_class,
        )
        return self._described(scores, precisions, regions, chosen, threshold)

    def describe(
        self, scores: WordScores, regions: RegionScores, chosen: Sequence[int]
    ) -> DetectedWords:
        """Chosen words, by their indices in the vocabulary and in that order."""
        precisions = self._precisions(scores)
        return self._described(scores, precisions, regions, chosen, threshold=0.0)

    def words(
        self, source: ImageSource, *, name: str = "", threshold: float | None = None
    ) -> DetectedWords:
        """All of section 3 for one photo: a path, bytes, a PIL image or an array."""
        regions = self(decode_apart(source), name=name)
        return self.calibrate(pool(regions), regions, threshold=threshold)

    def _precisions(self, scores: WordScores) -> FloatArray:
        if self.calibration is None:
            raise BundleError(
                f"{self.network.name}: was loaded without calibration, so precisions are unknown; "
                "fit it with: sightwords train calibration"
            )
        return self.calibration.precision(scores.image_probs)

    def _described(
        self,
        scores: WordScores,
        precisions: FloatArray,
        regions: RegionScores,
        chosen: Sequence[int],
        threshold: float,
    ) -> DetectedWords:
        boxes: Sequence[Box | None] = [None] * len(chosen)
        if regions.corners is not None and len(chosen):
            boxes = word_maps(regions, chosen).boxes()
        words = (
            DetectedWord(
                word=self.vocabulary.words[i],
                prob=float(scores.image_probs[i]),
                precision=float(precisions[i]),
                raw_score=float(scores.raw_scores[i]),
                box=box,
            )
            for i, box in zip(chosen, boxes, strict=True)
        )
        return DetectedWords(tuple(words), threshold)


def _check_parts(detector: Detector) -> None:
    """All parts must have the same V words, the same grid and the same input."""
    spec, network = detector.spec, detector.network
    size, words, grid = spec.input.size_px, spec.words, spec.grid
    expected: dict[str, tuple[int | None, ...]] = {
        "region_logits": (None, grid.rows, grid.columns, words),
        "features": (None, None, None),
    }
    if spec.pooling == "whole_image":
        expected["image_logits"] = (None, words)
    if "patch_logits" in network.outputs:
        expected["patch_logits"] = (None, grid.canvas, grid.canvas, words)
        expected["attention"] = (None, grid.canvas, grid.canvas)
    _check_shape(network, "image", network.inputs, (None, 3, size, size))
    for name, shape in expected.items():
        _check_shape(network, name, network.outputs, shape)
    tokens, whole = network.outputs["features"][1], spec.whole_token or 0
    if not 0 <= whole < (tokens or whole + 1):
        raise BundleError(
            f"{network.name}: features have {tokens} tokens, but in detector.json token "
            f"{whole} describes the image; expected 0 to {(tokens or 1) - 1}: copy both again"
        )
    _check_words("the vocabulary", len(detector.vocabulary), words, network.name)
    if detector.calibration is not None:
        _check_words("the calibration", len(detector.calibration), words, network.name)


def _check_outputs(spec: DetectorSpec, outputs: dict[str, FloatArray], name: str) -> None:
    """Check the shapes that a network returns; they may differ from those it declares."""
    grid, words = spec.grid, spec.words
    expected = {
        "region_logits": (1, grid.rows, grid.columns, words),
        "image_logits": (1, words),
        "patch_logits": (1, grid.canvas, grid.canvas, words),
        "attention": (1, grid.canvas, grid.canvas),
    }
    for key, shape in expected.items():
        if key in outputs and outputs[key].shape != shape:
            raise BundleError(
                f"{name}: {key} has shape {outputs[key].shape}, detector.json has {shape}; copy "
                "both again"
            )
    features, whole = outputs["features"].shape, spec.whole_token or 0
    if len(features) != 3 or features[0] != 1 or not 0 <= whole < features[1]:
        raise BundleError(
            f"{name}: features have shape {features}, but in detector.json token {whole} "
            "describes the image; copy both again"
        )


def _check_shape(
    network: Network,
    name: str,
    shapes: dict[str, tuple[int | None, ...]],
    expected: tuple[int | None, ...],
) -> None:
    found = shapes.get(name)
    # A length that is None on either side may be any.
    if found is None or len(found) != len(expected):
        agrees = False
    else:
        pairs = zip(found, expected, strict=True)
        agrees = all(a == b or a is None or b is None for a, b in pairs)
    if not agrees:
        raise BundleError(
            f"{network.name}: {name} is {found or 'absent'}, detector.json has {expected} "
            "(None: any); the network and detector.json are of different detectors: export it again"
        )


def _check_words(what: str, found: int, expected: int, where: str) -> None:
    if found != expected:
        raise BundleError(
            f"{where}: {what} beside it has {found} words, detector.json has {expected}; "
            "they are of different detectors: copy the directory again"
        )
