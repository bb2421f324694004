"""Makes the tiny networks under `data/`; they are committed, so that tests need no onnx package.

    python tests/words/make_networks.py

A "detector" of colours: 16 x 16 px in, each 4 x 4 px patch is one region of a 4 x 4 grid, and a
word's logit is a linear function of the patch's mean colour in 0..1. `red` is 16 (r - g - b) - 8:
+8 on pure red, -8 on black, -24 on white.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "data"
WORDS = ("a", "red", "green", "blue", "white", "dark", "the", "dog")
WEIGHTS = {  # r, g, b, bias
    "a": (0, 0, 0, 2),
    "red": (16, -16, -16, -8),
    "green": (-16, 16, -16, -8),
    "blue": (-16, -16, 16, -8),
    "white": (16, 16, 16, -40),
    "dark": (-8, -8, -8, 0),
    "the": (0, 0, 0, -1),
    "dog": (0, 0, 0, -9),
}


def colours(*, whole_image: bool = False, broken: bool = False) -> Any:
    """The network; `broken` gives NaN on any photograph with much blue (sqrt of a negative)."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table = np.array([WEIGHTS[w] for w in WORDS], dtype=np.float32)
    kernel = np.repeat(table[:, :3] / 16, 16, axis=1).reshape(len(WORDS), 3, 4, 4)
    weights = [
        numpy_helper.from_array(np.ascontiguousarray(kernel), "kernel"),
        numpy_helper.from_array(np.ascontiguousarray(table[:, 3]), "bias"),
        numpy_helper.from_array(np.array([0, 1, 3], np.int64), "one_token"),
    ]
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["map"], strides=[4, 4]),
        helper.make_node("Transpose", ["map"], ["region_logits"], perm=[0, 2, 3, 1]),
        helper.make_node("GlobalAveragePool", ["image"], ["means"]),
        helper.make_node("Reshape", ["means", "one_token"], ["features"]),
    ]
    outputs: list[tuple[str, list[str | int | None]]] = [
        ("region_logits", ["n", 4, 4, len(WORDS)]),
        ("features", ["n", 1, 3]),
    ]
    if whole_image:
        nodes += [
            helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["image_logits"]),
        ]
        outputs.append(("image_logits", ["n", len(WORDS)]))
    if broken:
        weights.append(numpy_helper.from_array(np.array([0.0, 0.0, -1.0], np.float32), "turn"))
        weights.append(numpy_helper.from_array(np.array([0.5, 0.5, 0.5], np.float32), "lift"))
        nodes[3:] = [
            helper.make_node("Reshape", ["means", "one_token"], ["flat"]),
            helper.make_node("Mul", ["flat", "turn"], ["turned"]),
            helper.make_node("Add", ["turned", "lift"], ["lifted"]),
            helper.make_node("Sqrt", ["lifted"], ["features"]),
        ]
    graph = helper.make_graph(
        nodes,
        "colours",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in outputs],
        initializer=weights,
    )
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="tests")
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "colours.onnx").write_bytes(colours().SerializeToString())
    (FOLDER / "classes.onnx").write_bytes(colours(whole_image=True).SerializeToString())
    (FOLDER / "broken.onnx").write_bytes(colours(broken=True).SerializeToString())
