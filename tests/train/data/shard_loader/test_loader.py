"""The order of streamed images depends neither on workers and processes nor on a restart."""

from __future__ import annotations

import json
import logging
import multiprocessing
import threading
import time
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("webdataset")

from sightwords.cli.main import main  # noqa: E402
from sightwords.config import Config, ImagesConfig, VocabularyConfig, WordsConfig  # noqa: E402
from sightwords.corpus.splits import hold_out  # noqa: E402
from sightwords.errors import ConfigError, CorpusError, ExternalToolError  # noqa: E402
from sightwords.settings import to_toml  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.train.data.shard_loader import lanes as lane_images  # noqa: E402
from sightwords.train.data.shard_loader import loader as loaders  # noqa: E402
from sightwords.train.data.shard_loader.index import shard_index  # noqa: E402
from sightwords.train.data.shard_loader.lanes import Lanes  # noqa: E402
from sightwords.train.data.shard_loader.loader import ShardLoader  # noqa: E402
from sightwords.train.data.shard_loader.workers import SLOTS  # noqa: E402
from sightwords.train.fit import StepReport  # noqa: E402
from sightwords.train.words.labels import caption_targets  # noqa: E402
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.train.words.training import train_words  # noqa: E402

pytestmark = pytest.mark.torch

SIDE = 48


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers smaller than a shard, so that they matter."""
    monkeypatch.setattr(lane_images, "BUFFER", 4)


def _lanes(made: Any, pattern: str, folder: Path, config: WordsConfig, held: int = 0) -> Lanes:
    index = shard_index([pattern], folder, hold_out=held)
    return Lanes(index, made.vocabulary, config, side_px=SIDE, resize="square")


def _ids(lanes: Lanes, lane: int, start: int, count: int) -> list[str]:
    return [example.id for example in islice(lanes.examples(lane, start=start), count)]


@pytest.fixture
def config(toy_config: WordsConfig) -> WordsConfig:
    return replace(toy_config, lanes=4, batch_size=8, epochs=2)


@pytest.fixture
def lanes(squares: Any, config: WordsConfig, tmp_path: Path) -> Lanes:
    """48 images in four shards."""
    made = squares(48)
    return _lanes(made, made.shards(tmp_path, [12] * 4), tmp_path, config)


@pytest.mark.usefixtures("small")
def test_lanes_together_show_each_image_once_per_epoch(
    squares: Any, config: WordsConfig, tmp_path: Path
) -> None:
    lanes = _lanes(squares(48), squares(48).shards(tmp_path, [6] * 8), tmp_path, config)
    first = [_ids(lanes, lane, 0, 12) for lane in range(4)]
    assert sorted(chain.from_iterable(first)) == [f"{n:03d}" for n in range(48)]
    again = [_ids(lanes, lane, 12, 12) for lane in range(4)]
    assert sorted(chain.from_iterable(again)) == [f"{n:03d}" for n in range(48)]
    assert again != first
    assert sorted(first[0]) != sorted(again[0])  # a lane has other shards each time
    assert first[0] != sorted(first[0])
    other = replace(lanes, config=replace(config, seed=1))
    assert _ids(other, 0, 0, 12) != first[0]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("start", [1, 7, 12, 13, 40])
def test_a_lane_can_start_anywhere(
    squares: Any, config: WordsConfig, tmp_path: Path, start: int
) -> None:
    """Also across the ends of epochs, whose lengths differ between lanes and epochs."""
    made = squares(40)
    lanes = _lanes(made, made.shards(tmp_path, [6, 5, 7, 6, 4, 12]), tmp_path, config, 3)
    for lane in range(4):
        whole = _ids(lanes, lane, 0, start + 20)
        assert _ids(lanes, lane, start, 20) == whole[start:]


@pytest.mark.usefixtures("small", "tiny_net")
def test_the_index_knows_what_was_held_out(
    squares: Any, config: WordsConfig, tmp_path: Path
) -> None:
    made = squares(40)
    pattern = made.shards(tmp_path, [10] * 4)
    index = shard_index([pattern], tmp_path, hold_out=7)
    names = [f"{n:03d}" for n in range(40)]
    assert set(index.held_out) == hold_out(names, 7)
    assert len(index) == 33
    kept = [made.captions[n] for n, name in enumerate(names) if name not in index.held_out]
    expected = Vocabulary.of_captions([caption for group in kept for caption in group], size=4)
    found = Vocabulary.of_counts(index.words, size=4)
    assert (found.words, found.counts) == (expected.words, expected.counts)
    assert index.captions == sum(map(len, kept))
    lanes = Lanes(index, made.vocabulary, config, side_px=SIDE, resize="square")
    seen = [name for lane in range(4) for name in _ids(lanes, lane, 0, 60)]
    assert not set(seen) & set(index.held_out)
    assert len(set(seen)) == 33
    assert shard_index([pattern], tmp_path / "other", hold_out=7, workers=2) == index
    with pytest.raises(CorpusError, match="40 of 40"):
        shard_index([pattern], tmp_path, hold_out=40)


def _steps(stream: ShardLoader, steps: range, parts: int = 1) -> list[Any]:
    size = stream.lanes.config.batch_size
    places = [np.arange(step * size, (step + 1) * size) for step in steps]
    return [stream.take(p[part::parts]) for p in places for part in range(parts)]


@pytest.mark.usefixtures("small")
def test_workers_and_parts_change_nothing(lanes: Lanes) -> None:
    """Three workers of four lanes, a start in the middle, and half a batch at a time."""
    alone = _steps(ShardLoader(lanes, workers=0), range(5))
    three = _steps(ShardLoader(lanes, workers=3), range(5))
    later = _steps(ShardLoader(lanes, workers=0), range(2, 5))
    halves = _steps(ShardLoader(lanes, workers=0), range(5), parts=2)
    for step in range(5):
        for part in range(3):
            assert torch.equal(alone[step][part], three[step][part])
            if step >= 2:
                assert torch.equal(alone[step][part], later[step - 2][part])
            for half in range(2):
                assert torch.equal(alone[step][part][half::2], halves[2 * step + half][part])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_a_slow_step_sees_what_a_fast_one_sees(lanes: Lanes, workers: int, device: str) -> None:
    """Through all slots of the shared memory several times, with workers that are far ahead."""
    steps = 3 * SLOTS
    alone = _steps(ShardLoader(lanes, workers=0), range(steps))
    stream = ShardLoader(lanes, device=device, workers=workers)
    for step in range(steps):
        time.sleep(0.1 if step % 4 == 0 else 0)
        [batch] = _steps(stream, range(step, step + 1))
        assert {part.device.type for part in batch} == {device}
        assert all(map(torch.equal, [part.cpu() for part in batch], alone[step]))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("workers", [0, 2])
def test_another_step_discards_what_was_prefetched(lanes: Lanes, workers: int) -> None:
    alone = _steps(ShardLoader(lanes, workers=0), range(8))
    stream = ShardLoader(lanes, workers=workers)
    for step in (0, 1, 5, 6, 3, 3, 4, 7, 0):
        [batch] = _steps(stream, range(step, step + 1))
        assert all(map(torch.equal, batch, alone[step]))


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_start_in_any_way(
    lanes: Lanes,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    context = multiprocessing.get_context(method)
    monkeypatch.setattr(multiprocessing, "get_context", lambda: context)
    alone = _steps(ShardLoader(lanes, workers=0), range(2 * SLOTS))
    two = _steps(ShardLoader(lanes, workers=2), range(2 * SLOTS))
    for one, other in zip(alone, two, strict=True):
        assert all(map(torch.equal, one, other))


def test_a_worker_s_error_reaches_the_user(
    squares: Any, config: WordsConfig, tmp_path: Path
) -> None:
    made = squares(48)
    pattern = made.shards(tmp_path, [12] * 4, bad=tuple(range(48)))
    stream = ShardLoader(_lanes(made, pattern, tmp_path, config), workers=2)
    for _ in range(2):  # the second time it starts again and fails again
        with pytest.raises(CorpusError, match="16 images"):
            _steps(stream, range(1))


@pytest.mark.usefixtures("small")
def test_a_killed_worker_is_an_error_and_the_loader_can_start_again(lanes: Lanes) -> None:
    alone = _steps(ShardLoader(lanes, workers=0), range(40))
    stream = ShardLoader(lanes, workers=2)
    _steps(stream, range(1))
    [first, *_] = multiprocessing.active_children()
    first.kill()
    with pytest.raises(ExternalToolError, match="exit code -9"):
        _steps(stream, range(1, 40))
    [batch] = _steps(stream, range(39, 40))
    assert all(map(torch.equal, batch, alone[39]))


@pytest.mark.usefixtures("small")
def test_a_deleted_loader_leaves_no_process_and_no_thread(lanes: Lanes) -> None:
    children, threads = set(multiprocessing.active_children()), set(threading.enumerate())
    stream = ShardLoader(lanes, workers=2)
    _steps(stream, range(3))
    assert len(set(multiprocessing.active_children()) - children) == 2
    mine = set(threading.enumerate()) - threads
    assert len(mine) == 1
    del stream
    for thread in mine:
        thread.join(60)
    assert not set(multiprocessing.active_children()) - children
    assert not set(threading.enumerate()) - threads


@pytest.mark.parametrize(
    ("lanes", "cores", "processes", "workers"),
    [(16, 16, 1, 16), (8, 16, 1, 8), (16, 12, 1, 8), (16, 15, 1, 8), (16, 7, 1, 6), (8, 16, 4, 4),
     (3, 1, 2, 1), (128, 64, 1, 64)],
)  # fmt: skip
def test_lanes_are_spread_evenly_over_workers(
    monkeypatch: pytest.MonkeyPatch, lanes: int, cores: int, processes: int, workers: int
) -> None:
    monkeypatch.setattr(loaders, "available_cores", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert loaders.workers_for(lanes) == workers


@pytest.mark.usefixtures("small")
def test_a_batch_is_made_of_images_and_their_words(
    squares: Any, config: WordsConfig, tmp_path: Path
) -> None:
    """Place p of a batch is the next image of lane p mod 4, as it was stored."""
    made = squares(48)
    lanes = _lanes(made, made.shards(tmp_path, [12] * 4), tmp_path, config)
    pixels, content, targets = _steps(ShardLoader(lanes, workers=0), range(1))[0]
    names = [_ids(lanes, place % 4, place // 4, 1)[0] for place in range(8)]
    rows = [int(name) for name in names]
    np.testing.assert_array_equal(pixels, made.pixels[rows])
    assert content.tolist() == [[SIDE, SIDE]] * 8
    expected = caption_targets([made.captions[row] for row in rows], made.vocabulary)
    np.testing.assert_array_equal(targets, expected)


@pytest.mark.usefixtures("small")
def test_a_bad_image_is_logged_and_replaced_by_the_next(
    squares: Any, config: WordsConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = squares(48)
    pattern = made.shards(tmp_path, [12] * 4, bad=(3, 17))
    lanes = _lanes(made, pattern, tmp_path, config)
    lane = next(n for n in range(4) if "003" in _ids(lanes, n, 0, 12))
    names = _ids(lanes, lane, 0, 13)
    place = names.index("003")
    with caplog.at_level(logging.WARNING):
        shown = [e.id for e, _ in islice(lanes.decoded(lane, start=0), 12)]
    assert "replaced 003 by the next image" in caplog.text
    assert shown[place] == names[place + 1]
    assert [shown[n] for n in range(12) if n != place] == [
        names[n] for n in range(12) if n != place
    ]


def test_nothing_but_bad_images_is_an_error(
    squares: Any, config: WordsConfig, tmp_path: Path
) -> None:
    made = squares(48)
    pattern = made.shards(tmp_path, [12] * 4, bad=tuple(range(48)))
    lanes = _lanes(made, pattern, tmp_path, config)
    with pytest.raises(CorpusError, match="16 images"):
        next(lanes.decoded(0, start=0))


def test_lanes_must_fit_shards_and_batch(
    squares: Any, config: WordsConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = squares(40)
    pattern = made.shards(tmp_path, [10] * 4)
    for lanes_, batch_size in ((5, 10), (4, 10), (4, 44)):
        wrong = replace(config, lanes=lanes_, batch_size=batch_size)
        with pytest.raises(ConfigError, match="lanes"):
            _lanes(made, pattern, tmp_path, wrong)
    lanes = _lanes(made, pattern, tmp_path, config)
    monkeypatch.setattr(loaders, "rank_and_world", lambda: (0, 3))
    with pytest.raises(ConfigError, match="lanes is 4"):
        ShardLoader(lanes)


def test_other_corpora_cannot_be_streamed(squares: Any, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="squares"):
        shard_index([str(squares(4).manifest(tmp_path))], tmp_path)


class _KilledError(Exception):
    pass


@pytest.mark.usefixtures("small", "tiny_net")
@pytest.mark.parametrize("kill_at", [1, 4, 7, 10])
def test_a_run_killed_at_any_step_ends_the_same(
    squares: Any, config: WordsConfig, tmp_path: Path, kill_at: int
) -> None:
    lively = replace(config, smallest_crop=0.5, flip=True, dropout=0.3, weight_average=0.9)
    made = squares(40)
    pattern = made.shards(tmp_path, [9, 10, 11, 10], bad=(7,))
    lanes = _lanes(made, pattern, tmp_path, lively)

    def train(**options: Any) -> Any:
        network = new_network(lively, 4, weights=None, size_px=SIDE)
        stream = ShardLoader(lanes, workers=0)
        return train_words(network, stream, None, lively, **options).state_dict()

    def kill(report: StepReport) -> None:
        if report.step == kill_at:
            raise _KilledError

    unbroken = train()
    options = {"folder": tmp_path, "checkpoint_seconds": 0.0, "report_every": 1}
    with pytest.raises(_KilledError):
        train(progress=kill, **options)
    steps: list[int] = []
    resumed = train(progress=lambda r: steps.append(r.step), **options)
    assert steps == list(range(kill_at + 1, 11))
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)


@pytest.mark.usefixtures("tiny_net")
def test_the_command_learns_from_shards(
    squares: Any, toy_config: WordsConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = squares(200)
    pattern = made.shards(tmp_path / "shards", [25] * 8)
    settings = Config(
        vocabulary=VocabularyConfig(size=4),
        images=ImagesConfig(size_px=SIDE),
        words=replace(toy_config, lanes=4),
    )
    (tmp_path / "mine.toml").write_text(to_toml(settings), encoding="utf-8")
    arguments = ["train", "words", pattern, "--config", str(tmp_path / "mine.toml")]
    rest = ["--val", str(squares(60, seed=1).manifest(tmp_path / "val"))]
    rest += ["--set", "run.stream=true", "--set", "run.workers=1", "--set", "run.device=cpu"]
    out = ["--out", str(tmp_path / "detector")]
    assert main([*arguments, *rest, *out]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["words"] == 4
    assert not list(tmp_path.rglob("pixels.raw"))[1:]  # only that of the validation images
    assert (tmp_path / "detector" / "network.onnx").exists()


@pytest.mark.usefixtures("tiny_net")
def test_a_stream_teaches_what_a_table_teaches(
    squares: Any, toy_config: WordsConfig, tmp_path: Path
) -> None:
    made = squares(200)
    config = replace(toy_config, lanes=4)
    lanes = _lanes(made, made.shards(tmp_path, [25] * 8), tmp_path, config)
    for images, targets in ((made.table(), made.targets()), (ShardLoader(lanes, workers=0), None)):
        network = new_network(config, 4, weights=None, size_px=SIDE)
        losses: list[StepReport] = []
        train_words(network, images, targets, config, progress=losses.append, report_every=1)
        assert len(losses) == 120
        assert np.mean([report.loss for report in losses[-10:]]) < losses[0].loss / 40
