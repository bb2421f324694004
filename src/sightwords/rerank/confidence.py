"""Section 5, beyond the paper: how probable it is that the chosen caption is good.

    Candidates, Ranking -> confidence, a probability

A logistic regression on what the re-ranker saw (`confidence_features`), then Platt's scaling; both
fitted by `train.rerank.confidence` on captions with references. A word detector may be certain that
a blank wall is a "blue sky"; so one more feature measures how far the image is from photos, in the
direction of blank and noise images (`Familiar`). "Good" is a CIDEr-D of at least a stated
threshold against the image's own captions; the threshold is in `confidence.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError
from sightwords.files import write_text
from sightwords.json_reader import Reader
from sightwords.rerank.features import Candidates
from sightwords.rerank.linear import Ranking
from sightwords.sealed import Sealed, folder_of
from sightwords.types import FloatArray

FORMAT = 1
CONFIDENCE_NAME = "confidence.json"
PASSED_ON = (
    "log_prob_per_word", "length", "dmsm", "grounded", "word_log_prob", "absent_log_prob",
    "covered_precision", "doubtful_log_prob", "consensus",
)  # fmt: skip
"""Features of the chosen caption that are taken as they are, where the re-ranker has them."""
SHARPNESS = 4.0
"""Scores deviate by 1 within a list; their softmax is taken after multiplying by this."""
STRANGENESS = "strangeness"
LEAST_SCALE = 1e-12
SHRINK = 0.1
"""Added to variances, as a share of their mean: there are few blank and noise images."""
USUAL = 0.98
"""The share of the photos of the fit whose strangeness is 0."""
LIMIT = 5.0
"""Standardised features are clipped here, so that an odd image cannot dominate the sum."""


def confidence_features(candidates: Candidates, ranking: Ranking) -> dict[str, float]:
    """Features that tell a good choice from a bad one.

    - margin, entropy: how clearly the first candidate leads, and how many share the lead
    - mentioned_prob, mentioned_precision, least_precision: of the detected words in the caption
    - top_prob, top_probs, expected_words: how much the detector sees in the image at all
    """
    chosen = int(ranking.order[0])
    tokens = candidates.tokens[candidates.starts[chosen] : candidates.starts[chosen + 1]]
    mine = candidates.offered & np.isin(candidates.words, tokens)
    probs, precisions = candidates.probs[mine], candidates.precisions[mine]
    all_probs = np.sort(candidates.probs[candidates.offered])[::-1]
    shares = np.exp(SHARPNESS * (ranking.scores - ranking.scores[0]))
    shares /= shares.sum()
    found = {
        "margin": float(ranking.scores[0] - ranking.scores[1:2].mean())
        if len(ranking.scores) > 1
        else 0.0,
        "entropy": float(-(shares * np.log(np.maximum(shares, 1e-12))).sum()),
        "mentioned_prob": float(probs.mean()) if len(probs) else 0.0,
        "mentioned_precision": float(precisions.mean()) if len(precisions) else 0.0,
        "least_precision": float(precisions.min()) if len(precisions) else 0.0,
        "top_prob": float(all_probs[:1].sum()),
        "top_probs": float(all_probs[:3].sum() / 3),
        "expected_words": float(all_probs.sum()),
    }
    of_chosen = dict(zip(ranking.names, ranking.features[0].tolist(), strict=True))
    return found | {name: of_chosen[name] for name in PASSED_ON if name in of_chosen}


@dataclass(frozen=True, eq=False)
class Familiar:
    """Tells photos from blank and noise images by the features of the detector's network.

    Fisher's linear discriminant on the D numbers that describe the image as a whole.
    """

    direction: npt.NDArray[np.float64]
    """(D,) in which blank and noise images lie; photos have a deviation of 1 along it."""
    limit: float
    """98 % of the photos are below it."""

    @classmethod
    def of(cls, photos: npt.NDArray[Any], blank: npt.NDArray[Any]) -> Familiar:
        """Fit to the whole-image tokens (N, D) of photos and (B, D) of blank and noise images."""
        seen, empty = (np.asarray(x, dtype=np.float64) for x in (photos, blank))
        within = np.cov(seen, rowvar=False) + np.cov(empty, rowvar=False)
        within += SHRINK * np.trace(within) / len(within) * np.eye(len(within))
        direction = np.linalg.solve(within, empty.mean(axis=0) - seen.mean(axis=0))
        direction /= max(float((seen @ direction).std()), 1e-12)
        return cls(direction, float(np.quantile(seen @ direction, USUAL)))

    def strangeness(self, tokens: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """(N, D) -> (N,) how far beyond the limit: 0 for nearly all photos."""
        return np.asarray(np.maximum(tokens @ self.direction - self.limit, 0))


@dataclass(frozen=True)
class Confidence:
    """A fitted probability; call it with the features of one choice."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    slope: float
    """Platt's scaling of the regression's log-odds."""
    shift: float
    threshold: float
    """A caption is good where its CIDEr-D reaches this."""
    good_share: float
    """Of the captions it was fitted on."""
    reliability: Mapping[str, float] = field(default_factory=dict)
    """Cross-validated, or on other images: `ece`, `images`, `good`, `auc`."""
    familiar: Familiar | None = field(default=None, compare=False)
    """Present if the fit had image features and blank and noise images."""

    def __call__(self, features: Mapping[str, float], image: FloatArray | None = None) -> float:
        """The probability that the caption is good.

        `image` (D,) is the token by which the detector's network describes the whole image.
        """
        if self.familiar is not None and image is not None:
            if image.shape != self.familiar.direction.shape:
                raise BundleError(
                    f"{CONFIDENCE_NAME} knows image features of shape "
                    f"{self.familiar.direction.shape}, the detector gives {image.shape}; fit it "
                    "again for this detector: sightwords train mert"
                )
            strange = self.familiar.strangeness(image[None])
            features = {**features, STRANGENESS: float(strange[0])}
        missing = [name for name in self.names if name not in features]
        if missing:
            raise BundleError(
                f"{CONFIDENCE_NAME} asks for {missing[0]!r}, which the re-ranker does not compute; "
                "fit it again for these weights: sightwords train mert"
            )
        row = np.array([[features[name] for name in self.names]])
        return float(self.probabilities(row)[0])

    def probabilities(self, rows: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """(N, F) in the order of `names` -> (N,)."""
        given = standardised(np.asarray(rows, dtype=np.float64), self.means, self.scales)
        logit = (given @ np.array(self.weights) + self.bias) * self.slope + self.shift
        return np.asarray(1 / (1 + np.exp(-np.clip(logit, -30, 30))))

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write `confidence.json`."""
        path = Path(directory) / CONFIDENCE_NAME
        rows = zip(self.names, self.means, self.scales, self.weights, strict=True)
        document: dict[str, Any] = {
            "format": FORMAT,
            "good": f"CIDEr-D of at least {self.threshold:g} against the image's captions",
            "threshold": self.threshold,
            "good_share": self.good_share,
            "bias": self.bias,
            "slope": self.slope,
            "shift": self.shift,
            "features": {n: [float(m), float(s), float(w)] for n, m, s, w in rows},
            "reliability": dict(self.reliability),
        }
        if self.familiar is not None:
            document["familiar"] = {
                "direction": self.familiar.direction.tolist(),
                "limit": self.familiar.limit,
            }
        write_text(path, json.dumps(document, indent=None) + "\n")
        return path

    @classmethod
    def load(cls, directory: str | os.PathLike[str] | Sealed) -> Confidence:
        """Read `confidence.json`."""
        path = folder_of(directory) / CONFIDENCE_NAME
        if not path.is_file():
            raise BundleError(f"{path}: no such file; sightwords train mert makes it")
        reader = Reader.open(path, newest=FORMAT)
        features = reader.table("features")
        rows = [_three(features, name) for name in features.values]
        means, scales, weights = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(
            tuple(features.values),
            means,
            scales,
            weights,
            **{n: reader.take(n, float) for n in ("bias", "slope", "shift")},
            threshold=reader.take("threshold", float),
            good_share=reader.take("good_share", float),
            reliability=reader.take("reliability", dict),
            familiar=_familiar(reader.table("familiar")) if "familiar" in reader.values else None,
        )


def standardised(
    rows: npt.NDArray[np.float64], means: npt.ArrayLike, scales: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """(N, F) with mean 0 and deviation 1 on the images of the fit, cut off at LIMIT."""
    return np.asarray(np.clip((rows - np.asarray(means)) / np.asarray(scales), -LIMIT, LIMIT))


def _familiar(reader: Reader) -> Familiar:
    direction = reader.take("direction", list)
    if not direction or not all(type(v) in (int, float) and abs(v) < 1e9 for v in direction):
        raise BundleError(f"{reader.where}: direction is not a list of numbers; copy it again")
    return Familiar(np.array(direction, dtype=np.float64), reader.take("limit", float))


def _three(reader: Reader, name: str) -> tuple[float, float, float]:
    mean, scale, weight = reader.three(name)
    if scale < LEAST_SCALE:
        raise BundleError(
            f"{reader.where}: {name!r:.60} has a scale of {scale}; expected at least {LEAST_SCALE}"
        )
    return mean, scale, weight
