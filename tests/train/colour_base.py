"""A tiny exported detector to build on: 32 px in, 4 x 4 regions, 8 features, three words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sightwords.images import Normalization
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.words.artefact import DetectorSpec, GridSpec, InputSpec

WORDS = ("a", "red", "dog")
HEAD = np.zeros((8, 3), dtype=np.float32)
HEAD[:, 1] = [16, -16, -16, 0, 0, 0, 0, 0]
BIAS = np.array([2.0, -8.0, -9.0], dtype=np.float32)


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
