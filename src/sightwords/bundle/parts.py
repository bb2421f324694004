"""The stages of a bundle, loaded: words (section 3), language (4), rerank with its models (5)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.bundle.manifest import Manifest
from sightwords.config import Config, GenerationConfig
from sightwords.errors import BundleError, ConfigError, InputError
from sightwords.sealed import Sealed, unreadable
from sightwords.settings import RESOLVED_NAME, from_mapping, read_toml

if TYPE_CHECKING:
    from sightwords.language.generate import Backend, Generator
    from sightwords.rerank.chooser import Chooser
    from sightwords.words.detector import Detector

DEFAULT_BUNDLE = Path(__file__).parents[1] / "default_bundle"
"""The bundle inside the package."""
DECODING = ("calibration", "generation")
"""Tables of settings that matter after training."""
MOST = {
    "beam_width": 2000,
    "frequent_words": 5000,
    "maximum_length": 50,
    "m_best": 2000,
    "coverage": 1000,
}
"""Limits of a bundle's own settings: more takes minutes per photo."""


@dataclass(frozen=True)
class Bundle:
    """A bundle directory whose files are those of its manifest, by name, kind and size.

    Every file is compared with its sum when it is read (`sealed.Sealed`).
    """

    directory: Path
    manifest: Manifest
    where: str
    """What errors call it: the directory, zip or address that was asked for."""
    files: Sealed = field(init=False, repr=False, compare=False)
    """Its directory, of which only listed files can be read, and only as they were sealed."""

    def __post_init__(self) -> None:
        files = Sealed.of_bundle(self.directory, self.manifest.files, self.where)
        object.__setattr__(self, "files", files)

    def verify(self) -> None:
        """Compare every file that has not been read yet with its sum."""
        rest = sorted(self.manifest.files.keys() - self.files.summed)
        # hashlib releases Python's lock, so large files are summed side by side.
        with ThreadPoolExecutor(4) as pool:
            for _ in pool.map(self._verify, rest):
                pass

    def _verify(self, path: str) -> None:
        try:
            (self.files / path).read_bytes()
        except OSError as error:
            raise unreadable(self.files / path, error) from error

    @cached_property
    def config(self) -> Config:
        """The settings that captioning depends on; what the bundle does not set keeps its default.

        The settings of training are in the same file and are not read: they change between
        versions, and a bundle must still load.
        """
        if RESOLVED_NAME not in self.manifest.files:
            return Config()
        try:
            document = read_toml(self.files / RESOLVED_NAME)
            tables = {name: document[name] for name in DECODING if name in document}
            language = document.get("language", {})
            if isinstance(language, dict) and "attribute_threshold" in language:
                tables["language"] = {"attribute_threshold": language["attribute_threshold"]}
            config = from_mapping(Config, tables, where=RESOLVED_NAME)
            _refuse_endless(config.generation)
        except InputError as error:
            raise BundleError(f"{self.where}: {error}") from error
        return config

    def detector(self, *, threads: int | None = None) -> Detector:
        """Section 3."""
        from sightwords.words.detector import Detector

        return Detector.load(self.files / "words", threads=threads, config=self.config.calibration)

    def generator(self, *, backend: Backend = "auto", beam_width: int | None = None) -> Generator:
        """Section 4; `beam_width` replaces the bundle's own."""
        from sightwords.language.generate import Generator

        config = self.config.generation
        if beam_width is not None:
            config = replace(config, beam_width=beam_width)
        return Generator.load(self.files / "language", config, backend=backend)

    def chooser(self, *, threads: int | None = None, n_best: int = 5) -> Chooser:
        """Section 5, with the models that its weights ask for."""
        from sightwords.rerank.chooser import Chooser
        from sightwords.rerank.linear import Ranker

        ranker = Ranker.load(self.files / "rerank")
        for part in ("dmsm", "grounded"):
            if ranker.needs(part) and part not in self.manifest.parts:
                raise BundleError(
                    f"{self.where}: the re-ranking weights of bundle {self.manifest.name!r} use "
                    f"{part!r}, but it has no {part}/; add that part, or tune the weights "
                    "without it, and run: sightwords bundle seal"
                )
        return Chooser.load(self.files, threads=threads, n_best=n_best)

    def check(self) -> None:
        """Load every stage once; parts of different systems must not be sealed together."""
        detector = self.detector(threads=1)
        known = self.generator(backend="numpy").model.vocabulary
        self.chooser(threads=1)
        if not any(word in known for word in detector.vocabulary.words):
            raise BundleError(
                f"{self.where}: the language model knows none of the {len(detector.vocabulary)} "
                "words that the detector finds; combine parts that were trained on one vocabulary"
            )


def _refuse_endless(config: GenerationConfig) -> None:
    for name, most in MOST.items():
        if getattr(config, name) > most:
            raise ConfigError(
                f"{RESOLVED_NAME}: generation: {name} is {getattr(config, name)}; a bundle may ask "
                f"for at most {most}"
            )
