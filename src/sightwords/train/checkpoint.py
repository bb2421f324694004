"""Checkpoints of training in torch: whole or not at all, and only for the run they are of.

Each ends with its own sum; `integrity.is_whole` looks at it before one is loaded.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch

from sightwords.errors import ConfigError
from sightwords.train.integrity import summed_path
from sightwords.words.artefact import sha256_of


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


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any], *, identity: str) -> None:
    """Write the state of a run; `identity` tells it from runs of other settings or data."""
    with summed_path(path) as temporary:
        torch.save({"identity": identity, **state}, temporary)


def load_checkpoint(
    path: str | os.PathLike[str], *, identity: str, device: torch.device, differs: str
) -> dict[str, Any]:
    """The state that the same run left; `differs` names what another run has otherwise."""
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    if state.get("identity") != identity:
        raise ConfigError(
            f"{path}: is of a run with other {differs}; go on with those, choose another folder, "
            "or delete the file to start over"
        )
    return state
