"""Settings: one frozen dataclass per stage, the paper's values as defaults, TOML in and out.

Each field cites the section it comes from. "Open" marks what the paper leaves unsaid: the value
is then ours, and `docs/paper_map.md` says why. A TOML file names only what it changes:

    [words]
    backbone = "dinov2-vits14"

    [calibration]
    threshold = 0.6

Unknown tables and keys are refused by name, so that a typing error never passes silently.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sightwords.errors import ConfigError
from sightwords.settings import load_toml


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Section 3: which words are detected and generated."""

    size: int = 1000
    """The most common words of the training captions (section 3: 1000, covering 92 %)."""
    captions_per_image: int = 5
    """A word is present if any of the first five captions has it (the authors' code)."""

    def __post_init__(self) -> None:
        _check(self, "size", self.size >= 1, "at least 1")
        _check(self, "captions_per_image", self.captions_per_image >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class ImagesConfig:
    """Section 3.1: from a photograph to the network's input."""

    resize: Literal["paper", "square"] = "paper"
    """`paper`: longer side to `size_px`, top left, zero padding; `square`: both sides, squashed."""
    size_px: int = 565
    """Section 3.1: 565, which gives 12 x 12 regions at stride 32."""
    max_pixels: int = 178_956_970
    """Larger images are refused before they are decoded (Pillow's own limit)."""

    def __post_init__(self) -> None:
        _check(self, "size_px", self.size_px >= 32, "at least 32")
        _check(self, "max_pixels", self.max_pixels >= 1, "at least 1")


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
    """Boxes an image, best first, beside the whole image; the paper's number is open."""
    proposal_cells: int = 3
    """Features of a box are pooled in so many rows and columns; open."""
    frozen: bool = False
    """Whether the backbone keeps its weights (the early system: not fine-tuned)."""
    labels: Literal["any", "fraction"] = "any"
    """What an image teaches: whether any caption has the word (section 3.1), or how many do."""
    epochs: int = 3
    """Section 3.1: 3."""
    batch_size: int = 1
    """Section 3.1: one image in each batch."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """Section 3.1: stochastic gradient descent."""
    schedule: Literal["step", "cosine"] = "step"
    """The authors' solver: a tenth after each third of the training; or a half cosine to zero."""
    warmup: float = 0.0
    """Share of the steps over which the rate rises from zero; the authors use none."""
    learning_rate: float = 1.5625e-5
    """The authors' solver."""
    head_rate: float = 10.0
    """The authors' solver: the new layer learns this many times faster."""
    layer_decay: float = 1.0
    """Rate of a layer over that of the next; below 1, early layers change less."""
    momentum: float = 0.99
    """The authors' solver (SGD alone)."""
    weight_decay: float = 5e-4
    """The authors' solver."""
    gradient_clip: float = 0.0
    """Largest gradient norm; 0 clips nothing, as the authors do."""
    dropout: float = 0.5
    """On fc6 and fc7 in the networks cited by section 3.1; before the head in others."""
    drop_path: float = 0.0
    """Chance that a residual branch of the last block is left out (ViT alone)."""
    initial_bias: float = -6.58
    """Of fc8: p = .00139 a region, .181 an image after the noisy-OR of 144 regions."""
    smallest_crop: float = 1.0
    """Training crops take from this share of the image's area up to all of it; 1 crops nothing."""
    flip: bool = False
    """Whether training images are mirrored half of the time; the authors do not."""
    jitter: float = 0.0
    """Training images change brightness and contrast by up to this share."""
    teacher_weight: float = 0.0
    """Share of the targets that teachers' probabilities take, where teachers are given."""
    weight_average: float = 0.0
    """Decay of the running average of the weights that is kept; 0 keeps the last weights."""
    seed: int = 0
    """Order of the images, crops, dropout and new layers."""

    def __post_init__(self) -> None:
        for name in ("grid", "epochs", "batch_size", "proposals", "proposal_cells"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("learning_rate", "head_rate"):
            _check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("weight_decay", "gradient_clip", "jitter"):
            _check(self, name, getattr(self, name) >= 0, "at least 0")
        for name in ("warmup", "momentum", "dropout", "drop_path", "weight_average"):
            _check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        _check(self, "teacher_weight", 0 <= self.teacher_weight <= 1, "from 0 to 1")
        for name in ("layer_decay", "smallest_crop"):
            _check(self, name, 0 < getattr(self, name) <= 1, "above 0, to 1")


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig:
    """Section 3.2: from probabilities to words with a precision."""

    threshold: float = 0.5
    """The global precision threshold tau (the authors' code: .5)."""
    minimum_content_words: int = 3
    """The authors' code adds top-ranked words until three non-functional ones are out."""
    held_out_images: int = 4000
    """Section 3.2: "a held-out subset of the training data"; the number is open."""

    def __post_init__(self) -> None:
        _check(self, "threshold", 0 <= self.threshold <= 1, "from 0 to 1")
        _check(self, "minimum_content_words", self.minimum_content_words >= 0, "at least 0")
        _check(self, "held_out_images", self.held_out_images >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    """Section 4.1: the maximum entropy language model and its training."""

    ngram_order: int = 4
    """Section 4.1: N-gram features up to 4-gram."""
    noise_samples: int = 15
    """Section 4.1: 15 contrastive samples."""
    noise_power: float = 1.0
    """Noise is drawn by frequency to this power; 1 in the paper, lower favours rare words."""
    attribute_samples: int = 0
    """How many of them are drawn from the attribute set instead of by frequency; 0 in the paper."""
    score_feature: bool = True
    """Table 1: the log-probability of the predicted word; off in the paper's row "Baseline"."""
    distant_bigrams: bool = False
    """Section 4.1: tried by the paper, better perplexity, not better captions."""
    log_bilinear: bool = False
    """Section 4.1: tried by the paper, better perplexity, not better captions."""
    table_bits: int = 24
    """Open: the hash table holds 2^table_bits weights."""
    bilinear_units: int = 32
    """Open: length of the word vectors of `log_bilinear`."""
    epochs: int = 5
    """Open."""
    learning_rate: float = 0.2
    """Open: AdaGrad's, falling in a straight line."""
    first_square: float = 1.0
    """Open: what AdaGrad's sums of squared gradients start from."""
    attribute_threshold: float = 0.15
    """Open: detected words of at least this probability make up the attribute set."""
    text_weight: float = 1.0
    """Open: what a sentence without detected words counts for; 0 leaves such text out."""
    seed: int = 0

    def __post_init__(self) -> None:
        _check(
            self, "attribute_samples", 0 <= self.attribute_samples <= self.noise_samples,
            f"0 to noise_samples, {self.noise_samples}",
        )  # fmt: skip
        for name in ("learning_rate", "first_square", "bilinear_units"):
            _check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("attribute_threshold", "noise_power"):
            _check(self, name, 0 <= getattr(self, name) <= 1, "from 0 to 1")
        _check(self, "text_weight", self.text_weight >= 0, "at least 0")
        _check(self, "ngram_order", 1 <= self.ngram_order <= 8, "from 1 to 8")
        _check(self, "noise_samples", self.noise_samples >= 1, "at least 1")
        _check(self, "table_bits", 10 <= self.table_bits <= 32, "from 10 to 32")
        _check(self, "epochs", self.epochs >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Section 4.2: beam search and the M-best list."""

    beam_width: int = 200
    """The k paths kept at each length; open."""
    frequent_words: int = 100
    """Section 4.2: the 100 most frequent words are always tried."""
    maximum_length: int = 18
    """The L of section 4.2, in words; open."""
    m_best: int = 500
    """The M of section 4.2; open."""
    coverage: int = 10
    """The T of section 4.2 to start from, lowered until M sentences are found; open."""

    def __post_init__(self) -> None:
        for name in ("beam_width", "maximum_length", "m_best"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("frequent_words", "coverage"):
            _check(self, name, getattr(self, name) >= 0, "at least 0")


@dataclass(frozen=True, kw_only=True)
class DmsmConfig:
    """Section 5.1: the deep multimodal similarity model."""

    gamma: float = 10.0
    """Section 5.1: the smoothing factor of the posterior, 10."""
    learned_gamma: bool = False
    """Whether gamma is trained with the rest, from that value; not in the paper."""
    objective: Literal["posterior", "both_ways", "nce"] = "posterior"
    """`posterior`: Eq. 6, captions for an image; `both_ways`: images for a caption too; `nce`:
    noise-contrastive estimation, which section 5.1 suggests."""
    negatives: int = 50
    """Section 5.1: N = 50 captions of other images; 0 takes all those of the batch."""
    list_sentences: int = 0
    """So many sentences of the image's own M-best list a step; none in the paper."""
    list_objective: Literal["poor", "worth"] = "worth"
    """`poor`: those worth less than their list's mean are more non-matching captions; `worth`:
    the posterior over them is to be a softmax of what they are worth, in a loss of its own."""
    list_temperature: float = 0.25
    """Of that softmax, in CIDEr (1 is a good caption's)."""
    image_layers: int = 3
    """Section 5.1: three fully connected tanh layers."""
    token_units: int = 0
    """Each image token is first brought to this length by one matrix for all; 0 leaves it."""
    hidden_units: int = 300
    """Open; the DSSM papers use 300."""
    semantic_units: int = 128
    """Open; the DSSM papers use 128."""
    word_window: int = 3
    """Shen et al. 2014: convolution over three words."""
    word_units: int = 0
    """Trigram counts are brought to this length before the convolution; 0: straight into it."""
    own_words: int = 0
    """So many of the commonest words have a vector of their own beside their trigrams'."""
    epochs: int = 10
    """Open: passes over the captions."""
    batch_size: int = 1024
    """Open; Huang et al. 2013 use 1024."""
    learning_rate: float = 1e-3
    """Open: AdamW's, falling along a half cosine."""
    warmup: float = 0.05
    """Open: share of the steps over which the rate rises from zero."""
    weight_decay: float = 0.0
    """Open: of matrices; vectors do not decay."""
    dropout: float = 0.0
    """Of image features after the token layer, and of the pooled text, in training."""
    token_dropout: float = 0.0
    """Chance that an image token is hidden in training."""
    word_dropout: float = 0.0
    """Chance that a word is hidden in training."""
    feature_noise: float = 0.0
    """Standard deviation of noise on standardised image features in training: the network that
    made those of training images has learned these images and is surer of them."""
    weight_average: float = 0.0
    """Decay of the running average of the weights that is kept; 0 keeps the last weights."""
    seed: int = 0
    """Order of the captions, negatives, dropout and first weights."""

    def __post_init__(self) -> None:
        for name in ("gamma", "learning_rate", "list_temperature"):
            _check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("image_layers", "hidden_units", "semantic_units", "epochs"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("negatives", "list_sentences", "token_units", "word_units", "own_words"):
            _check(self, name, getattr(self, name) >= 0, "at least 0")
        for name in ("dropout", "token_dropout", "word_dropout", "weight_average", "warmup"):
            _check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        for name in ("weight_decay", "feature_noise"):
            _check(self, name, getattr(self, name) >= 0, "at least 0")
        _check(self, "batch_size", self.batch_size >= 2, "at least 2")
        _check(self, "word_window", self.word_window in (1, 3, 5), "1, 3 or 5")


@dataclass(frozen=True, kw_only=True)
class GroundedConfig:
    """Beyond the paper: a second language model that sees the image and scores finished sentences.

    A transformer decoder (Vaswani et al. 2017) over image tokens and detected words, trained on
    captions by cross entropy and then on M-best lists by expected CIDEr (Shen et al. 2016).
    """

    enabled: bool = False
    """Off in the paper."""
    units: int = 256
    """Length of the vectors between layers."""
    layers: int = 3
    """Of the decoder."""
    heads: int = 8
    """Of each attention; they divide the units."""
    feed_forward: int = 1024
    """Units inside a layer's two-step transformation."""
    memory_layers: int = 1
    """Layers in which image tokens and words look at each other before any sentence is read."""
    words: int = 24
    """At most so many detected words are shown, the likeliest."""
    word_threshold: float = 0.15
    """Words of at least this probability, as for the first language model."""
    maximum_length: int = 20
    """Words beyond this place share its position; training captions are cut here."""
    value_head: bool = True
    """Whether the whole sentence gets a score of its own beside its words' probabilities."""
    dropout: float = 0.1
    """On the output of every sublayer, in training."""
    word_dropout: float = 0.1
    """Chance that a detected word is hidden in training."""
    image_dropout: float = 0.1
    """Chance that all image tokens are hidden: the network that made those of training images
    was trained on them and is surer there than it will be."""
    token_dropout: float = 0.1
    """Chance that one image token is hidden."""
    feature_noise: float = 0.1
    """Standard deviation of noise on the normalised image tokens."""
    label_smoothing: float = 0.1
    """Share of each target spread over all words, on captions."""
    epochs: int = 15
    """On captions."""
    batch_size: int = 128
    """Images a step, up to five captions each."""
    learning_rate: float = 5e-4
    """AdamW's on captions, falling along a half cosine."""
    warmup: float = 0.04
    """Share of the steps over which a rate rises from zero."""
    weight_decay: float = 0.02
    """Of matrices; vectors do not decay."""
    weight_average: float = 0.999
    """Decay of the running average of the weights that is kept."""
    text_share: float = 0.5
    """Share of the captions without images that each epoch sees."""
    objective: Literal["risk", "listwise"] = "risk"
    """`risk`: expected CIDEr; `listwise`: cross entropy with a softmax of CIDEr."""
    risk_epochs: int = 6
    """On M-best lists."""
    risk_batch_size: int = 64
    """Images a step, `hypotheses` sentences each."""
    hypotheses: int = 24
    """Sentences of a list that a step sees."""
    risk_rate: float = 1e-4
    """AdamW's on lists, falling likewise."""
    sharpness: float = 1.0
    """What sentence scores are multiplied by before the softmax over the list."""
    length_power: float = 0.0
    """Log-probabilities are divided by (words + 1) to this power: 0 their sum, 1 their mean."""
    temperature: float = 0.25
    """Of the softmax of CIDEr (1 is a good caption's) in `listwise`."""
    caption_share: float = 0.15
    """What the cross entropy on captions counts for beside it."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("units", "layers", "heads", "feed_forward", "words", "maximum_length",
                     "epochs", "batch_size", "risk_batch_size"):  # fmt: skip
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        _check(self, "units", self.units % self.heads == 0, f"a multiple of heads, {self.heads}")
        _check(self, "hypotheses", self.hypotheses >= 2, "at least 2")
        for name in ("memory_layers", "risk_epochs", "feature_noise", "weight_decay",
                     "length_power", "caption_share"):  # fmt: skip
            _check(self, name, getattr(self, name) >= 0, "at least 0")
        for name in ("learning_rate", "risk_rate", "sharpness", "temperature"):
            _check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("dropout", "word_dropout", "image_dropout", "token_dropout",
                     "label_smoothing", "warmup", "weight_average"):  # fmt: skip
            _check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        for name in ("word_threshold", "text_share"):
            _check(self, name, 0 <= getattr(self, name) <= 1, "from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class MertConfig:
    """Section 5: minimum error rate training of the re-ranking weights."""

    objective: str = "bleu"
    """Section 5: BLEU on the validation lists; also `cider`, `meteor`, or a weighted sum of them,
    such as `cider+0.5bleu`."""
    mentioned_objects: int = 10
    """Table 2: one binary feature for each number of mentioned objects from 0 to 10."""
    dmsm: bool = True
    """Table 2, feature 6; off in the rows without DMSM."""
    probabilities: bool = False
    """Beyond the paper: log-probabilities of mentioned and of unmentioned detected words."""
    coverage: bool = False
    """Beyond the paper: share of precision mentioned, confident words unused, doubtful words."""
    consensus: bool = False
    """Beyond the paper: agreement with the other candidates (minimum Bayes risk)."""
    grounded: bool = False
    """Beyond the paper: a second stage with the score of a language model that sees the image."""
    shortlist: int = 64
    """Candidates that reach the second stage."""
    restarts: int = 20
    """Open: random starting points of the line search."""
    random_directions: int = 8
    """Open: searched in each sweep, after every coordinate."""
    bags: int = 0
    """Bootstrap samples whose weights are averaged; 0 takes those of all images."""
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self, "mentioned_objects", 0 <= self.mentioned_objects <= 10, "from 0 to 10")
        for name in ("restarts", "shortlist"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("random_directions", "bags"):
            _check(self, name, getattr(self, name) >= 0, "at least 0")
        terms = self.objective.replace(" ", "").split("+")
        known = all(t.lstrip("0123456789.") in ("bleu", "cider", "meteor") for t in terms)
        _check(
            self, "objective", known,
            "one of bleu, cider, meteor, or a sum of them such as 'cider+0.5bleu'",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole system, in stage order."""

    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    images: ImagesConfig = field(default_factory=ImagesConfig)
    words: WordsConfig = field(default_factory=WordsConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    language: LanguageConfig = field(default_factory=LanguageConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    dmsm: DmsmConfig = field(default_factory=DmsmConfig)
    grounded: GroundedConfig = field(default_factory=GroundedConfig)
    mert: MertConfig = field(default_factory=MertConfig)


def load_config(path: str | os.PathLike[str]) -> Config:
    """Read a TOML file; what it does not name keeps the paper's value."""
    return load_toml(Config, path)


def _check(config: object, name: str, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {getattr(config, name)!r}; expected {expected}")


PRESETS: Mapping[str, Config] = {
    "paper": Config(),
    "default": Config(
        images=ImagesConfig(resize="square", size_px=224),
        words=WordsConfig(
            backbone="dinov2-vits14",
            epochs=8,
            batch_size=128,
            optimizer="adamw",
            schedule="cosine",
            warmup=0.1,
            learning_rate=1.5e-4,
            head_rate=20.0,
            layer_decay=0.8,
            weight_decay=0.02,
            gradient_clip=1.0,
            dropout=0.3,
            smallest_crop=0.5,
            flip=True,
            weight_average=0.999,
        ),
        language=LanguageConfig(attribute_samples=3, learning_rate=0.5, text_weight=0.3),
        generation=GenerationConfig(coverage=2),
        dmsm=DmsmConfig(
            gamma=20.0,
            learned_gamma=True,
            objective="both_ways",
            negatives=0,
            token_units=128,
            hidden_units=512,
            semantic_units=512,
            word_units=128,
            own_words=5000,
            epochs=15,
            learning_rate=1e-3,
            weight_decay=0.02,
            dropout=0.2,
            word_dropout=0.1,
            token_dropout=0.1,
            feature_noise=0.3,
            weight_average=0.999,
        ),
        mert=MertConfig(
            objective="cider",
            probabilities=True,
            coverage=True,
            consensus=True,
            grounded=True,
            restarts=8,
            bags=8,
        ),
        grounded=GroundedConfig(enabled=True),
    ),
}
"""`paper`: every value as published. `default`: ours, the best of those in `docs/training.md`."""
