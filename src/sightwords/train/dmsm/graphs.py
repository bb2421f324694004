"""The DMSM's two networks as ONNX graphs, node by node (section 5.1).

    image.onnx: features (N, T, D) -> vector (N, S)
    text.onnx:  own (W,), trigrams (W, K), windows (U, n), sentences (M, L) -> vector (M, S)

Matrices are stored as int8 with one float32 scale per column, tables of vectors with one per row.
They are converted when the file is loaded or the row is read: the arithmetic stays float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from sightwords.errors import require
from sightwords.rerank.dmsm import TextIndex
from sightwords.train.dmsm.network import ImageEncoder, TextEncoder
from sightwords.types import FloatArray

OPSET, IR_VERSION = 17, 8
"""Read by every ONNX Runtime since 1.12."""
SMALL = 1024
"""Tensors of fewer numbers stay float32."""


def image_graph(encoder: ImageEncoder, shape: tuple[int, int], *, int8: bool) -> bytes:
    """`ImageEncoder` as ONNX."""
    graph = _Graph(int8=int8)
    value = graph.node("Sub", "features", graph.constant(_array(encoder.mean)))
    value = graph.node("Mul", value, graph.constant(_array(encoder.scale)))
    if encoder.token is not None:
        value = graph.tanh_layer(value, encoder.token)
    width = _layers(encoder)[0].in_features
    value = graph.node("Reshape", value, graph.constant(np.array([-1, width], np.int64)))
    for layer in _layers(encoder):
        value = graph.tanh_layer(value, layer)
    graph.unit_length(value, "vector")
    return graph.serialise(
        "image",
        {"features": ("float", ["N", *shape])},
        {"vector": ("float", ["N", _layers(encoder)[-1].out_features])},
    )


def text_graph(encoder: TextEncoder, index: TextIndex, *, int8: bool) -> bytes:
    """`TextEncoder` as ONNX."""
    graph = _Graph(int8=int8)
    vectors = graph.sum_of(graph.rows(_padded(encoder.trigrams), "trigrams"))
    inputs: dict[str, Any] = {}
    if encoder.own is not None:
        vectors = graph.node("Add", vectors, graph.rows(_padded(encoder.own), "own"))
        inputs["own"] = ("int32", ["W"])
    if encoder.projection is not None:
        vectors = graph.node("MatMul", vectors, graph.matrix(encoder.projection))
    # One row for each word and place in the window: (W * n, H).
    hidden, window = encoder.hidden, index.window
    projected = graph.node("Reshape", vectors, graph.constant(np.array([-1, hidden], np.int64)))
    places = graph.node("Mul", "windows", graph.constant(np.array(window, np.int32)))
    places = graph.node("Add", places, graph.constant(np.arange(window, dtype=np.int32)))
    total = graph.sum_of(graph.node("Gather", projected, places))
    total = graph.node("Add", total, graph.constant(_array(encoder.bias)))
    local = graph.node("Tanh", total)  # (U, H)
    pooled = graph.node("ReduceMax", graph.node("Gather", local, "sentences"), axes=[1], keepdims=0)
    graph.unit_length(graph.tanh_layer(pooled, encoder.semantic), "vector")
    inputs |= {
        "trigrams": ("int32", ["W", "K"]),
        "windows": ("int32", ["U", window]),
        "sentences": ("int32", ["M", "L"]),
    }
    return graph.serialise(
        "text", inputs, {"vector": ("float", ["M", encoder.semantic.out_features])}
    )


class _Graph:
    """The nodes and weights so far; values are named by number."""

    def __init__(self, *, int8: bool) -> None:
        self.onnx = require("onnx", extra="train", purpose="ONNX export")
        self.int8 = int8
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def node(self, operation: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        name = output or f"v{len(self.nodes)}"
        made = self.onnx.helper.make_node(operation, list(inputs), [name], **attributes)
        self.nodes.append(made)
        return name

    def constant(self, values: Any) -> str:
        """Add numbers."""
        name = f"w{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def matrix(self, layer: nn.Linear) -> str:
        """A layer's weights (in, out), one scale per column."""
        values = _array(layer.weight).T
        if not self.int8 or values.size < SMALL:
            return self.constant(np.ascontiguousarray(values))
        whole, scale = _int8(values, axis=0)
        return self.node("Mul", self._floats(self.constant(whole)), self.constant(scale))

    def rows(self, table: FloatArray, places: str) -> str:
        """Rows of a table, one scale per row; only the rows that are read become float32."""
        if not self.int8 or table.size < SMALL:
            return self.node("Gather", self.constant(table), places)
        whole, scale = _int8(table, axis=1)
        found = self._floats(self.node("Gather", self.constant(whole), places))
        return self.node("Mul", found, self.node("Gather", self.constant(scale), places))

    def tanh_layer(self, value: str, layer: nn.Linear) -> str:
        """A fully connected layer."""
        product = self.node("MatMul", value, self.matrix(layer))
        return self.node("Tanh", self.node("Add", product, self.constant(_array(layer.bias))))

    def sum_of(self, value: str) -> str:
        """Over the middle axis."""
        return self.node("ReduceSum", value, self.constant(np.array([1], np.int64)), keepdims=0)

    def unit_length(self, value: str, output: str) -> None:
        """(N, S) over its length, which is at least 1e-12."""
        length = self.node("ReduceL2", value, axes=[1], keepdims=1)
        least = self.constant(np.array(1e-12, np.float32))
        self.node("Div", value, self.node("Max", length, least), output=output)

    def serialise(self, name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> bytes:
        """The model, checked by the onnx package."""
        helper = self.onnx.helper
        kinds = {"float": self.onnx.TensorProto.FLOAT, "int32": self.onnx.TensorProto.INT32}
        described = [
            [helper.make_tensor_value_info(k, kinds[kind], shape) for k, (kind, shape) in x.items()]
            for x in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, name, *described, self.weights)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="sightwords",
        )
        self.onnx.checker.check_model(model)
        data: bytes = model.SerializeToString()
        return data

    def _floats(self, value: str) -> str:
        return self.node("Cast", value, to=self.onnx.TensorProto.FLOAT)


def _int8(values: FloatArray, *, axis: int) -> tuple[Any, FloatArray]:
    """Whole numbers from -127 to 127 and the scale of each row or column.

    >>> whole, scale = _int8(np.array([[1.0, -2.0], [0.0, 0.0]], np.float32), axis=1)
    >>> whole.tolist(), (scale[:, 0] * 127).round(3).tolist()
    ([[64, -127], [0, 0]], [2.0, 0.0])
    """
    largest = np.abs(values).max(axis=axis, keepdims=True)
    scale = (largest / 127).astype(np.float32)
    whole = np.round(values / np.where(scale > 0, scale, 1)).astype(np.int8)
    return whole, scale


def _padded(table: Tensor) -> FloatArray:
    """With a row of zeros first, for missing words and trigrams."""
    values = _array(table)
    return np.concatenate([np.zeros((1, values.shape[1]), np.float32), values])


def _array(values: Tensor) -> FloatArray:
    found: FloatArray = values.detach().float().cpu().numpy()
    return found


def _layers(encoder: ImageEncoder) -> list[nn.Linear]:
    return [layer for layer in encoder.layers if isinstance(layer, nn.Linear)]
