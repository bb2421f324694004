"""Agreement with people on Flickr8k, against the values published for the COCO tools."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def judgements() -> ModuleType:
    """`benchmarks/judgements.py`, which reads the files and knows the published values."""
    pytest.importorskip("scipy")
    path = Path(__file__).parents[2] / "benchmarks" / "judgements.py"
    spec = importlib.util.spec_from_file_location("benchmark_judgements", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.real_data
@pytest.mark.slow
def test_published_expert_values(judgements: ModuleType) -> None:
    with_meteor = importlib.util.find_spec("pycocoevalcap") is not None
    directory = Path(os.environ["SIGHTWORDS_DATA"]) / "flickr8k-judgements"
    kept = judgements.without_references(judgements.read_expert(directory))
    assert len(kept) == 5664
    pairs = judgements.compare(kept, judgements.read_captions(directory))
    found = {
        score.metric: judgements.tau(*judgements.repeat(score, kept), "c")
        for score in judgements.score(pairs, with_meteor=with_meteor)
    }
    for metric, published in judgements.PUBLISHED_EXPERT.items():
        if metric in found:
            assert found[metric] == pytest.approx(published, abs=0.1), metric
