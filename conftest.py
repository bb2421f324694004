"""Doctests of modules whose extra is not installed are not collected."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob.append("src/sightwords/train/*")
