"""Training learns, finds where words are, and is the same after a kill at any step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.errors import ConfigError, InputError  # noqa: E402
from sightwords.train.fit import StepReport  # noqa: E402
from sightwords.train.processes import wrapped  # noqa: E402
from sightwords.train.weights import save_weights, weights_sum  # noqa: E402
from sightwords.train.words.labels import caption_targets  # noqa: E402
from sightwords.train.words.run import load_weights, new_network  # noqa: E402
from sightwords.train.words.training import CHECKPOINT_NAME, train_words  # noqa: E402
from sightwords.train.words.validation import score_images, validate  # noqa: E402

pytestmark = pytest.mark.torch


def _new(config: WordsConfig) -> Any:
    return new_network(config, 4, weights=None, size_px=48)


def _train(config: WordsConfig, made: Any, **options: Any) -> Any:
    return train_words(_new(config), made.table(), made.targets(), config, **options)


@pytest.fixture
def lively(toy_config: WordsConfig) -> WordsConfig:
    """Six steps with all that is random or remembered: crops, dropout, momentum, an average."""
    return replace(
        toy_config,
        epochs=3,
        smallest_crop=0.5,
        flip=True,
        jitter=0.1,
        dropout=0.3,
        weight_average=0.9,
        gradient_clip=1.0,
    )


@pytest.mark.usefixtures("tiny_net")
def test_labels_of_whole_images_teach_where_words_are(
    squares: Any, toy_config: WordsConfig
) -> None:
    """Multiple instance learning: nothing but captions says that red is where the square is."""
    losses: list[float] = []
    network = _train(toy_config, squares(300), progress=lambda r: losses.append(r.loss))
    assert losses[-1] < losses[0] / 4
    new = squares(100, seed=1)
    probs = score_images(network, new.table())
    shown = caption_targets(new.captions, new.vocabulary)
    for word in ("red", "blue"):
        column = new.vocabulary.index(word)
        assert probs[shown[:, column] == 1, column].min() > 0.5
        assert probs[shown[:, column] == 0, column].max() < 0.5
        assert _share_of_peaks_on_the_square(network, new, word) == 1.0


def _share_of_peaks_on_the_square(network: Any, made: Any, word: str) -> float:
    from sightwords.train.data.augment import network_input

    table = made.table()
    with torch.no_grad():
        pixels, content = torch.from_numpy(table.pixels), torch.from_numpy(table.content)
        logits = network(network_input(pixels, content, network.backbone.input)).region_logits
    hits = []
    for image, places in enumerate(made.corners):
        if word in places:
            row, column = divmod(int(logits[image, ..., made.vocabulary.index(word)].argmax()), 12)
            x, y = places[word]  # a cell is 4 px wide, the square 8
            hits.append(x - 4 < 4 * column < x + 8 and y - 4 < 4 * row < y + 8)
    return float(np.mean(hits))


@pytest.mark.usefixtures("tiny_net")
def test_the_whole_image_baseline_trains(squares: Any, toy_config: WordsConfig) -> None:
    config = replace(toy_config, pooling="whole_image", initial_bias=-1.0, epochs=20)
    losses: list[float] = []
    network = _train(config, squares(300), progress=lambda r: losses.append(r.loss))
    assert losses[-1] < losses[0] / 2
    with torch.no_grad():
        output = network(torch.zeros(2, 3, 48, 48))
    assert output.region_logits.shape == (2, 12, 12, 4)
    assert output.bag_logits.shape == (2, 1, 1, 4)


@pytest.mark.usefixtures("tiny_net")
def test_validation_is_perfect_where_learning_was(squares: Any, toy_config: WordsConfig) -> None:
    made = squares(200)
    network = _train(toy_config, made)
    for captions in made.captions:
        captions *= 2  # word metrics need several captions an image
    means = validate(network, made.table(), made.vocabulary)
    assert means.ap > 0.99


class _KilledError(Exception):
    pass


@pytest.mark.usefixtures("tiny_net")
@pytest.mark.parametrize("kill_at", range(1, 7))
def test_a_run_killed_at_any_step_ends_the_same(
    squares: Any, lively: WordsConfig, tmp_path: Path, kill_at: int
) -> None:
    made = squares(41)  # an incomplete last batch
    unbroken = _train(lively, made).state_dict()

    def kill(report: StepReport) -> None:
        if report.step == kill_at:
            raise _KilledError

    options = {"folder": tmp_path, "checkpoint_seconds": 0.0, "report_every": 1}
    with pytest.raises(_KilledError):
        _train(lively, made, progress=kill, **options)
    steps: list[int] = []
    resumed = _train(lively, made, progress=lambda r: steps.append(r.step), **options).state_dict()
    assert steps == list(range(kill_at + 1, 7))  # the reported step was saved before the report
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)


@pytest.mark.usefixtures("tiny_net")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_that_is_told_once_learns_the_same(
    squares: Any, lively: WordsConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CUDA graphs and without: the same crops, dropout and losses."""
    config = replace(lively, epochs=12)

    def losses() -> list[float]:
        found: list[float] = []
        _train(
            config,
            squares(40),
            device="cuda",
            compile_network=True,
            progress=lambda r: found.append(r.loss),
            report_every=1,
        )
        return found

    with_graphs = losses()
    plain = partial(wrapped, graphs=False)
    monkeypatch.setattr(
        "sightwords.train.fit.wrapped", lambda network, graphs, **rest: plain(network, **rest)
    )
    np.testing.assert_allclose(with_graphs, losses(), rtol=1e-3)
    assert len(with_graphs) == 24


@pytest.mark.usefixtures("tiny_net")
def test_a_finished_run_is_opened_not_repeated(
    squares: Any, lively: WordsConfig, tmp_path: Path
) -> None:
    made = squares(40)
    first = _train(lively, made, folder=tmp_path).state_dict()
    reports: list[StepReport] = []
    again = _train(lively, made, folder=tmp_path, progress=reports.append).state_dict()
    assert not reports
    assert all(torch.equal(first[name], again[name]) for name in first)


@pytest.mark.usefixtures("tiny_net")
def test_a_checkpoint_of_another_run_is_refused(
    squares: Any, lively: WordsConfig, tmp_path: Path
) -> None:
    _train(lively, squares(40), folder=tmp_path)
    for config, made in ((replace(lively, seed=1), squares(40)), (lively, squares(40, seed=2))):
        with pytest.raises(ConfigError, match=CHECKPOINT_NAME):
            _train(config, made, folder=tmp_path)


@pytest.mark.usefixtures("tiny_net")
def test_a_checkpoint_from_other_pretrained_weights_is_refused(
    squares: Any, lively: WordsConfig, tmp_path: Path
) -> None:
    weights, made = tmp_path / "weights.bin", squares(40)

    def train(content: bytes) -> Any:
        weights.write_bytes(content)
        network = new_network(lively, 4, weights=str(weights), size_px=48)
        return train_words(network, made.table(), made.targets(), lively, folder=tmp_path)

    train(b"one")
    train(b"one")
    with pytest.raises(ConfigError, match="pretrained weights"):
        train(b"another")


def test_pretrained_weights_are_told_apart_by_their_bytes(tmp_path: Path) -> None:
    for name, content in (("a/x", b"1"), ("b/x", b"1"), ("c/x", b"2"), ("d/y", b"1")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    a, b, c, d = (weights_sum(str(tmp_path / name)) for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3
    assert weights_sum(str(tmp_path / "a" / "x")) != weights_sum(str(tmp_path / "c" / "x"))


@pytest.mark.usefixtures("tiny_net")
def test_the_average_covers_statistics_of_normalisation(
    squares: Any, toy_config: WordsConfig
) -> None:
    config = replace(toy_config, epochs=1, weight_average=0.999)
    network = _new(config)
    network.backbone.cells.append(torch.nn.BatchNorm2d(16))
    made = squares(20)  # one step: the average keeps 2/11 of the start
    train_words(network, made.table(), made.targets(), config)
    statistics = network.backbone.cells[2].running_var
    last = 0.9 * 1 + 0.1 * _variance(config, made)
    np.testing.assert_allclose(statistics, 2 / 11 * 1 + 9 / 11 * last, rtol=1e-3)


def _variance(config: WordsConfig, made: Any) -> Any:
    """Of the channels before that layer, over the first batch."""
    from sightwords.train.data.augment import network_input

    backbone = _new(config).backbone
    table = made.table()
    pixels, content = torch.from_numpy(table.pixels), torch.from_numpy(table.content)
    with torch.no_grad():
        cells = backbone.cells(network_input(pixels, content, backbone.input))
    return cells.var(dim=(0, 2, 3))


@pytest.mark.usefixtures("tiny_net")
def test_targets_must_be_one_a_row(squares: Any, toy_config: WordsConfig) -> None:
    made = squares(20)
    with pytest.raises(InputError, match="19 rows of targets for 20 images"):
        train_words(_new(toy_config), made.table(), made.targets()[1:], toy_config)


@pytest.mark.usefixtures("tiny_net")
def test_weights_round_trip_in_half_precision(toy_config: WordsConfig, tmp_path: Path) -> None:
    network, path = _new(toy_config), tmp_path / "weights.safetensors"
    save_weights(network, path)
    other = _new(replace(toy_config, seed=1))
    assert not torch.equal(other.head.weight, network.head.weight)
    load_weights(other, path)
    assert torch.equal(other.head.weight, network.head.weight.half().float())
    (tmp_path / "plain").write_text("x", encoding="utf-8")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_fewer_captions_are_shares_of_those_there_are(squares: Any) -> None:
    captions = [["red", "blue", "a", "a", "a", "red"], ["red"], []]
    shares = caption_targets(captions, squares.vocabulary, labels="fraction")
    expected = np.array([[0.6, 0, 0.2, 0.2], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=np.float32)
    np.testing.assert_allclose(shares, expected)
    first_two = caption_targets(captions, squares.vocabulary, captions_per_image=2)
    assert first_two.tolist() == [[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
