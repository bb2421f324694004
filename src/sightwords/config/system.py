"""The settings of the whole system, and the presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sightwords.config.language import GenerationConfig, LanguageConfig
from sightwords.config.rerank import DmsmConfig, GroundedConfig, MertConfig
from sightwords.config.words import (
    CalibrationConfig,
    ImagesConfig,
    VocabularyConfig,
    WordsConfig,
)


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


PRESETS: Mapping[str, Config] = {
    "paper": Config(
        # The paper leaves these open; unigram noise wants many small steps (docs/language.md).
        language=LanguageConfig(epochs=32, learning_rate=2.0, first_square=800.0),
    ),
    "default": Config(
        images=ImagesConfig(size_px=224),
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
        language=LanguageConfig(
            attribute_samples=3,
            noise_power=0.5,
            epochs=8,
            learning_rate=1.0,
            first_square=12.0,
            text_weight=0.3,
        ),
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
"""`paper`: every value as published; values that the paper leaves open are measured. `default`: our
best, from `docs/training.md`."""
