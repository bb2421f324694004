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

from sightwords.config.language import GenerationConfig, LanguageConfig
from sightwords.config.rerank import DmsmConfig, GroundedConfig, MertConfig
from sightwords.config.system import PRESETS, Config
from sightwords.config.words import (
    CalibrationConfig,
    ImagesConfig,
    VocabularyConfig,
    WordsConfig,
)
from sightwords.settings import load_toml

__all__ = [
    "PRESETS",
    "CalibrationConfig",
    "Config",
    "DmsmConfig",
    "GenerationConfig",
    "GroundedConfig",
    "ImagesConfig",
    "LanguageConfig",
    "MertConfig",
    "VocabularyConfig",
    "WordsConfig",
    "load_config",
]


def load_config(path: str | os.PathLike[str]) -> Config:
    """Read a TOML file; what it does not name keeps the paper's value."""
    return load_toml(Config, path)
