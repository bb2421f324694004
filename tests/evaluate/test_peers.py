"""Nine published systems on real images: the figures that the COCO tools give them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightwords.evaluate.captions import evaluate_captions
from sightwords.evaluate.references import load_references

DATA = os.environ.get("SIGHTWORDS_DATA")
CIDER = [0.805, 0.830, 0.870, 0.899, 0.939, 1.000, 1.016, 1.076, 1.108]


@pytest.mark.slow
@pytest.mark.real_data
def test_nine_peers_on_coco_test() -> None:
    folder = Path(str(DATA))
    references = load_references(folder / "coco-test-00.tar")
    assert len(references) == 2337
    files = sorted((folder / "coco-test-peers").glob("*.json"))
    found = [evaluate_captions(file, references, metrics=["cider", "bleu_4"]) for file in files]
    assert sorted(round(report.values["cider"], 3) for report in found) == CIDER
    assert max(report.values["bleu_4"] for report in found) == pytest.approx(0.357, abs=5e-4)
