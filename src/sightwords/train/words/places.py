"""Two more outputs of a ViT's network, from which `words.maps` tells where a word is.

    network.onnx -> the same network, with patch_logits (B, n, n, V) and attention (B, n, n)

A region is the mean of a window of patches, and fc8 follows: the same fc8 on each patch gives the
map before it is blurred. Attention is that of the class token in the last layer, the mean over
heads. The network computes both values anyway; only the ONNX graph changes. Every other output, and
so every word and caption, stays the same bit for bit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.errors import BundleError, require
from sightwords.files import atomic_path, write_bytes
from sightwords.runtime import Network
from sightwords.settings import RESOLVED_NAME
from sightwords.words.artefact import (
    CALIBRATION_NAME,
    NETWORK_NAME,
    VOCABULARY_NAME,
    DetectorSpec,
    GridSpec,
)
from sightwords.words.calibration import Calibration

log = logging.getLogger(__name__)

PATCH_LOGITS, ATTENTION = "patch_logits", "attention"


def place_detector(directory: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Write a copy of the detector with two more outputs; it keeps its calibration."""
    source, folder = Path(directory), Path(out)
    spec = DetectorSpec.load(source)
    if source.resolve() == folder.resolve():
        raise BundleError(f"{folder}: this is the detector itself; name another directory")
    with atomic_path(folder / NETWORK_NAME) as temporary:
        if not add_places(source / NETWORK_NAME, temporary, spec.grid):
            raise BundleError(
                f"{source / NETWORK_NAME}: has no windows of {spec.grid.window} x "
                f"{spec.grid.window} patches under an attention of "
                f"{spec.grid.canvas**2 + 1} tokens, or has patch_logits already; expected a ViT's "
                "network as an earlier release exported it"
            )
        _check_same(Network(source / NETWORK_NAME), Network(temporary), spec.input.size_px)
    for name in (VOCABULARY_NAME, RESOLVED_NAME):
        if (source / name).exists():
            write_bytes(folder / name, (source / name).read_bytes())
    spec.save(folder)
    if (source / CALIBRATION_NAME).exists():
        Calibration.load(source).save(folder)
    return folder


def add_places(source: Path, target: Path, grid: GridSpec) -> bool:
    """Write the network with the two outputs; False if it has no such layers."""
    onnx = require("onnx", extra="train", purpose="changing networks")
    model: Any = onnx.load(os.fspath(source))
    graph = model.graph
    pool = _window(graph, grid)
    weights = _last_attention(onnx.shape_inference.infer_shapes(model).graph, grid)
    if pool is None or weights is None or PATCH_LOGITS in {o.name for o in graph.output}:
        return False
    side, words = grid.canvas, graph.output[0].type.tensor_type.shape.dim[-1].dim_value
    graph.node.extend(_head_on_patches(graph, pool))
    graph.node.extend(_attention_nodes(onnx, graph, weights, side))
    batch = graph.input[0].type.tensor_type.shape.dim[0].dim_param or "batch"
    for name, shape in ((PATCH_LOGITS, [side, side, words]), (ATTENTION, [side, side])):
        info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, *shape])
        graph.output.append(info)
    target.write_bytes(model.SerializeToString())
    return True


def _window(graph: Any, grid: GridSpec) -> Any | None:
    """The node that averages windows of patches into regions."""
    if grid.stride != 1 or grid.window == 1:
        return None
    upstream = {node.name for node in _ancestors(graph, "region_logits", until=None)}
    for node in graph.node:
        window = [list(a.ints) for a in node.attribute if a.name == "kernel_shape"]
        if node.op_type == "AveragePool" and node.name in upstream:
            return node if window == [[grid.window, grid.window]] else None
    return None


def _last_attention(graph: Any, grid: GridSpec) -> str | None:
    """The last weights (B, heads, T, T) over one class token and the patches; None if others."""
    tokens = grid.canvas**2 + 1
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.value_info}
    found = [node.output[0] for node in graph.node if node.op_type == "Softmax"]
    fits = bool(found) and shapes.get(found[-1], [])[2:] == [tokens, tokens]
    return found[-1] if fits else None


def _ancestors(graph: Any, output: str, *, until: str | None) -> list[Any]:
    """Nodes that `output` comes from, in the graph's order; those before `until` left out."""
    wanted, found = {output}, []
    for node in reversed(graph.node):
        if wanted & set(node.output) and until not in node.output:
            found.append(node)
            wanted |= set(node.input)
    return found[::-1]


def _head_on_patches(graph: Any, pool: Any) -> list[Any]:
    """Copies of the nodes between the windows' means and the logits, fed with the patches."""
    blurred, patches = pool.output[0], pool.input[0]
    between = _between(graph, blurred)
    names = {blurred: patches, "region_logits": PATCH_LOGITS}
    for node in between:
        for name in node.output:
            names.setdefault(name, f"{name}_of_patches")
    copies = []
    for node in between:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = f"{node.name}_of_patches"
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names[name] for name in node.output]
        copies.append(copy)
    return copies


def _between(graph: Any, start: str) -> list[Any]:
    """Nodes on a path from the value `start` to the regions' logits."""
    reached, found = {start}, []
    for node in _ancestors(graph, "region_logits", until=start):
        if reached & set(node.input):
            reached |= set(node.output)
            found.append(node)
    return found


def _attention_nodes(onnx: Any, graph: Any, weights: str, side: int) -> Sequence[Any]:
    """(B, heads, T, T) -> what the first token gives to each patch, the mean of the heads."""
    constants = {
        "place_first": np.array([0, 1], dtype=np.int64),  # token 0, looking from patch 1 on
        "place_last": np.array([1, 1 + side * side], dtype=np.int64),
        "place_axes": np.array([2, 3], dtype=np.int64),
        "place_heads": np.array([1, 2], dtype=np.int64),
        "place_shape": np.array([-1, side, side], dtype=np.int64),
    }
    graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in constants.items())
    node = onnx.helper.make_node
    cut = [weights, "place_first", "place_last", "place_axes"]
    return [
        node("Slice", cut, ["place_row"], "place_slice"),
        node("ReduceMean", ["place_row", "place_heads"], ["place_mean"], "place_mean", keepdims=0),
        node("Reshape", ["place_mean", "place_shape"], [ATTENTION], "place_reshape"),
    ]


def _check_same(before: Network, after: Network, side_px: int) -> None:
    """What both give must agree to the bit."""
    noise = np.random.default_rng(0).standard_normal((2, 3, side_px, side_px))
    inputs = {"image": noise.astype(np.float32)}
    one, other = before.run(inputs), after.run(inputs)
    different = [name for name in one if not np.array_equal(one[name], other[name])]
    if different:
        raise BundleError(
            f"{before.name}: {', '.join(different)} would change with the outputs added; nothing "
            "is written: export the detector again instead"
        )
