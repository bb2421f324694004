"""What `sightwords train all` reads: a table [data], the settings of every stage, and who teaches.

    preset = "default"

    [data]
    train = ["photos.csv"]
    base = "default"

Settings that the file does not name are the preset's; `sightwords.config.load` has the rule. Files
of this kind are in `recipes/`.

Captions name a few of the words that an image deserves; other detectors can fill in the rest. Each
table [[teachers]] is a detector like any other, with settings of [words] changed (another seed).
Each table [[pupils]] is a detector that is taught: the first by all teachers, each later one by the
pupil before it. The last one is kept.

    [[teachers]]
    seed = 0
    [[teachers]]
    seed = 1
    [[pupils]]
    teacher_weight = 0.6
    seed = 2
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sightwords.bundle import DEFAULT_BUNDLE
from sightwords.config import Config, Settings, WordsConfig, read_settings
from sightwords.config.changes import over
from sightwords.errors import ConfigError
from sightwords.parallel import available_cores
from sightwords.settings import from_mapping
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.words.artefact import DEFAULT_DETECTOR

ARRAYS = ("teachers", "pupils")
"""Tables of a recipe of which there may be several, [[teachers]] and [[pupils]]."""
RANDOM = "random"
"""What `weights` says where a network is to start from random numbers."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What to train on."""

    train: tuple[str, ...] = ()
    """Captioned images: any corpus."""
    more: tuple[str, ...] = ()
    """Images with few captions or none, for pupils with `more = true`. What their captions do not
    name is left to the teachers. Their captions train the models of sentences too."""
    dataset: str = ""
    """Where `train` has several datasets: the one (`coco`) whose captions choose the detector's
    words and whose images are held out. Empty: all of them."""
    text: tuple[str, ...] = ()
    """Sentences without images, for the language model."""
    validation: tuple[str, ...] = ()
    """Captioned images for MERT and the confidence; none: a half of those held out."""
    base: str = ""
    """A detector directory whose network stays as it is under a new last layer, `default` for
    the one inside the package; empty: the network itself is trained."""
    weights: str = ""
    """Pretrained weights of the backbone, where the network itself is trained: a file, a folder or
    a hub id. A backbone without built-in weights needs them, or `random`: random weights."""
    held_out_share: float = 0.25
    """At most this share of the images is held out; `held_out_images` of [calibration] at most."""
    language_words: int = 4000
    """Vocabulary of the language model; that of the detector is `size` of [vocabulary]."""
    language_base: str = ""
    """A language model directory to start from, `default` for the one inside the package: it
    knows grammar that few captions cannot teach, and keeps its own words."""
    base_words: bool = True
    """Whether words that the base detector knows start from its weights; false for captions of
    another language, whose words mean other things (German *hat* is not a hat)."""
    closed_class: tuple[str, ...] = CLOSED_CLASS
    """Words of the captions' language that describe nothing in an image, such as articles. They
    are not detected, and a sentence need not mention them (section 4.1)."""
    keep_capitals: bool = False
    """Whether captions have the capitals of the training captions (German *Hund*)."""
    cross_fit: Literal["auto", "on", "off"] = "auto"
    """Whether detections for the language model come from two detectors, each trained on one half
    of the images and scoring the other; `auto`: with `base`, or with 10,000 images or more. Without
    them, detections are drawn from those of held-out images."""
    form: Literal["float32", "int8"] = "int8"
    """What a trained network is stored as."""
    name: str = "my-captioner"
    licence: str = "unknown: say under which terms the photos and captions may be used"

    def __post_init__(self) -> None:
        if not 0 < self.held_out_share <= 0.5:
            raise ConfigError(f"held_out_share is {self.held_out_share}; expected above 0, to .5")
        if self.language_words < 1:
            raise ConfigError(f"language_words is {self.language_words}; expected at least 1")


@dataclass(frozen=True)
class Network:
    """A detector that is trained: a teacher, a pupil or, last of all, the one that is kept."""

    stage: str
    """The name of the stage that trains it."""
    words: WordsConfig
    teachers: tuple[str, ...] = ()
    """Stages of the detectors that teach it."""
    more: bool = False
    """Whether it learns from the images of `more` too."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out, and where it runs."""

    data: DataConfig
    config: Config
    preset: str
    networks: tuple[Network, ...]
    """In the order of training; the last one is kept."""
    device: str = "cpu"
    threads: int | None = None
    compile: bool = False
    """Whether torch makes one program of each network: faster on a GPU."""

    @property
    def processes(self) -> int:
        """For what runs in several processes."""
        return self.threads or available_cores()

    @property
    def kept(self) -> Network:
        """The detector that goes into the bundle."""
        return self.networks[-1]

    @property
    def sources(self) -> tuple[str, ...]:
        """All captioned images that are learned from."""
        return (*self.data.train, *self.data.more)

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
    return recipe_of(read_settings(path, preset=preset, tables={"data": DataConfig}, arrays=ARRAYS))


def recipe_of(settings: Settings, train: Sequence[str] = ()) -> Recipe:
    """A recipe from settings with a table [data]; `train` replaces the images that it names."""
    data = settings.more["data"]
    data = dataclasses.replace(data, train=tuple(train) or data.train)
    if not data.train:
        raise ConfigError(
            "data: train is empty; name captioned images: sightwords train all photos.csv, or "
            'train = ["photos.csv"] in a file of settings'
        )
    teachers, pupils = (settings.more[name] for name in ARRAYS)
    _check_teaching(data, settings.config, teachers, pupils)
    networks = _networks(settings.config.words, teachers, pupils)
    return Recipe(data, settings.config, settings.preset, networks)


Tables = Sequence[Mapping[str, Any]]


def _check_teaching(data: DataConfig, config: Config, teachers: Tables, pupils: Tables) -> None:
    """Refuse what nothing would read."""
    share = config.words.teacher_weight
    if share:
        raise ConfigError(
            f"teacher_weight is {share} in [words], which nobody teaches; set it in [[pupils]]"
        )
    if bool(teachers) != bool(pupils):
        given, missing = ("teachers", "pupils") if teachers else ("pupils", "teachers")
        raise ConfigError(f"there are [[{given}]] and no [[{missing}]]; give both or neither")
    if pupils and data.base:
        raise ConfigError(
            "base: cannot be combined with [[pupils]], which train networks; remove one"
        )
    for number, table in enumerate(pupils, 1):
        if not isinstance(table.get("more", False), bool):
            raise ConfigError(f"pupils, table {number}: more: expected true or false")
    learned = any(table.get("more") for table in pupils)
    if learned and not data.more:
        raise ConfigError("pupils: more = true, but [data] names no images in `more`")
    if data.more and not learned:
        raise ConfigError(
            "data: more needs tables [[teachers]] and [[pupils]], one of them with more = true"
        )


def _networks(words: WordsConfig, teachers: Tables, pupils: Tables) -> tuple[Network, ...]:
    """Every detector to train; those of [[teachers]] and [[pupils]] change settings of [words]."""
    several = []
    for number, table in enumerate(teachers, 1):
        changed = _changed(words, table, f"teachers, table {number}", taught=False)
        several.append(Network(f"teacher-{number}", changed))
    by = tuple(network.stage for network in several)
    for number, table in enumerate(pupils, 1):
        own = {key: value for key, value in table.items() if key != "more"}
        changed = _changed(words, own, f"pupils, table {number}", taught=True)
        stage = "detector" if number == len(pupils) else f"pupil-{number}"
        several.append(Network(stage, changed, by, bool(table.get("more", False))))
        by = (stage,)
    return tuple(several) or (Network("detector", words),)


def _changed(
    words: WordsConfig, table: Mapping[str, Any], where: str, *, taught: bool
) -> WordsConfig:
    """The settings of [words] with those of one table; only who is taught has a teacher_weight."""
    found = from_mapping(WordsConfig, over(dataclasses.asdict(words), table), where=where)
    if bool(found.teacher_weight) != taught:
        expected = "the share of the teachers, such as 0.6" if taught else "0: nobody teaches it"
        raise ConfigError(
            f"{where}: teacher_weight is {found.teacher_weight:g}; expected {expected}"
        )
    return found
