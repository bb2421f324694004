"""Training goes on beside damaged files: it ends as it would have without the damage."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("numba")

from sightwords.errors import CorpusError  # noqa: E402
from sightwords.train.all import train_all  # noqa: E402
from sightwords.train.data.image_table import INDEX_NAME, PIXELS_NAME, cached_table, open_table  # noqa: E402
from sightwords.train.data.shard_loader.decoded_cache import HEAD, DecodedCache  # noqa: E402
from sightwords.train.data.shard_loader.index import shard_index  # noqa: E402
from sightwords.train.integrity import is_whole  # noqa: E402
from sightwords.train.recipe import Recipe, load_recipe  # noqa: E402
from sightwords.train.stages import Update  # noqa: E402
from sightwords.train.words.frozen.features import region_table  # noqa: E402
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.train.words.training import CHECKPOINT_NAME, train_words  # noqa: E402
from sightwords.types import Example, ImageRef  # noqa: E402

pytestmark = pytest.mark.torch


def flipped(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flipped,
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "list": lambda _: b"[1, 2]\n",
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.usefixtures("tiny_net")
def test_a_damaged_checkpoint_is_not_used(
    squares: Any, toy_config: Any, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, config = squares(20), replace(toy_config, epochs=2)

    def trained() -> dict[str, Any]:
        network = new_network(config, 4, weights=None, size_px=48)
        done = train_words(network, made.table(), made.targets(), config, folder=tmp_path)
        return dict(done.state_dict())

    first, path = trained(), tmp_path / CHECKPOINT_NAME
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    again = trained()
    assert CHECKPOINT_NAME in caplog.text
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert is_whole(path)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", [INDEX_NAME, PIXELS_NAME])
def test_a_damaged_table_is_decoded_again(
    squares: Any, tmp_path: Path, name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    examples = squares(4).examples(tmp_path / "photos")
    read: list[int] = []

    def given() -> list[Example]:
        read.append(len(read))
        return list(examples)

    def opened() -> Any:
        return cached_table(given, tmp_path / "cache", key="k", side_px=32, workers=1)

    pixels = opened().pixels.copy()
    opened()
    assert len(read) == 1
    [folder] = (tmp_path / "cache").iterdir()
    (folder / name).write_bytes(DAMAGES[how]((folder / name).read_bytes()))
    with pytest.raises(CorpusError, match="damaged image table"):
        open_table(folder)
    again = opened()
    assert len(read) == 2
    assert np.array_equal(again.pixels, pixels)
    assert "damaged image table" in caplog.text


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["index.json", "head.npz", "regions.raw"])
def test_a_damaged_table_of_regions_is_made_again(
    colour_base: Any, tmp_path: Path, name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    base = colour_base.write_base(tmp_path / "base")
    rng = np.random.default_rng(0)
    photo = colour_base.photograph(tmp_path / "a.png", rng, red=True)
    example = Example("a", ImageRef(str(photo)), ("red",), "train", "made")

    def table() -> Any:
        return region_table(base, lambda: [example], tmp_path / "cache", key="k", threads=1)

    first = table()
    [folder] = (tmp_path / "cache").iterdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / name).write_bytes(DAMAGES[how]((folder / name).read_bytes()))
    again = table()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert np.array_equal(again.regions, first.regions)
    assert name in caplog.text


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_index_of_shards_is_made_again(squares: Any, tmp_path: Path, how: str) -> None:
    pattern = squares(8).shards(tmp_path / "shards", [4, 4])
    first = shard_index([pattern], tmp_path / "cache")
    [path] = (tmp_path / "cache").iterdir()
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    assert shard_index([pattern], tmp_path / "cache") == first
    assert json.loads(path.read_text("utf-8"))["captions"] == first.captions


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="this system keeps no images")
def test_a_kept_image_that_the_disk_changed_is_decoded_again(
    squares: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [example] = squares(1).examples(tmp_path / "photos")
    kept = DecodedCache(tmp_path / "keep", key="k", images=1, side_px=8)
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    kept.put(0, example, (pixels, (8, 6)))
    found = kept.get(0, example)
    assert found is not None
    assert np.array_equal(found[0], pixels)
    assert found[1] == (8, 6)
    [path] = (tmp_path / "keep").glob("*/pixels.raw")
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert kept.get(0, example) is None
    assert len(whole) == pixels.nbytes + HEAD.itemsize
    assert "record 0 is damaged" in caplog.text


MANY = int(os.environ.get("SIGHTWORDS_DAMAGES", "5"))
"""So many single damages of `train all` are tried."""


@dataclass(frozen=True)
class Trained:
    """A whole run of `train all`, and what stopped ones left."""

    recipe: Recipe
    states: dict[str, Path]
    """Work folders: finished, stopped in the stage `language`, and in `grounded`."""
    fingerprint: object

    def files(self) -> list[tuple[str, str]]:
        """State and name of every file, shuffled; those that stopped runs go on from come first."""
        every = [
            (state, path.relative_to(folder).as_posix())
            for state, folder in self.states.items()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
        np.random.default_rng(0).shuffle(every)
        first = ["checkpoint.npz", "captions.checkpoint"]  # one of each stopped run
        return sorted(every, key=lambda place: Path(place[1]).name not in first)


class StoppedError(Exception):
    """In place of a kill."""


@pytest.fixture(scope="module")
def trained(colour_base: Any, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("trained")
    recipe = replace(load_recipe(colour_base.write_project(folder)), device="cpu", threads=1)

    def stopped_in(stage: str, unit: str) -> Path:
        def progress(update: Update) -> None:
            late = update.total is not None and update.done > update.total / 2
            if (update.stage, update.unit) == (stage, unit) and late:
                raise StoppedError

        with pytest.raises(StoppedError):
            train_all(recipe, folder / "out", work=folder / "work", progress=progress)
        return Path(shutil.copytree(folder / "work", folder / f"stopped-{stage}"))

    states = {"language": stopped_in("language", "tokens")}
    states["grounded"] = stopped_in("grounded", "epochs on lists")
    found = train_all(recipe, folder / "out", work=folder / "work")
    states["finished"] = folder / "work"
    return Trained(recipe, states, found.figures["bundle"]["fingerprint"])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(MANY))
def test_train_all_ends_as_without_the_damage(
    trained: Trained, tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    state, name = trained.files()[number % len(trained.files())]
    how = list(DAMAGES)[(number + number // len(DAMAGES)) % len(DAMAGES)]
    work = Path(shutil.copytree(trained.states[state], tmp_path / "work"))
    data = DAMAGES[how]((work / name).read_bytes())
    (work / name).write_bytes(data)
    found = train_all(trained.recipe, tmp_path / "out", work=work)
    print(f"{state}: {name} {how}")
    assert found.figures["bundle"]["fingerprint"] == trained.fingerprint
    assert not list(tmp_path.rglob("*.partial*"))
    if not name.startswith("cache/"):  # those who read it had finished: nobody looks at it again
        assert Path(name).name in caplog.text
