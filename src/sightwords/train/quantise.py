"""Smaller and faster forms of a detector directory: int8 arithmetic, float16 storage.

Only this module and `runtime` touch ONNX Runtime: its tools for changing networks need the `onnx`
package, which inference does without.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sightwords.errors import BundleError, require
from sightwords.files import atomic_path, write_bytes
from sightwords.runtime import Network
from sightwords.settings import RESOLVED_NAME
from sightwords.train.export import Export
from sightwords.types import FloatArray
from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME, DetectorSpec
from sightwords.words.noisy_or import noisy_or, sigmoid

log = logging.getLogger(__name__)

Form = Literal["int8", "float16"]


def quantise_detector(
    directory: str | os.PathLike[str], out: str | os.PathLike[str], *, form: Form = "int8"
) -> Export:
    """Write another form of a detector; its calibration must be fitted anew.

    - `int8`: matrix products in int8, a scale for each column, activations scaled as they come.
      Halves the time of a ViT and quarters its size; convolutions stay as they are.
    - `float16`: weights stored in half the bytes, made float32 again on loading; no loss of speed.
    """
    source, folder = Path(directory), Path(out)
    spec = DetectorSpec.load(source)
    if source.resolve() == folder.resolve():
        raise BundleError(f"{folder}: is the detector itself; name another directory")
    with atomic_path(folder / NETWORK_NAME) as temporary:
        (_to_int8 if form == "int8" else _to_half)(source / NETWORK_NAME, temporary)
        difference = _difference(Network(source / NETWORK_NAME), Network(temporary), spec)
    for name in (VOCABULARY_NAME, RESOLVED_NAME):
        if (source / name).exists():
            write_bytes(folder / name, (source / name).read_bytes())
    spec.save(folder)
    size = (folder / NETWORK_NAME).stat().st_size
    log.info("%s: %.1f MB, differs by %.2g from float32", folder, size / 1e6, difference)
    return Export(folder, size, difference)


def _to_int8(source: Path, target: Path) -> None:
    tools = require("onnxruntime.quantization", extra="train", purpose="quantisation")
    shapes = require(
        "onnxruntime.quantization.shape_inference", extra="train", purpose="quantisation"
    )
    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared = Path(folder) / NETWORK_NAME
        # Fuses and folds first; without it int8 can be slower than float32.
        shapes.quant_pre_process(os.fspath(source), os.fspath(prepared))
        small = Path(folder) / "int8.onnx"
        tools.quantize_dynamic(
            prepared, small, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True
        )
        shutil.copyfile(small, target)


@contextmanager
def _quiet() -> Iterator[None]:
    """The tools log a line for every matrix product, on the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _to_half(source: Path, target: Path) -> None:
    """Store every large float32 weight as float16 behind a cast, folded when the file is loaded."""
    onnx = require("onnx", extra="train", purpose="changing networks")
    model: Any = onnx.load(os.fspath(source))
    casts = []
    for weight in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < 1024:
            continue
        name = weight.name
        half = onnx.numpy_helper.from_array(values.astype(np.float16), f"{name}.float16")
        weight.CopyFrom(half)
        casts.append(onnx.helper.make_node("Cast", [half.name], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, os.fspath(target))


def _difference(one: Network, other: Network, spec: DetectorSpec) -> float:
    """Largest difference of any probability on made-up inputs."""
    side = spec.input.size_px
    rng = np.random.default_rng(0)
    blotches = rng.standard_normal((2, 3, 16, 16)).astype(np.float32)
    places = np.arange(side) * 16 // side
    inputs = blotches[:, :, places][..., places]
    first, second = (_probs(network.run({"image": inputs})) for network in (one, other))
    return max(float(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))


def _probs(outputs: dict[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
    regions = sigmoid(outputs["region_logits"])
    image = outputs.get("image_logits")
    return regions, noisy_or(regions, axis=(1, 2)) if image is None else sigmoid(image)
