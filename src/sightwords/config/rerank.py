"""Settings of section 5: similarity, the grounded model, MERT."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sightwords.config.check import check

_TERM = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)?(bleu|cider|meteor)")


@dataclass(frozen=True, kw_only=True)
class DmsmConfig:
    """Section 5.1: the deep multimodal similarity model."""

    gamma: float = 10.0
    """Section 5.1: the smoothing factor of the posterior, 10."""
    learned_gamma: bool = False
    """Whether gamma is trained too, starting from that value; not in the paper."""
    objective: Literal["posterior", "both_ways", "nce"] = "posterior"
    """`posterior`: Eq. 6, captions for an image; `both_ways`: images for a caption too; `nce`:
    noise-contrastive estimation, which section 5.1 suggests."""
    negatives: int = 50
    """Section 5.1: N = 50 captions of other images; 0 takes all those of the batch."""
    list_sentences: int = 0
    """Sentences of the image's own M-best list in each step; none in the paper."""
    list_objective: Literal["poor", "worth"] = "worth"
    """What these sentences teach. `poor`: sentences with less CIDEr than the mean of their list are
    further non-matching captions; `worth`: in a loss of its own, the posterior over them learns to
    equal a softmax of their CIDEr."""
    list_temperature: float = 0.25
    """Temperature of that softmax, in CIDEr (a good caption has 1)."""
    image_layers: int = 3
    """Section 5.1: three fully connected tanh layers."""
    token_units: int = 0
    """One matrix first projects each image token to this length; 0: no projection."""
    hidden_units: int = 300
    """Open; the DSSM papers use 300."""
    semantic_units: int = 128
    """Open; the DSSM papers use 128."""
    word_window: int = 3
    """Shen et al. 2014: convolution over three words."""
    word_units: int = 0
    """Trigram counts are projected to this length before the convolution; 0: no projection."""
    own_words: int = 0
    """This many of the most common words have a vector of their own, beside their trigrams."""
    epochs: int = 10
    """Open: passes over the captions."""
    batch_size: int = 1024
    """Open; Huang et al. 2013 use 1024."""
    learning_rate: float = 1e-3
    """Open: rate of AdamW, which falls along a half cosine."""
    warmup: float = 0.05
    """Open: share of the steps over which the rate rises from zero."""
    weight_decay: float = 0.0
    """Open: for matrices; vectors do not decay."""
    dropout: float = 0.0
    """Dropout of image features after the token layer, and of the pooled text."""
    token_dropout: float = 0.0
    """Chance that an image token is hidden in training."""
    word_dropout: float = 0.0
    """Chance that a word is hidden in training."""
    feature_noise: float = 0.0
    """Standard deviation of noise on standardised image features in training: the detector was
    trained on these images, so their features are too good."""
    weight_average: float = 0.0
    """Decay of the running average of the weights that is kept; 0 keeps the last weights."""
    seed: int = 0
    """Order of the captions, negatives, dropout and first weights."""

    def __post_init__(self) -> None:
        for name in ("gamma", "learning_rate", "list_temperature"):
            check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("image_layers", "hidden_units", "semantic_units", "epochs"):
            check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("negatives", "list_sentences", "token_units", "word_units", "own_words"):
            check(self, name, getattr(self, name) >= 0, "at least 0")
        for name in ("dropout", "token_dropout", "word_dropout", "weight_average", "warmup"):
            check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        for name in ("weight_decay", "feature_noise"):
            check(self, name, getattr(self, name) >= 0, "at least 0")
        check(self, "batch_size", self.batch_size >= 2, "at least 2")
        check(self, "word_window", self.word_window in (1, 3, 5), "1, 3 or 5")


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
    """Layers of the decoder."""
    heads: int = 8
    """Heads of each attention; `units` must be a multiple of them."""
    feed_forward: int = 1024
    """Units of the feed-forward part of a layer."""
    memory_layers: int = 1
    """Layers in which image tokens and words attend to each other before a sentence is read."""
    words: int = 24
    """Largest number of detected words that it sees, the most probable ones."""
    word_threshold: float = 0.15
    """Words of at least this probability, as for the first language model."""
    maximum_length: int = 20
    """Words after this position share it; training captions are cut here."""
    value_head: bool = True
    """Whether the whole sentence also gets a score, in addition to its words' probabilities."""
    dropout: float = 0.1
    """Dropout on the output of every sublayer."""
    word_dropout: float = 0.1
    """Chance that a detected word is hidden in training."""
    image_dropout: float = 0.1
    """Chance that all image tokens are hidden: the detector was trained on these images, so their
    tokens are too good."""
    token_dropout: float = 0.1
    """Chance that one image token is hidden."""
    feature_noise: float = 0.1
    """Standard deviation of noise on the normalised image tokens."""
    label_smoothing: float = 0.1
    """Share of each target spread over all words, on captions."""
    epochs: int = 15
    """Passes over the captions."""
    batch_size: int = 128
    """Images per step, with up to five captions each."""
    learning_rate: float = 5e-4
    """Rate of AdamW on captions, which falls along a half cosine."""
    warmup: float = 0.04
    """Share of the steps over which a rate rises from zero."""
    weight_decay: float = 0.02
    """For matrices; vectors do not decay."""
    weight_average: float = 0.999
    """Decay of the running average of the weights that is kept."""
    text_share: float = 0.5
    """Share of the captions without images that each epoch sees."""
    objective: Literal["risk", "listwise"] = "risk"
    """`risk`: expected CIDEr; `listwise`: cross entropy with a softmax of CIDEr."""
    risk_epochs: int = 6
    """Passes over the M-best lists."""
    list_images: int = 20_000
    """M-best lists of at most this many training images; 0: all. They take the most time."""
    list_captions: int = 1
    """Only of images with at least this many captions: one caption says little about a sentence."""
    list_sentences: int = 48
    """Of each list, the sentences that are most probable per word."""
    list_coverage: int = 4
    """`coverage` of [generation] for these lists."""
    risk_batch_size: int = 64
    """Images per step, with `hypotheses` sentences each."""
    hypotheses: int = 24
    """Sentences of a list in each step."""
    risk_rate: float = 1e-4
    """Rate of AdamW on lists, which falls in the same way."""
    sharpness: float = 1.0
    """Factor of sentence scores before the softmax over the list."""
    length_power: float = 0.0
    """Log-probabilities are divided by (words + 1) to this power: 0 their sum, 1 their mean."""
    temperature: float = 0.25
    """Temperature of the softmax of CIDEr in `listwise` (a good caption has 1)."""
    caption_share: float = 0.15
    """Weight of the cross entropy on captions beside it."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("units", "layers", "heads", "feed_forward", "words", "maximum_length",
                     "epochs", "batch_size", "risk_batch_size"):  # fmt: skip
            check(self, name, getattr(self, name) >= 1, "at least 1")
        check(self, "units", self.units % self.heads == 0, f"a multiple of heads, {self.heads}")
        for name in ("hypotheses", "list_sentences"):
            check(self, name, getattr(self, name) >= 2, "at least 2")
        check(self, "list_captions", self.list_captions >= 1, "at least 1")
        for name in ("memory_layers", "risk_epochs", "feature_noise", "weight_decay",
                     "length_power", "caption_share", "list_images", "list_coverage"):  # fmt: skip
            check(self, name, getattr(self, name) >= 0, "at least 0")
        for name in ("learning_rate", "risk_rate", "sharpness", "temperature"):
            check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("dropout", "word_dropout", "image_dropout", "token_dropout",
                     "label_smoothing", "warmup", "weight_average"):  # fmt: skip
            check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        for name in ("word_threshold", "text_share"):
            check(self, name, 0 <= getattr(self, name) <= 1, "from 0 to 1")


def objective_weights(text: str) -> dict[str, float] | None:
    """The weight of each metric in `MertConfig.objective`; None if the text is not an objective.

    >>> objective_weights("cider+0.5bleu"), objective_weights("bleu+bleu")
    ({'cider': 1.0, 'bleu': 0.5}, None)
    """
    weights: dict[str, float] = {}
    for term in text.replace(" ", "").split("+"):
        match = _TERM.fullmatch(term)
        if match is None or match[2] in weights:
            return None
        weights[match[2]] = float(match[1] or 1)
    return weights if all(weights.values()) else None


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
    """Open: directions searched in each sweep, after every coordinate."""
    bags: int = 0
    """Bootstrap samples whose weights are averaged; 0: one run over all images."""
    halves_from: int = 400
    """With this many images or more, one half (by hash) tunes the weights and the other fits the
    confidence. With fewer, all images serve both."""
    seed: int = 0

    def __post_init__(self) -> None:
        check(self, "mentioned_objects", 0 <= self.mentioned_objects <= 10, "from 0 to 10")
        for name in ("restarts", "shortlist"):
            check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("random_directions", "bags", "halves_from"):
            check(self, name, getattr(self, name) >= 0, "at least 0")
        check(
            self, "objective", objective_weights(self.objective) is not None,
            "one of bleu, cider, meteor, or a sum of them such as 'cider+0.5bleu'",
        )  # fmt: skip
