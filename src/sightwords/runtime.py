"""Networks on ONNX Runtime; the only module that imports it.

    Network("network.onnx", threads=1).run({"image": batch}) -> {"region_logits": ..., ...}

Everything that can be wrong with a network (absent, damaged, other inputs than it takes, NaN in
what it gives) ends as one `BundleError` of one line that names the network. A network is read once,
checked (`onnx_check`) and loaded from these very bytes, so no other file can become part of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, InputError
from sightwords.onnx_check import refuse_unsafe
from sightwords.parallel import available_cores
from sightwords.sealed import Sealed, read_bytes
from sightwords.types import FloatArray

Dimension = int | None


class Network:
    """A loaded network. Calls from several threads are safe; each waits for no other."""

    def __init__(
        self,
        model: str | os.PathLike[str] | Sealed | bytes,
        *,
        threads: int | None = None,
        name: str | None = None,
    ) -> None:
        """Load from a path or from bytes; `threads` is all available cores unless given."""
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}; expected 1 or more, or None for all cores")
        self.name = name or (
            f"<network of {len(model)} bytes>" if isinstance(model, bytes) else str(model)
        )
        self._session = _open(_bytes_of(model, self.name), threads or available_cores(), self.name)
        self.inputs = _shapes(self._session.get_inputs())
        """Name -> shape; None where the network takes any length."""
        self.outputs = _shapes(self._session.get_outputs())

    def run(
        self,
        inputs: Mapping[str, npt.NDArray[Any]],
        *,
        outputs: Sequence[str] | None = None,
        about: str = "",
    ) -> dict[str, FloatArray]:
        """Feed arrays by name, get arrays by name (all outputs unless some are asked for).

        `about` names the input in errors, for example the photo's name.
        """
        names = list(self.outputs if outputs is None else outputs)
        self._check_names(inputs, names)
        try:
            values = self._session.run(names, dict(inputs))
        except Exception as error:  # ONNX Runtime has no common base class for its errors
            raise BundleError(
                f"{self.name}: the network failed{_on(about)} ({_one_line(error)}); "
                f"it takes {_describe(self.inputs)}"
            ) from error
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
                raise BundleError(f"{self.name}: the network's {name} is not an array of numbers")
            if not np.isfinite(value).all():
                raise BundleError(
                    f"{self.name}: the network's {name} holds NaN or infinity{_on(about)}; "
                    "the weights are damaged or overflow: take the network as it was exported"
                )
        return dict(zip(names, values, strict=True))

    def _check_names(self, inputs: Mapping[str, object], outputs: Sequence[str]) -> None:
        if set(inputs) != set(self.inputs) or not set(outputs) <= set(self.outputs):
            raise BundleError(
                f"{self.name}: asked for {', '.join(outputs)} from {', '.join(inputs)}; "
                f"the network takes {_describe(self.inputs)} and gives {_describe(self.outputs)}"
            )


def _bytes_of(model: str | os.PathLike[str] | Sealed | bytes, name: str) -> bytes:
    if isinstance(model, bytes):
        return model
    try:
        return read_bytes(model)
    except FileNotFoundError as error:
        raise BundleError(f"{name}: no such file; expected a network in ONNX format") from error
    except OSError as error:
        raise BundleError(
            f"{name}: cannot be read ({error.strerror}); expected a network in ONNX format"
        ) from error


def _open(model: bytes, threads: int, name: str) -> Any:
    # Imported late: it costs 0.1 s, and most verbs of the command line need no network.
    import onnxruntime

    refuse_unsafe(model, name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised; nothing is printed
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        # Its fallback would print, and try the same once more.
        session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:
        raise BundleError(
            f"{name}: is not a usable ONNX network ({_one_line(error)}); the file is damaged or "
            "incomplete: copy it again"
        ) from error
    session._model_bytes = None  # it would keep the file in memory beside the weights made of it
    return session


def _shapes(values: Sequence[Any]) -> dict[str, tuple[Dimension, ...]]:
    return {v.name: tuple(d if isinstance(d, int) else None for d in v.shape) for v in values}


def _describe(shapes: Mapping[str, tuple[Dimension, ...]]) -> str:
    """For messages.

    >>> _describe({"image": (None, 3, 224, 224)})
    'image (any, 3, 224, 224)'
    """
    return ", ".join(
        f"{name} ({', '.join('any' if d is None else str(d) for d in shape)})"
        for name, shape in shapes.items()
    )


def _on(about: str) -> str:
    return f" on {about}" if about else ""


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."
