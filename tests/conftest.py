"""Rules for the whole test suite."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# CI draws the same examples every time: a failure there is of the change, not of the dice.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")

MUST_RUN_IN_CI = ("java", "browser", "database", "ray")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `real_data` run where SIGHTWORDS_DATA names a folder of real captions."""
    if "SIGHTWORDS_DATA" in os.environ:
        return
    skip = pytest.mark.skip(reason="SIGHTWORDS_DATA names no folder of real captions")
    for item in items:
        if item.get_closest_marker("real_data"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a skipped test of these kinds has failed: nobody would notice it otherwise."""
    report = yield
    marked = [m for m in MUST_RUN_IN_CI if item.get_closest_marker(m)]
    has_data = "SIGHTWORDS_DATA" in os.environ or not item.get_closest_marker("real_data")
    if report.skipped and marked and has_data and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"CI=true and a test marked {marked[0]!r} was skipped: {report.longrepr}"
    return report


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium for the tests of a module."""
    api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


COLOURS = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
MakeBundle = Callable[[Path], Path]


def _write_words(folder: Path) -> None:
    """A detector of colours (`words/make_networks.py`); a word's precision is its probability."""
    from sightwords.images import Normalization
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.text.vocabulary_file import save_vocabulary
    from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec
    from sightwords.words.calibration_fit import fit_calibration

    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "words/data/colours.onnx", folder / "network.onnx")
    save_vocabulary(Vocabulary(COLOURS, tuple(range(80, 0, -10)), 360), folder / "vocabulary.json")
    unit = Normalization("RGB", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    DetectorSpec(
        backbone="colours",
        pooling="noisy_or",
        input=InputSpec(resize="square", size_px=16, resample="bilinear", normalization=unit),
        grid=GridSpec(rows=4, columns=4, window=1, stride=1, canvas=4),
        words=len(COLOURS),
    ).save(folder)
    scores = np.random.default_rng(0).random((2000, len(COLOURS)))
    labels = np.random.default_rng(1).random(scores.shape) < scores
    fit_calibration(scores, labels).save(folder)


def _write_language(folder: Path) -> None:
    """A language model that says the detected words, in some order, then stops."""
    from sightwords.language.maxent import MaxEnt, padded_table
    from sightwords.text.vocabulary import Vocabulary

    size = len(COLOURS) + 1
    rng = np.random.default_rng(0)
    unigram = rng.normal(-3, 0.1, (2, size + 1)).astype(np.float32)
    unigram[1, :] += 4  # words that were detected and not said yet
    end = np.full(size + 1, -1, dtype=np.float32)
    end[-1] = 5  # all was said
    MaxEnt(
        vocabulary=Vocabulary(COLOURS, tuple(range(80, 0, -10)), 360),
        order=4,
        distant=False,
        table=padded_table(rng.integers(-9, 10, 1 << 10).astype(np.int8), size + 1),
        scale=0.01,
        unigram=unigram,
        end=end,
        attribute=1.0,
        score=0.5,
        follower_offsets=np.arange(0, (size + 2) * len(COLOURS), len(COLOURS), dtype=np.int64),
        follower_ids=np.tile(np.arange(len(COLOURS), dtype=np.int32), size + 1),
    ).save(folder)


def write_tiny_bundle(folder: Path) -> Path:
    """A whole, sealed system of eight words: real stages, tiny models."""
    from sightwords.bundle import seal

    _write_words(folder / "words")
    _write_language(folder / "language")
    (folder / "rerank").mkdir()
    (folder / "rerank" / "weights.json").write_text(
        '{"format": 1, "objective": "cider", "shortlist": 64, "values": {}, "stages": '
        '[{"features": {"log_prob_per_word": 1.0, "word_log_prob": 0.1}}]}'
    )
    seal(folder, name="colours", licence="CC0-1.0", scores={"none": {"cider": 0.0}})
    return folder


@pytest.fixture(scope="session")
def make_bundle() -> MakeBundle:
    """Write a whole system of eight words into a folder: real stages, tiny models."""

    return write_tiny_bundle


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory, make_bundle: MakeBundle) -> Path:
    """A sealed bundle that tests only read."""
    return make_bundle(tmp_path_factory.mktemp("models") / "colours")
