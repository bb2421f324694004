"""What `sightwords train all` reads: the settings of every stage, and a table [data].

    preset = "default"

    [data]
    train = ["photos.csv"]
    base = "default"

Settings that the file does not name are the preset's; `sightwords.config.load` has the rule.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sightwords.bundle import DEFAULT_BUNDLE
from sightwords.config import Config, Settings, read_settings
from sightwords.errors import ConfigError
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.words.artefact import DEFAULT_DETECTOR

RANDOM = "random"
"""What `weights` says where a network is to start from random numbers."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What to train on."""

    train: tuple[str, ...] = ()
    """Captioned images: any corpus."""
    text: tuple[str, ...] = ()
    """Sentences without images, for the language model."""
    validation: tuple[str, ...] = ()
    """Captioned images for MERT and the confidence; none: a half of those held out."""
    base: str = ""
    """A detector directory whose network stays as it is under a new last layer, `default` for
    the one inside the package; empty: the network itself is trained."""
    weights: str = ""
    """Pretrained weights of the backbone, where the network itself is trained: a file, a folder or
    a hub id. A backbone that has none of its own needs them, or `random`: to start from nothing."""
    held_out_share: float = 0.25
    """At most this share of the images is held out; `held_out_images` of [calibration] at most."""
    language_words: int = 4000
    """Vocabulary of the language model; that of the detector is `size` of [vocabulary]."""
    language_base: str = ""
    """A language model directory to go on from, `default` for the one inside the package: it
    knows grammar that few captions cannot teach, and keeps its own words."""
    base_words: bool = True
    """Whether words that the base detector knows start from its weights; false for captions of
    another language, whose words mean other things (German *hat* is no hat)."""
    closed_class: tuple[str, ...] = CLOSED_CLASS
    """Words of the captions' language that say nothing of an image: articles, prepositions. They
    are no detections, and no words that a sentence is asked to mention (section 4.1)."""
    keep_capitals: bool = False
    """Whether captions spell words as those trained on do (German *Hund*), not in lower case."""
    cross_fit: Literal["auto", "on", "off"] = "auto"
    """Whether detections for the language model come from two detectors, each trained on one half
    of the images and scoring the other; `auto`: with `base`, or from 10,000 images up. Without,
    they are drawn from those of held-out images."""
    form: Literal["float32", "int8"] = "int8"
    """What a trained network is stored as."""
    name: str = "my-captioner"
    licence: str = "unknown: say under which terms the photographs and captions may be used"

    def __post_init__(self) -> None:
        if not 0 < self.held_out_share <= 0.5:
            raise ConfigError(f"held_out_share is {self.held_out_share}; expected above 0, to .5")
        if self.language_words < 1:
            raise ConfigError(f"language_words is {self.language_words}; expected at least 1")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out, and where it runs."""

    data: DataConfig
    config: Config
    preset: str
    device: str = "cpu"
    threads: int | None = None

    @property
    def base(self) -> Path | None:
        """The detector to build on."""
        if not self.data.base:
            return None
        return DEFAULT_DETECTOR if self.data.base == "default" else Path(self.data.base)

    @property
    def weights(self) -> str | None:
        """The pretrained weights of the backbone; None: what it starts with by itself."""
        return None if self.data.weights in ("", RANDOM) else self.data.weights

    @property
    def language_base(self) -> Path | None:
        """The language model to go on from."""
        if not self.data.language_base:
            return None
        named = self.data.language_base
        return DEFAULT_BUNDLE / "language" if named == "default" else Path(named)


def load_recipe(path: str | os.PathLike[str], *, preset: str | None = None) -> Recipe:
    """Read a TOML file; `preset` goes before the one that the file names."""
    return recipe_of(read_settings(path, preset=preset, tables={"data": DataConfig}))


def recipe_of(settings: Settings, train: Sequence[str] = ()) -> Recipe:
    """A recipe from settings with a table [data]; `train` replaces the images that it names."""
    data = settings.more["data"]
    data = dataclasses.replace(data, train=tuple(train) or data.train)
    if not data.train:
        raise ConfigError('data: train is empty; name captioned images: train = ["photos.csv"]')
    return Recipe(data, settings.config, settings.preset)
