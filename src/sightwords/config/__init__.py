"""Settings: one frozen dataclass per stage, the paper's values as defaults, TOML in and out.

Each field cites its section. Where the paper does not state a value, the value is ours, and
`docs/paper_map.md` gives the reason. A TOML file names only what it changes in a preset:

    preset = "default"

    [words]
    epochs = 4

Unknown tables and keys are refused by name, so that a typing error never passes silently.
"""

from __future__ import annotations

from sightwords.config.language import GenerationConfig, LanguageConfig
from sightwords.config.load import Settings, load_config, read_settings
from sightwords.config.rerank import DmsmConfig, GroundedConfig, MertConfig
from sightwords.config.run import RunConfig
from sightwords.config.system import PRESETS, Config
from sightwords.config.words import (
    CalibrationConfig,
    ImagesConfig,
    VocabularyConfig,
    WordsConfig,
)

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
    "RunConfig",
    "Settings",
    "VocabularyConfig",
    "WordsConfig",
    "load_config",
    "read_settings",
]
