"""Settings of section 3: vocabulary, images, detector, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sightwords.config.check import check


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Section 3: which words are detected and generated."""

    size: int = 1000
    """The most common words of the training captions (section 3: 1000, covering 92 %)."""
    captions_per_image: int = 5
    """A word is present if any of the first five captions has it (the authors' code)."""

    def __post_init__(self) -> None:
        check(self, "size", self.size >= 1, "at least 1")
        check(self, "captions_per_image", self.captions_per_image >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class ImagesConfig:
    """Section 3.1: from a photo to the network's input."""

    size_px: int = 565
    """Section 3.1: 565, which gives 12 x 12 regions at stride 32. The backbone decides whether this
    is the longer side (AlexNet, VGG16) or the side of a square."""

    def __post_init__(self) -> None:
        check(self, "size_px", self.size_px >= 32, "at least 32")


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """Section 3.1: the word detector and its training."""

    backbone: str = "vgg16"
    """Section 3.1: AlexNet or VGG; `dinov2-vits14` and `efficientnet-lite2` beyond the paper."""
    pooling: Literal["noisy_or", "whole_image"] = "noisy_or"
    """Eq. 1, or the Classification baseline of section 6.2."""
    grid: int = 12
    """Section 3.1: a 12 x 12 response map."""
    regions: Literal["grid", "proposals"] = "grid"
    """Section 3.1: dense scanning; or the boxes of the early system (section 6.3)."""
    proposals: int = 100
    """Boxes per image, best first, and the whole image; the paper does not state its number."""
    proposal_cells: int = 3
    """Features of a box are pooled into this many rows and columns (not in the paper)."""
    frozen: bool = False
    """Whether the backbone keeps its weights (the early system: not fine-tuned)."""
    labels: Literal["any", "fraction"] = "any"
    """Target of a word: whether any caption has it (section 3.1), or the share of captions."""
    epochs: int = 3
    """Section 3.1: 3."""
    batch_size: int = 1
    """Section 3.1: one image in each batch."""
    accumulate: int = 1
    """Each process computes its share of a batch in this many parts, to save memory."""
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """Precision of the network's arithmetic; `auto`: bfloat16 on a GPU, float32 elsewhere."""
    lanes: int = 8
    """Training from shards reads this many streams of them in parallel; a multiple of the number
    of processes; `batch_size` is a multiple of it."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """Section 3.1: stochastic gradient descent."""
    schedule: Literal["step", "cosine"] = "step"
    """The authors' solver: a tenth of the rate after each third of the training; or a half cosine
    to zero."""
    warmup: float = 0.0
    """Share of the steps over which the rate rises from zero; the authors use none."""
    learning_rate: float = 1.5625e-5
    """The authors' solver."""
    head_rate: float = 10.0
    """The authors' solver: the rate of the new layer is this many times higher."""
    layer_decay: float = 1.0
    """Rate of a layer divided by the rate of the next; below 1, early layers change less."""
    momentum: float = 0.99
    """The authors' solver (only SGD)."""
    weight_decay: float = 5e-4
    """The authors' solver."""
    gradient_clip: float = 0.0
    """Largest gradient norm; 0: no limit, as in the authors' solver."""
    dropout: float = 0.5
    """On fc6 and fc7 in the networks cited by section 3.1; before the head in others."""
    drop_path: float = 0.0
    """Chance that a residual branch of the last block is left out (only ViT)."""
    initial_bias: float = -6.58
    """Bias of fc8: p = .00139 per region, .181 per image after the noisy-OR of 144 regions."""
    smallest_crop: float = 1.0
    """Training crops cover between this share of the image's area and all of it; 1: no crops."""
    flip: bool = False
    """Whether half of the training images are mirrored; not by the authors."""
    jitter: float = 0.0
    """Training images change brightness and contrast by up to this share."""
    teacher_weight: float = 0.0
    """Share of the targets that teachers' probabilities take, if there are teachers."""
    weight_average: float = 0.0
    """Decay of the running average of the weights that is kept; 0 keeps the last weights."""
    seed: int = 0
    """Seed of the order of images, crops, dropout and new layers."""

    def __post_init__(self) -> None:
        for name in ("grid", "epochs", "batch_size", "accumulate", "lanes", "proposals",
                     "proposal_cells"):  # fmt: skip
            check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("learning_rate", "head_rate"):
            check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("weight_decay", "gradient_clip", "jitter"):
            check(self, name, getattr(self, name) >= 0, "at least 0")
        for name in ("warmup", "momentum", "dropout", "drop_path", "weight_average"):
            check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        check(self, "teacher_weight", 0 <= self.teacher_weight <= 1, "from 0 to 1")
        for name in ("layer_decay", "smallest_crop"):
            check(self, name, 0 < getattr(self, name) <= 1, "above 0, to 1")


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig:
    """Section 3.2: from probabilities to words with a precision."""

    threshold: float = 0.5
    """The global precision threshold tau (the authors' code: .5)."""
    minimum_content_words: int = 3
    """The authors' code adds top-ranked words until there are three content words."""
    held_out_images: int = 4000
    """Section 3.2: "a held-out subset of the training data"; the paper does not state how many."""

    def __post_init__(self) -> None:
        check(self, "threshold", 0 <= self.threshold <= 1, "from 0 to 1")
        check(self, "minimum_content_words", self.minimum_content_words >= 0, "at least 0")
        check(self, "held_out_images", self.held_out_images >= 1, "at least 1")
