"""Decoded images that are kept: the same batches, decoded once, whatever the disk does."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("webdataset")

from sightwords.cli.main import main  # noqa: E402
from sightwords.config import Config, ImagesConfig, VocabularyConfig, WordsConfig  # noqa: E402
from sightwords.errors import ConfigError  # noqa: E402
from sightwords.settings import to_toml  # noqa: E402
from sightwords.train.data.canvas import canvas  # noqa: E402
from sightwords.train.data.shard_loader import decoded_cache as caches  # noqa: E402
from sightwords.train.data.shard_loader import lanes as lane_images  # noqa: E402
from sightwords.train.data.shard_loader.decoded_cache import HEAD, DecodedCache  # noqa: E402
from sightwords.train.data.shard_loader.index import shard_index  # noqa: E402
from sightwords.train.data.shard_loader.lanes import Lanes  # noqa: E402
from sightwords.train.data.shard_loader.loader import ShardLoader  # noqa: E402
from sightwords.types import Example, ImageRef  # noqa: E402

pytestmark = pytest.mark.torch

SIDE, IMAGES, BATCH = 48, 48, 8
EPOCH = IMAGES // BATCH  # steps


@pytest.fixture
def plain(
    squares: Any, toy_config: WordsConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Lanes:
    """48 images in four shards; one of them is not an image."""
    monkeypatch.setattr(lane_images, "BUFFER", 4)
    pattern = squares(IMAGES).shards(tmp_path / "shards", [12] * 4, bad=(17,))
    config = replace(toy_config, lanes=4, batch_size=BATCH, epochs=2)
    index = shard_index([pattern], tmp_path)
    return Lanes(index, squares.vocabulary, config, side_px=SIDE, resize="square")


def _cache(folder: Path, **changes: Any) -> DecodedCache:
    return DecodedCache(folder, **{"key": "squares", "images": IMAGES, "side_px": SIDE, **changes})


def _example(name: str, data: bytes = b"an image") -> Example:
    return Example(name, ImageRef("shard.tar", f"{name}.jpg", data), ("a",), "train", "test")


def _steps(lanes: Lanes, steps: range, workers: int = 0) -> list[Any]:
    stream = ShardLoader(lanes, workers=workers)
    return [stream.take(np.arange(step * BATCH, (step + 1) * BATCH)) for step in steps]


def _equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def _decoding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the images that are decoded from now on, in this process."""
    seen: list[str] = []
    draw = canvas

    def noted(example: Any, **options: Any) -> Any:
        seen.append(example.id)
        return draw(example, **options)

    monkeypatch.setattr(lane_images, "canvas", noted)
    return seen


@pytest.mark.parametrize("workers", [0, 3])
def test_the_cache_does_not_change_batches(plain: Lanes, tmp_path: Path, workers: int) -> None:
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    steps = range(3 * EPOCH)
    expected = _steps(plain, steps)
    assert _equal(_steps(lanes, steps, workers), expected)
    assert _equal(_steps(lanes, steps, workers), expected)  # now all of them come from the cache


def test_each_image_is_decoded_once(
    plain: Lanes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _decoding(monkeypatch)
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    _steps(lanes, range(4 * EPOCH))
    good = [name for name in seen if name != "017"]
    assert sorted(good) == [f"{n:03d}" for n in range(IMAGES) if n != 17]
    assert seen.count("017") > 1  # it might be repaired meanwhile
    _steps(replace(plain, cache=_cache(tmp_path / "keep")), range(EPOCH))  # another run finds them
    assert set(seen[len(good) :]) <= {"017", *good}
    assert len([name for name in seen if name != "017"]) == IMAGES - 1


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_share_the_cache(
    plain: Lanes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """This process does not decode what three workers stored, however they were started."""
    context = multiprocessing.get_context(method)
    monkeypatch.setattr(multiprocessing, "get_context", lambda: context)
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    _steps(lanes, range(2 * EPOCH), workers=3)
    seen = _decoding(monkeypatch)
    _steps(lanes, range(EPOCH))
    assert set(seen) <= {"017"}


def test_other_images_sizes_and_boots_are_not_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.arange(SIDE * SIDE * 3, dtype=np.uint32).astype(np.uint8).reshape(SIDE, SIDE, 3)
    cache = _cache(tmp_path)
    four, five, six = map(_example, ("four", "five", "six"))
    cache.put(5, five, (pixels, (48, 20)))
    found = cache.get(5, five)
    assert found is not None
    np.testing.assert_array_equal(found[0], pixels)
    assert found[1] == (48, 20)
    assert cache.get(4, four) is None
    assert cache.get(5, six) is None  # the shard has another image in this place now
    assert cache.get(5, _example("five", b"edited")) is None
    assert _cache(tmp_path).get(5, five) is not None
    assert _cache(tmp_path, key="others").get(5, five) is None
    assert _cache(tmp_path, images=IMAGES - 1).get(5, five) is None
    assert _cache(tmp_path, side_px=32).get(5, five) is None
    monkeypatch.setattr(caches, "_boot", lambda: "the next one")
    assert _cache(tmp_path).get(5, five) is None


def test_the_next_boot_frees_the_space_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a full disk would stay full."""
    pixels = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    last = _cache(tmp_path)
    last.put(5, _example("five"), (pixels, (SIDE, SIDE)))
    [path] = tmp_path.glob("*/pixels.raw")
    _cache(tmp_path)  # another process of this boot
    assert path.stat().st_size
    monkeypatch.setattr(caches, "_boot", lambda: "the next one")
    cache = _cache(tmp_path)
    assert not path.stat().st_size
    assert last.get(5, _example("five")) is None  # another machine with the same folder
    cache.put(7, _example("seven"), (pixels, (SIDE, SIDE)))
    assert last.get(5, _example("five")) is None
    assert cache.get(7, _example("seven")) is not None


def test_replaced_shards_are_decoded_again(squares: Any, plain: Lanes, tmp_path: Path) -> None:
    """Other images with the same ids: the key knows remote shards only by name."""
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    before = _steps(lanes, range(EPOCH))
    squares(IMAGES, seed=1).shards(tmp_path / "shards", [12] * 4, bad=(17,))
    expected = _steps(plain, range(EPOCH))
    assert not _equal(before, expected)
    assert _equal(_steps(lanes, range(EPOCH)), expected)


def test_a_write_that_is_cut_short_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record held another image, whose check sum still follows the pixels."""
    cache, pixels = _cache(tmp_path), np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    cache.put(5, _example("five"), (pixels, (SIDE, SIDE)))
    write = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda file, parts, place: write(file, parts[:1], place))
    cache.put(5, _example("six"), (pixels + 6, (SIDE, SIDE)))
    assert cache.get(5, _example("five")) is None
    assert cache.get(5, _example("six")) is None


def test_runs_do_not_share_a_cache_if_boots_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process ids are no substitute: they repeat, above all in containers."""

    def absent(*_: Any, **__: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", absent)
    cache, pixels = _cache(tmp_path), np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    cache.put(5, _example("five"), (pixels, (SIDE, SIDE)))
    assert cache.get(5, _example("five")) is not None
    assert _cache(tmp_path).get(5, _example("five")) is None


def _no_space(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


Space = namedtuple("Space", ["total", "used", "free"])


@pytest.mark.parametrize("how", ["error", "part", "nearly full"])
def test_a_full_disk_only_costs_time(
    plain: Lanes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    expected = _steps(plain, range(2 * EPOCH))
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    _steps(lanes, range(1))
    write = os.pwritev
    if how == "nearly full":
        monkeypatch.setattr(caches, "CHECK_EVERY", 1)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Space(1000, 900, 100))
    else:
        short = lambda file, parts, place: write(file, [parts[0][:1]], place)  # noqa: E731
        monkeypatch.setattr(os, "pwritev", _no_space if how == "error" else short)
    seen = _decoding(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert _equal(_steps(lanes, range(2 * EPOCH)), expected)
    messages = [r.getMessage() for r in caplog.records if "further images" in r.getMessage()]
    assert len(messages) == 1
    assert str(tmp_path / "keep") in messages[0]
    assert len(seen) > 1.5 * IMAGES  # all but the first batch, in both epochs


def test_a_truncated_file_and_a_failing_disk_only_cost_time(
    plain: Lanes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = _steps(plain, range(EPOCH))
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    _steps(lanes, range(EPOCH))
    [pixels] = (tmp_path / "keep").glob("*/pixels.raw")
    os.truncate(pixels, pixels.stat().st_size // 2)
    assert _equal(_steps(lanes, range(EPOCH)), expected)

    def failing(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", failing)
    with caplog.at_level(logging.WARNING):
        assert _equal(_steps(lanes, range(EPOCH)), expected)
    assert "Input/output error" in caplog.text


def test_a_deleted_folder_only_costs_time(plain: Lanes, tmp_path: Path) -> None:
    lanes = replace(plain, cache=_cache(tmp_path / "keep"))
    expected = _steps(plain, range(2 * EPOCH))
    shutil.rmtree(tmp_path / "keep")
    assert _equal(_steps(lanes, range(2 * EPOCH)), expected)


def test_images_beyond_the_indexed_ones_are_not_cached(plain: Lanes, tmp_path: Path) -> None:
    """Their numbers belong to the next shard."""
    counts = dict(plain.index.images)
    first = min(counts)
    counts[first] -= 5
    index = replace(plain.index, images=counts)
    lanes = replace(plain, index=index, cache=_cache(tmp_path / "keep"))
    expected = _steps(replace(plain, index=index), range(3 * EPOCH))
    assert _equal(_steps(lanes, range(3 * EPOCH)), expected)


def test_a_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        _cache(tmp_path / "file")
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", _no_space, raising=False)
        with pytest.raises(OSError, match="keep/decoded-"):
            _cache(tmp_path / "keep")
    monkeypatch.delattr(os, "preadv")
    with pytest.raises(ConfigError, match="keep_decoded"):
        _cache(tmp_path)


@pytest.mark.usefixtures("tiny_net")
def test_the_command_keeps_images(
    squares: Any, toy_config: WordsConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = squares(40).shards(tmp_path / "shards", [10] * 4)
    settings = Config(
        vocabulary=VocabularyConfig(size=4),
        images=ImagesConfig(size_px=SIDE),
        words=replace(toy_config, lanes=4, epochs=2),
    )
    (tmp_path / "mine.toml").write_text(to_toml(settings), encoding="utf-8")
    command = ["train", "words", pattern, "--config", str(tmp_path / "mine.toml")]
    command += ["--set", "run.device=cpu", "--set", f"run.keep_decoded={tmp_path / 'keep'}"]
    command += ["--out", str(tmp_path / "detector")]
    with pytest.raises(SystemExit):
        main(command)
    assert "run.stream" in capsys.readouterr().err
    assert main([*command, "--set", "run.stream=true", "--set", "run.workers=1"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == 4
    [pixels] = (tmp_path / "keep").glob("*/pixels.raw")
    assert pixels.stat().st_size == 40 * (3 * SIDE**2 + HEAD.itemsize)
