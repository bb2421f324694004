"""Weights of trained networks as safetensors in half precision, and sums over pretrained ones."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.errors import InputError, require
from sightwords.files import atomic_path
from sightwords.sealed import sha256_of

if TYPE_CHECKING:
    from torch import Tensor, nn


def save_weights(
    network: nn.Module, path: str | os.PathLike[str], about: Mapping[str, str] | None = None
) -> None:
    """Write weights in float16; `about` goes into the file's header."""
    files = require("safetensors.torch", extra="train", purpose="saving weights")
    state = {k: v.detach().half().cpu().contiguous() for k, v in network.state_dict().items()}
    with atomic_path(path) as temporary:
        mode = temporary.stat().st_mode
        files.save_file(state, temporary, about)  # makes a new file that only its owner may read
        temporary.chmod(mode)


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """State in float32, and the header, of what `save_weights` wrote."""
    safetensors = require("safetensors", extra="train", purpose="loading weights")
    try:
        with safetensors.safe_open(os.fspath(path), framework="pt") as file:
            about = dict(file.metadata() or {})
            return {name: file.get_tensor(name).float() for name in file.keys()}, about  # noqa: SIM118
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise InputError(
            f"{path}: not a safetensors file of weights ({error}); give one that training wrote"
        ) from error


def weights_sum(weights: str | None) -> str:
    """A sum over pretrained weights, a file or a folder of files; a name stands for itself.

    >>> weights_sum(None), weights_sum("owner/model")
    ('', 'owner/model')
    """
    if weights is None or not Path(weights).exists():
        return weights or ""
    path = Path(weights)
    if path.is_file():
        return sha256_of(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = (f"{sha256_of(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
