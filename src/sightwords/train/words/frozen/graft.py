"""A new last layer on an exported detector (section 3.1): what `frozen` training writes.

network.onnx -> the features phi(b_ij) under its last layer; a matrix and a bias -> network.onnx

The network itself stays as it is, in whatever arithmetic it was exported; the new last layer is
float32. Works on the file alone: neither torch nor the backbone's own weights are needed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import numpy as np

from sightwords.errors import BundleError, require
from sightwords.types import FloatArray

LOGITS = "region_logits"
REGIONS = "region_features"
HEADS = (LOGITS, "patch_logits")
"""Outputs of the last layer; the second is of a network with patches."""


def open_model(path: str | os.PathLike[str]) -> Any:
    """The graph of an exported network."""
    onnx = require("onnx", extra="train", purpose="training on an exported detector")
    return onnx.load(os.fspath(path))


def with_regions(model: Any) -> bytes:
    """The network with the features of its regions (B, rows, columns, C) as one more output."""
    copy = _copy(model)
    found = under_head(copy)
    copy.graph.node.append(_node("Identity", [found], [REGIONS]))
    copy.graph.output.append(_float_output(REGIONS, ["batch", None, None, None]))
    data: bytes = copy.SerializeToString()
    return data


def with_head(model: Any, weight: FloatArray, bias: FloatArray) -> bytes:
    """The network with another last layer: weight (C, V), bias (V,); on patches too, if the
    network has them.
    """
    onnx = require("onnx", extra="train", purpose="training on an exported detector")
    copy = _copy(model)
    graph = copy.graph
    places = {o.name: place for place, o in enumerate(graph.output) if o.name in HEADS}
    under = {name: under_head(copy, name) for name in places}
    shapes = {
        name: [d.dim_param or d.dim_value for d in graph.output[place].type.tensor_type.shape.dim]
        for name, place in places.items()
    }
    for place in sorted(places.values(), reverse=True):
        del graph.output[place]
    _drop_unused(graph, keep=set(under.values()))
    array = onnx.numpy_helper.from_array
    graph.initializer.append(array(np.ascontiguousarray(weight, dtype=np.float32), "grafted"))
    graph.initializer.append(array(bias.astype(np.float32), "grafted_bias"))
    for name, place in places.items():
        product = f"grafted_{name}"
        graph.node.append(_node("MatMul", [under[name], "grafted"], [product]))
        graph.node.append(_node("Add", [product, "grafted_bias"], [name]))
        graph.output.insert(place, _float_output(name, [*shapes[name][:-1], len(bias)]))
    data: bytes = copy.SerializeToString()
    return data


def under_head(model: Any, output: str = LOGITS) -> str:
    """Name of what the last layer multiplies: the features of the regions, or of patches.

    Follows the output back to the first product with a stored matrix; under int8 arithmetic
    its input is rounded, and the values before rounding are taken.
    """
    made_by = {name: node for node in model.graph.node for name in node.output}
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    waiting = [output]
    while waiting:
        node = made_by.get(waiting.pop(0))
        if node is None:
            continue
        matrix = stored.get(node.input[1]) if len(node.input) > 1 else None
        if node.op_type in ("MatMul", "MatMulInteger") and matrix is not None:
            source = made_by.get(node.input[0])
            if source is not None and source.op_type == "DynamicQuantizeLinear":
                return str(source.input[0])
            return str(node.input[0])
        waiting += list(node.input)
    raise BundleError(
        f"the network's {output} are not a matrix times features of regions, so that its last "
        "layer cannot be replaced; train on one that sightwords train words has written"
    )


def _drop_unused(graph: Any, keep: Collection[str]) -> None:
    """Remove nodes, weights and shapes that neither an output nor `keep` needs."""
    needed = {*keep, *(output.name for output in graph.output)}
    kept = []
    for node in reversed(graph.node):  # nodes come after those they need
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    for field, values in (
        (graph.node, kept[::-1]),
        (graph.initializer, [w for w in graph.initializer if w.name in needed]),
        (graph.value_info, [v for v in graph.value_info if v.name in needed]),
    ):
        del field[:]
        field.extend(values)


def _copy(model: Any) -> Any:
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def _node(kind: str, inputs: list[str], outputs: list[str]) -> Any:
    onnx = require("onnx", extra="train", purpose="training on an exported detector")
    return onnx.helper.make_node(kind, inputs, outputs)


def _float_output(name: str, shape: list[str | int | None]) -> Any:
    onnx = require("onnx", extra="train", purpose="training on an exported detector")
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
