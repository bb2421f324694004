"""Photographs of one coloured square, and a tiny exported detector to build on.

The detector: 32 px in, 4 x 4 regions, 8 features, three words. `SETTINGS` train a whole captioner
on such photographs in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from sightwords.images import Normalization
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec

WORDS = ("a", "red", "dog")
HEAD = np.zeros((8, 3), dtype=np.float32)
HEAD[:, 1] = [16, -16, -16, 0, 0, 0, 0, 0]
BIAS = np.array([2.0, -8.0, -9.0], dtype=np.float32)
SETTINGS = """
held_out_share = 0.4
licence = "CC0-1.0"
[vocabulary]
size = 20
[words]
epochs = 30
batch_size = 16
learning_rate = 0.002
[language]
table_bits = 14
epochs = 20
[dmsm]
epochs = 2
hidden_units = 8
semantic_units = 8
[grounded]
units = 16
layers = 1
heads = 2
feed_forward = 16
epochs = 4
batch_size = 8
risk_epochs = 1
hypotheses = 8
[generation]
m_best = 20
beam_width = 20
coverage = 2
[mert]
restarts = 2
"""
"""Of `train all`, below a table [data] that names the photographs."""


def photograph(path: Path, rng: np.random.Generator, *, red: bool) -> Path:
    """Dark noise with a square of one colour, red or blue."""
    pixels = rng.integers(40, 90, (32, 32, 3)).astype(np.uint8)
    pixels[8:16, 16:24] = (230, 10, 10) if red else (10, 10, 230)
    Image.fromarray(pixels).save(path)
    return path


def write_corpus(
    folder: Path, count: int, captions: Callable[[bool, np.random.Generator], Sequence[str]]
) -> Path:
    """`00.png`, red, `01.png`, blue, ... and `photos.csv` with what `captions` says of each."""
    rng = np.random.default_rng(0)
    lines = ["image,caption"]
    for number in range(count):
        red = number % 2 == 0
        name = photograph(folder / f"{number:02d}.png", rng, red=red).name
        lines += [f"{name},{caption}" for caption in captions(red, rng)]
    path = folder / "photos.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


DATA = """
[data]
train = ["{folder}/photos.csv"]
base = "{folder}/base"
name = "squares"
"""


def write_project(folder: Path) -> Path:
    """Forty-eight photographs with captions, a base to build on, and settings: `mine.toml`."""

    def captions(red: bool, rng: np.random.Generator) -> list[str]:
        colour = "red" if red else "blue"
        place = ("wall", "floor")[int(rng.integers(2))]  # which nobody can see
        return [f"a {colour} square on a {place}", f"there is a {colour} square"]

    write_base(folder / "base")
    write_corpus(folder, 48, captions)
    settings = DATA.format(folder=folder.as_posix()) + SETTINGS
    (folder / "mine.toml").write_text(settings, encoding="utf-8")
    return folder / "mine.toml"


def write_base(folder: Path) -> Path:
    """Channels: red, green, blue of each cell, then mixtures of them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    mixes = np.array(
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 1, 1], [1, 0, -1]]
    )
    kernel = np.repeat(mixes / 64, 64, axis=1).reshape(8, 3, 8, 8).astype(np.float32)
    array = numpy_helper.from_array
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "kernel"], ["map"], strides=[8, 8]),
            helper.make_node("Relu", ["map"], ["positive"]),
            helper.make_node("Transpose", ["positive"], ["regions"], perm=[0, 2, 3, 1]),
            helper.make_node("MatMul", ["regions", "head"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["region_logits"]),
            helper.make_node("Reshape", ["regions", "tokens"], ["features"]),
        ],
        "base",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [
            helper.make_tensor_value_info("region_logits", TensorProto.FLOAT, ["n", 4, 4, 3]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 16, 8]),
        ],
        initializer=[
            array(kernel, "kernel"),
            array(HEAD, "head"),
            array(BIAS, "bias"),
            array(np.array([0, 16, 8], np.int64), "tokens"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    folder.mkdir(parents=True)
    (folder / "network.onnx").write_bytes(model.SerializeToString())
    onnx.checker.check_model(model)
    save_vocabulary(Vocabulary(WORDS, (9, 5, 1), 20), folder / "vocabulary.json")
    unit = Normalization("RGB", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    DetectorSpec(
        backbone="colours",
        pooling="noisy_or",
        input=InputSpec(resize="square", size_px=32, resample="bilinear", normalization=unit),
        grid=GridSpec(rows=4, columns=4, window=1, stride=1, canvas=4),
        words=len(WORDS),
    ).save(folder)
    return folder
