"""Settings of section 4: language model and beam."""

from __future__ import annotations

from dataclasses import dataclass

from sightwords.config.check import check


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    """Section 4.1: the maximum entropy language model and its training."""

    ngram_order: int = 4
    """Section 4.1: N-gram features up to 4-gram."""
    noise_samples: int = 15
    """Section 4.1: 15 contrastive samples."""
    noise_power: float = 1.0
    """Noise words are drawn by frequency to this power: 1 in the paper; less: more rare words."""
    attribute_samples: int = 0
    """Samples drawn from the attribute set instead of by frequency; 0 in the paper."""
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
    """Open: passes over the text."""
    learning_rate: float = 0.2
    """Open: rate of AdaGrad, which falls in a straight line."""
    first_square: float = 1.0
    """Open: start value of AdaGrad's sums of squared gradients."""
    attribute_threshold: float = 0.15
    """Open: detected words of at least this probability make up the attribute set."""
    text_weight: float = 1.0
    """Open: weight of a sentence without detected words; 0 leaves such text out."""
    seed: int = 0

    def __post_init__(self) -> None:
        check(
            self, "attribute_samples", 0 <= self.attribute_samples <= self.noise_samples,
            f"0 to noise_samples, {self.noise_samples}",
        )  # fmt: skip
        for name in ("learning_rate", "first_square", "bilinear_units"):
            check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("attribute_threshold", "noise_power"):
            check(self, name, 0 <= getattr(self, name) <= 1, "from 0 to 1")
        check(self, "text_weight", self.text_weight >= 0, "at least 0")
        check(self, "ngram_order", 1 <= self.ngram_order <= 8, "from 1 to 8")
        check(self, "noise_samples", self.noise_samples >= 1, "at least 1")
        check(self, "table_bits", 10 <= self.table_bits <= 32, "from 10 to 32")
        check(self, "epochs", self.epochs >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Section 4.2: beam search and the M-best list."""

    beam_width: int = 200
    """The k paths kept at each length; not stated in the paper."""
    frequent_words: int = 100
    """Section 4.2: the 100 most frequent words are always tried."""
    maximum_length: int = 18
    """The L of section 4.2, in words; not stated in the paper."""
    m_best: int = 500
    """The M of section 4.2; not stated in the paper."""
    coverage: int = 10
    """The T of section 4.2 to start from, lowered until M sentences are found; not in the paper."""

    def __post_init__(self) -> None:
        for name in ("beam_width", "maximum_length", "m_best"):
            check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("frequent_words", "coverage"):
            check(self, name, getattr(self, name) >= 0, "at least 0")
