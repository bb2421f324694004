"""The oracle of language training."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def learn_exactly() -> Any:
    """The kernel of the module `exact` beside this one."""
    path = Path(__file__).with_name("exact.py")
    spec = importlib.util.spec_from_file_location("exact", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.learn_exactly
