"""From captioned photographs to weights and confidence, and the same choices as the pipeline's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightwords.cli.main import main
from sightwords.config import GenerationConfig, LanguageConfig, MertConfig
from sightwords.errors import InputError
from sightwords.images import decode
from sightwords.language.generate import Generator
from sightwords.rerank.chooser import Chooser
from sightwords.rerank.confidence import Confidence
from sightwords.rerank.linear import Ranker, Stage
from sightwords.train.rerank.list_metrics import ListMetrics
from sightwords.train.rerank.lists import Lists, starts_of
from sightwords.train.rerank.mert_scores import Remembered
from sightwords.train.rerank.mert_stages import Mask, Tuning, apply_ranker, shortlisted, tune_ranker
from sightwords.train.rerank.run import blank_and_noise_images
from sightwords.types import FloatArray
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool
from sightwords.words.selection import WordSelector

IMAGES = 24


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain colours with captions that name them, as a manifest."""
    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    rows = ["image,caption"]
    for number in range(IMAGES):
        colour = number % 3
        pixels = rng.integers(0, 60, (32, 32, 3))
        pixels[..., colour] += 180
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        word = ("red", "green", "blue")[colour]
        said = word if number % 2 else f"dark {word}"
        rows += [f"{number}.png,{text}" for text in (f"{said} dog", f"the {word}", f"a {said} dog")]
    path = folder / "captions.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "mine.toml"
    path.write_text(
        "[generation]\nm_best = 20\nbeam_width = 10\nmaximum_length = 5\n"
        '[mert]\nobjective = "cider+0.5bleu"\nrestarts = 2\nprobabilities = true\n'
        "halves_from = 20\n"
        "coverage = true\nconsensus = true\n",
        encoding="utf-8",
    )
    return path


def test_train_mert(
    photographs: Path, settings: Path, tiny_bundle: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for part in ("words", "language"):
        shutil.copytree(tiny_bundle / part, tmp_path / part)
    out = tmp_path / "rerank"
    command = ["train", "mert", str(photographs), "--parts", str(tmp_path)]
    assert main([*command, "--config", str(settings)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["objective"] == "cider+0.5bleu"
    assert row["tuning"]["images"] + row["held_out"]["images"] == IMAGES
    ranker, confidence = Ranker.load(out), Confidence.load(out)
    assert ranker.values["tuning"]["cider"] == pytest.approx(row["tuning"]["cider"], abs=1e-4)
    assert "consensus" in ranker.stages[0].weights
    assert "dmsm" not in ranker.stages[0].weights  # no model was given
    assert 0 < confidence.good_share < 1
    assert (out / "config.resolved.toml").is_file()


def test_test_images_stop_it_at_once(tiny_bundle: Path, tmp_path: Path) -> None:
    from sightwords.config import Config
    from sightwords.train.rerank.run import Models, train_rerank
    from sightwords.types import Example, ImageRef

    example = Example("9", ImageRef("nowhere.png"), ("a dog",), "test", "mine")
    models = Models(tiny_bundle / "words", tiny_bundle / "language")
    with pytest.raises(InputError, match="tuning images are test images, the first '9'"):
        train_rerank([example], models, Config(), tmp_path)


class Longest:
    """Likes long sentences, as both kinds of model."""

    def score(self, features: FloatArray, *rest: object) -> FloatArray:
        sentences = rest[-1]
        assert isinstance(sentences, Sequence)
        return np.array([len(s) for s in sentences], dtype=np.float32)


def test_training_and_pipeline_choose_the_same(photographs: Path, tiny_bundle: Path) -> None:
    """One list through `train.rerank.make_lists` and `apply_ranker`, and through the pipeline's
    stages."""
    from sightwords.train.language.data import Detections
    from sightwords.train.rerank.make_lists import detected_words, make_lists, worth_keeping

    detector = Detector.load(tiny_bundle / "words")
    config = GenerationConfig(m_best=20, beam_width=10, maximum_length=5)
    generator = Generator.load(tiny_bundle / "language", config, backend="numpy")
    minimum = LanguageConfig().attribute_threshold
    offer = WordSelector(detector, frozenset(generator.model.words), minimum)
    stages = (
        Stage({"log_prob_per_word": 1.0, "word_log_prob": 0.7, "doubtful_log_prob": 0.3}),
        Stage({"grounded": 0.2, "consensus": 1.0, "covered_precision": 0.5}),
    )
    ranker = Ranker(stages, shortlist=6)
    chooser = Chooser(ranker, grounded=Longest(), vocabulary=detector.vocabulary.words)
    names, probs, texts = [], [], []
    for number in range(6):
        regions = detector(decode(photographs.parent / f"{number}.png"))
        scores = pool(regions)
        words = offer(scores, regions)
        texts.append(chooser(generator(words), words, scores, regions).text)
        names.append(str(number))
        probs.append(scores.image_probs)
    rows, columns = np.nonzero(worth_keeping(np.stack(probs), 0.02))
    assert detector.calibration is not None
    words_of = detected_words(
        Detections(
            names, list(detector.vocabulary.words), rows, columns, np.stack(probs)[rows, columns]
        ),
        generator.model.vocabulary,
        minimum_prob=minimum,
        precisions=detector.calibration.precision(np.stack(probs))[rows, columns],
    )
    lists = make_lists(
        names, words_of, tiny_bundle / "language", config, minimum_prob=minimum, backend="numpy"
    )
    zeros = ListMetrics(
        np.zeros(lists.hypotheses, np.float32), np.zeros((lists.hypotheses, 10), np.int16)
    )
    lengths = lists.lengths.astype(np.float32)
    found = apply_ranker(Tuning(lists, zeros, None, lambda mask: lengths), ranker)
    assert [lists.text(h) for h in found.hypotheses.tolist()] == texts


def planted(images: int, seed: int) -> tuple[Lists, ListMetrics, FloatArray]:
    """Lists whose CIDEr-D is the similarity, plus twice the grounded score."""
    rng = np.random.default_rng(seed)
    count = images * 10
    similar, second = rng.normal(size=(2, count)).astype(np.float32)
    lists = Lists(
        ids=np.array([str(i) for i in range(images)]),
        splits=np.array(["val"] * images),
        words=("a", "dog"),
        word_offsets=np.arange(images + 1),
        word_ids=np.ones(images, dtype=np.uint16),
        word_probs=np.full(images, 0.5, dtype=np.float32),
        word_precisions=np.full(images, 0.5, dtype=np.float32),
        offsets=starts_of(np.full(images, 10)),
        token_offsets=starts_of(np.full(count, 2)),
        tokens=np.tile([0, 1], count).astype(np.uint16),
        log_probs=-np.tile(np.arange(10), images).astype(np.float32),
        coverage=np.zeros(images, dtype=np.uint8),
    )
    cider = (similar + 2 * second + 9).astype(np.float32)
    return lists, ListMetrics(cider, np.zeros((count, 10), np.int16)), np.stack([similar, second])


def test_two_stages_are_better_than_one() -> None:
    lists, metrics, (similar, second) = planted(60, 0)
    asked: list[int] = []

    def ask(mask: Mask) -> FloatArray:
        asked.append(int(mask.sum()))
        return np.asarray(second)

    tuning = Tuning(lists, metrics, similar, Remembered(ask, lists.hypotheses))
    config = MertConfig(objective="cider", restarts=2, random_directions=2, shortlist=5)
    one = tune_ranker(tuning, config)
    two = tune_ranker(tuning, MertConfig(**{**vars(config), "grounded": True}), start=one)
    values = [metrics.cider[apply_ranker(tuning, r).hypotheses].mean() for r in (one, two)]
    assert values[1] > values[0] + 0.5
    assert len(two.stages) == 2
    assert asked[0] == 60 * 5  # the shortlists alone


def test_models_that_settings_ask_for() -> None:
    lists, metrics, _ = planted(6, 1)
    with pytest.raises(InputError, match=r"DMSM.*dmsm = false"):
        tune_ranker(Tuning(lists, metrics), MertConfig())
    with pytest.raises(InputError, match=r"grounded model.*grounded = false"):
        tune_ranker(Tuning(lists, metrics), MertConfig(dmsm=False, grounded=True, restarts=1))


def test_some_images_of_lists_ask_through_the_whole() -> None:
    lists, metrics, (similar, second) = planted(6, 2)
    part = Tuning(lists, metrics, similar, lambda mask: second * mask).select([4, 1])
    mask, offsets = shortlisted(part.lists, part.metrics.cider.astype(np.float64), 3)
    assert offsets.tolist() == [0, 3, 6]
    assert part.grounded is not None
    found = part.grounded(mask)
    assert found.tolist() == (np.concatenate([second[40:50], second[10:20]]) * mask).tolist()


def test_blank_and_noise_images_are_of_four_kinds() -> None:
    spread = [float(np.asarray(image).std()) for image in blank_and_noise_images(4)]
    assert spread[2] > spread[3] > 0
