"""Modules whose extra is not installed are not collected for their doctests."""

from __future__ import annotations

import importlib.util

NEEDS = {
    "torch": ["src/sightwords/train/*", "tests/train/two_processes.py"],
    "sqlalchemy": ["src/sightwords/study/*"],
    "numba": [
        "src/sightwords/language/kernels.py",
        "src/sightwords/train/language*",
        "tests/train/language/exact.py",
    ],
}

collect_ignore_glob = [
    pattern
    for module, patterns in NEEDS.items()
    if importlib.util.find_spec(module) is None
    for pattern in patterns
]
