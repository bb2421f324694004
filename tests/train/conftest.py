"""Coloured squares to learn from, and the tiny backbone that `docs/training.md` shows."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from sightwords.config import WordsConfig
from sightwords.text.vocabulary import Vocabulary
from sightwords.types import Example, ImageRef

DOCS = Path(__file__).parents[2] / "docs" / "training.md"
SIDE = 48
SQUARE = 8
COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}


@pytest.fixture(scope="session")
def tiny_net() -> Any:
    """The class `TinyNet` of the documentation, registered as backbone `tiny`."""
    pytest.importorskip("torch")
    [source] = re.findall(r"```python\n(.*?class TinyNet.*?)```", DOCS.read_text("utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(source, names)
    return names["TinyNet"]


@pytest.fixture(scope="session")
def colour_base() -> Any:
    """The module beside this one: photographs of a square, and a detector to build on."""
    path = Path(__file__).with_name("colour_base.py")
    spec = importlib.util.spec_from_file_location("colour_base", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in one order, so that results are equal to the last bit; and faster, being small."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Squares:
    """Grey noise with a red square, a blue one, both, or none; captions say which."""

    vocabulary = Vocabulary(("a", "square", "blue", "red"), (400, 300, 200, 200), 1100)

    def __init__(self, count: int, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.pixels = rng.integers(90, 160, (count, SIDE, SIDE, 3)).astype(np.uint8)
        self.corners: list[dict[str, tuple[int, int]]] = []
        for image in self.pixels:
            shown = [name for name in COLOURS if rng.random() < 0.5]
            places = {name: self._place(rng, half) for half, name in enumerate(shown)}
            for name, (x, y) in places.items():
                image[y : y + SQUARE, x : x + SQUARE] = COLOURS[name]
            self.corners.append(places)
        self.captions = [[f"a {name} square" for name in c] or ["a"] for c in self.corners]

    @staticmethod
    def _place(rng: np.random.Generator, half: int) -> tuple[int, int]:
        """Each square has its half of the image, so that none hides another."""
        y = int(rng.integers(0, SIDE // 2 - SQUARE + 1)) + half * SIDE // 2
        return int(rng.integers(0, SIDE - SQUARE + 1)), y

    def table(self) -> Any:
        from sightwords.train.data.image_table import ImageTable

        return ImageTable(
            pixels=self.pixels,
            content=np.full((len(self.pixels), 2), SIDE, dtype=np.int32),
            ids=tuple(str(i) for i in range(len(self.pixels))),
            captions=tuple(tuple(c) for c in self.captions),
            resize="square",
        )

    def targets(self) -> npt.NDArray[np.float32]:
        from sightwords.train.words.labels import caption_targets

        return caption_targets(self.captions, self.vocabulary)

    def examples(self, folder: Path) -> list[Example]:
        """The same as PNG files."""
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for number, pixels in enumerate(self.pixels):
            path = folder / f"{number:03d}.png"
            Image.fromarray(pixels).save(path)
            captions = tuple(self.captions[number])
            found.append(Example(path.stem, ImageRef(str(path)), captions, "train", "squares"))
        return found

    def manifest(self, folder: Path) -> Path:
        """A CSV file of them, one caption a row."""
        path = folder / "squares.csv"
        rows = [
            f"{Path(e.image.location).name},{caption}"
            for e in self.examples(folder)
            for caption in e.captions
            if e.image is not None
        ]
        path.write_text("image,caption\n" + "\n".join(rows) + "\n", encoding="utf-8")
        return path

    def shards(self, folder: Path, sizes: list[int], *, bad: tuple[int, ...] = ()) -> str:
        """The same in shards of these sizes; some images are no images."""
        folder.mkdir(parents=True, exist_ok=True)
        starts = np.cumsum([0, *sizes])
        for shard, size in enumerate(sizes):
            with tarfile.open(folder / f"squares-{shard:02d}.tar", "w") as tar:
                for number in range(starts[shard], starts[shard] + size):
                    png = io.BytesIO()
                    Image.fromarray(self.pixels[number]).save(png, "PNG")
                    data = b"no image" if number in bad else png.getvalue()
                    said = json.dumps({"captions": self.captions[number]}).encode()
                    for ending, content in (("png", data), ("json", said)):
                        member = tarfile.TarInfo(f"{number:03d}.{ending}")
                        member.size = len(content)
                        tar.addfile(member, io.BytesIO(content))
        return str(folder / "squares-*.tar")


@pytest.fixture(scope="session")
def squares() -> type[Squares]:
    return Squares


@pytest.fixture
def toy_config() -> WordsConfig:
    """Learns the squares in a second."""
    return WordsConfig(
        backbone="tiny",
        epochs=12,
        batch_size=20,
        optimizer="adamw",
        schedule="cosine",
        learning_rate=0.02,
        head_rate=2.0,
        weight_decay=0.0,
        dropout=0.0,
    )
