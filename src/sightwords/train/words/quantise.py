"""Smaller and faster forms of a detector directory: int8 arithmetic, float16 storage.

Only this module and `runtime` touch ONNX Runtime: its tools for changing networks need the `onnx`
package, which inference does without.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sightwords.errors import BundleError, ImageError, InputError, require
from sightwords.files import atomic_path, write_bytes
from sightwords.images import ImageSource, decode
from sightwords.runtime import Network
from sightwords.settings import RESOLVED_NAME
from sightwords.train.words.export import Export
from sightwords.types import FloatArray
from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME, DetectorSpec
from sightwords.words.noisy_or import noisy_or, sigmoid

log = logging.getLogger(__name__)

Form = Literal["int8", "int8-static", "float16"]

SAMPLES = 64
"""Photos that are used to measure the range of each activation."""


def quantise_detector(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    form: Form = "int8",
    samples: Iterable[ImageSource] = (),
) -> Export:
    """Write another form of a detector; its calibration must be fitted again.

    - `int8`, for ViTs: matrix products in int8, one scale per column, activations scaled at run
      time. Convolutions stay as they are.
    - `int8-static`, for convolutional networks: these in int8 too, activations scaled by
      their range over the first 64 of `samples`.
    - `float16`: weights stored in half the bytes, converted to float32 on loading; not faster.
    """
    source, folder = Path(directory), Path(out)
    spec = DetectorSpec.load(source)
    if source.resolve() == folder.resolve():
        raise BundleError(f"{folder}: this is the detector itself; name another directory")
    inputs = list(islice(_prepared(samples, spec), SAMPLES))
    if form == "int8-static" and not inputs:
        raise InputError(
            "form is int8-static, but no photos were given; it needs some to measure activations"
        )
    with atomic_path(folder / NETWORK_NAME) as temporary:
        if form == "float16":
            _to_half(source / NETWORK_NAME, temporary)
        else:
            to_int8(source / NETWORK_NAME, temporary, inputs if form == "int8-static" else [])
        networks = Network(source / NETWORK_NAME), Network(temporary)
        difference = _difference(*networks, inputs or [_blotches(spec.input.size_px)])
    for name in (VOCABULARY_NAME, RESOLVED_NAME):
        if (source / name).exists():
            write_bytes(folder / name, (source / name).read_bytes())
    spec.save(folder)
    size = (folder / NETWORK_NAME).stat().st_size
    log.info("%s: %.1f MB, differs by %.2g from float32", folder, size / 1e6, difference)
    return Export(folder, size, difference)


def _prepared(samples: Iterable[ImageSource], spec: DetectorSpec) -> Iterator[FloatArray]:
    for sample in samples:
        try:
            yield spec.input.prepare(decode(sample))[None]
        except ImageError as error:
            log.warning("left out: %s", error)


def to_int8(source: Path, target: Path, samples: list[FloatArray]) -> None:
    """Write a network with matrix products in int8; with samples, convolutions too."""
    require("onnx", extra="train", purpose="quantisation")
    tools = require("onnxruntime.quantization", extra="train", purpose="quantisation")
    shapes = require(
        "onnxruntime.quantization.shape_inference", extra="train", purpose="quantisation"
    )
    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared, small = Path(folder) / NETWORK_NAME, Path(folder) / "int8.onnx"
        # Fuses and folds first; without it int8 can be slower than float32.
        try:
            shapes.quant_pre_process(os.fspath(source), os.fspath(prepared))
        except (IndexError, ValueError, AssertionError, AttributeError) as error:
            # The symbolic shapes of some versions of ONNX Runtime (1.30) fail on a ViT of some
            # versions of torch (2.11); the plain ones will do.
            log.info("symbolic shapes failed (%r); plain ones are used", error)
            shapes.quant_pre_process(
                os.fspath(source), os.fspath(prepared), skip_symbolic_shape=True
            )
        if samples:
            tools.quantize_static(prepared, small, _Samples(samples), per_channel=True)
        else:
            tools.quantize_dynamic(
                prepared, small, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True
            )
        target.write_bytes(small.read_bytes())


class _Samples:
    """What ONNX Runtime's static quantiser reads: one input at a time, then None."""

    def __init__(self, inputs: list[FloatArray]) -> None:
        self._inputs = iter(inputs)

    def get_next(self) -> dict[str, FloatArray] | None:
        image = next(self._inputs, None)
        return None if image is None else {"image": image}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tools, which log a line per matrix product on the root logger."""
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


def _difference(one: Network, other: Network, inputs: list[FloatArray]) -> float:
    """Largest difference of any probability, of regions and of images."""
    largest = 0.0
    for image in inputs:
        first, second = (_probs(network.run({"image": image})) for network in (one, other))
        pairs = zip(first, second, strict=True)
        largest = max(largest, *(float(np.abs(a - b).max()) for a, b in pairs))
    return largest


def _blotches(side: int) -> FloatArray:
    """An artificial image: squares of random colours."""
    colours = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    places = np.arange(side) * 16 // side
    image: FloatArray = colours[:, :, places][..., places]
    return image


def _probs(outputs: dict[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
    regions = sigmoid(outputs["region_logits"])
    image = outputs.get("image_logits")
    return regions, noisy_or(regions, axis=(1, 2)) if image is None else sigmoid(image)
