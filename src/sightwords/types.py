"""What the stages hand to each other: frozen dataclasses, documented shapes, no behaviour.

The order below is the order of the pipeline:

    Example -> RegionScores -> WordScores -> DetectedWords -> Hypothesis -> MBest -> Caption

V is the size of the vocabulary, 12 x 12 the paper's grid of regions (section 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ImageRef:
    """Where an image's bytes are: a file, a member of a shard, or memory.

    `data` holds the bytes when they were streamed past already (a tar member cannot be read
    again cheaply); otherwise `location` is opened when the image is needed.
    """

    location: str
    """Path or URL of the image, or of the shard that holds it."""
    member: str | None = None
    """Name inside the shard, for example `000000000009.jpg`."""
    data: bytes | None = field(default=None, repr=False, compare=False)
    fetch: bool = field(default=True, repr=False)
    """Whether a URL may be fetched: one that a list names may not, unless the user allows it."""

    def __str__(self) -> str:
        return f"{self.location}::{self.member}" if self.member else self.location


@dataclass(frozen=True, slots=True)
class Example:
    """One captioned image of any corpus."""

    id: str
    image: ImageRef | None
    """None for text without images (language model text)."""
    captions: tuple[str, ...]
    """As written by people: not tokenised, not lower-cased."""
    split: str
    """`train`, `val`, `test`, or another name the corpus uses; `` when it names none."""
    dataset: str


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in fractions of the upright image: 0 <= x0 < x1 <= 1, y downwards."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Patches:
    """Outputs of the network for single patches, of which regions are windows."""

    logits: FloatArray
    """(rows, columns, V) of each word in each patch, before the logistic function."""
    attention: FloatArray
    """(rows, columns): how much the network's last layer looks at each patch."""
    corners: FloatArray
    """(rows, columns, 4), as those of the regions."""


@dataclass(frozen=True, slots=True)
class RegionScores:
    """Probability of each word in each region, p_ij^w (Eq. 2)."""

    region_probs: FloatArray
    """(rows, columns, V), each in [0, 1]; (12, 12, V) in the paper."""
    corners: FloatArray | None = None
    """(rows, columns, 4): each region's x0, y0, x1, y1 in fractions of the upright image; zeros
    where it covers padding only. None if unknown."""
    features: FloatArray | None = None
    """(T, D) tokens that describe the image, for section 5."""
    whole_token: int = 0
    """Which of them describes all of it, as the mean of its parts."""
    image_probs: FloatArray | None = None
    """(V,) from a network that judges the image as a whole (the Classification baseline of section
    6.2); None where the image's probability is the noisy-OR of the regions."""
    patches: Patches | None = None
    """None from a network without patch outputs; words are then located by their regions."""


@dataclass(frozen=True, slots=True)
class WordScores:
    """Probability of each word in the whole image (Eq. 1), with the raw score of section 3.2."""

    image_probs: FloatArray
    """(V,) noisy-OR over regions."""
    raw_scores: FloatArray
    """(V,) largest region probability."""


@dataclass(frozen=True, slots=True)
class DetectedWord:
    """One detected word with its calibrated precision (section 3.2)."""

    word: str
    prob: float
    """Image-level probability p_i^w."""
    precision: float
    """Calibrated: of held-out images scored this high, the share that have the word."""
    raw_score: float
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class DetectedWords:
    """The set V-tilde of section 3.2, most precise first; ties by probability, then by word."""

    words: tuple[DetectedWord, ...]
    threshold: float
    """The global precision threshold tau that chose them."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A complete sentence of the beam search (section 4.2)."""

    tokens: tuple[str, ...]
    log_prob: float
    """Sum over the words and the end of sentence."""
    mentioned: tuple[str, ...]
    """Detected words that the sentence uses."""


@dataclass(frozen=True, slots=True)
class MBest:
    """The M-best list of section 4.2, in descending order of log-likelihood."""

    hypotheses: tuple[Hypothesis, ...]
    coverage: int
    """The number T of mentioned words that was reached."""


@dataclass(frozen=True, slots=True)
class RankedHypothesis:
    """A sentence with its re-ranking features and score (section 5, Table 2)."""

    hypothesis: Hypothesis
    features: Mapping[str, float]
    score: float


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A detected word as the caption shows it."""

    detected: DetectedWord
    used: bool
    """Whether the chosen caption mentions it."""


@dataclass(frozen=True, slots=True)
class Caption:
    """The caption of one photo, with everything needed to check it."""

    text: str
    confidence: float
    """Calibrated probability that the caption is good; the bundle defines good."""
    words: tuple[CaptionWord, ...]
    n_best: tuple[RankedHypothesis, ...]
    weights: Mapping[str, float] = field(default_factory=dict)
    """What each feature of the n-best list counts for in its score (MERT)."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time per stage."""
