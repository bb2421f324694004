"""Checkpoints of training in torch: whole or not at all, and only for the run they are of."""

from __future__ import annotations

import os
from typing import Any

import torch

from sightwords.errors import ConfigError
from sightwords.files import atomic_path


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any], *, identity: str) -> None:
    """Write the state of a run; `identity` tells it from runs of other settings or data."""
    with atomic_path(path) as temporary:
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
