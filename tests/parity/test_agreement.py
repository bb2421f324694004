"""Agreement with people on Flickr8k, against the values published for the COCO tools."""

from __future__ import annotations

import gzip
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sightwords.errors import CorpusError
from sightwords.metrics.agreement import agreement


@pytest.fixture(scope="module")
def judgements() -> ModuleType:
    """`benchmarks/judgements.py`, which reads the files and knows the published values."""
    path = Path(__file__).parents[2] / "benchmarks" / "judgements.py"
    spec = importlib.util.spec_from_file_location("benchmark_judgements", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    captions = [
        f"{image}.jpg#{n}@a {image} number {n} ." for image in ("dog", "cat") for n in range(5)
    ]
    captions[5] = captions[5].replace("#", "@")  # one image of the release is written so
    (tmp_path / "Flickr8k.token.txt.gz").write_bytes(gzip.compress("\n".join(captions).encode()))
    expert = "dog.jpg\tcat.jpg#1\t1\t2\t1\ndog.jpg\tdog.jpg#1\t4\t4\t4\n"
    (tmp_path / "ExpertAnnotations.txt").write_text(expert)
    crowd = "cat.jpg\tdog.jpg#0\t0.25\t1\t3\n"
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text(crowd)
    return tmp_path


def test_reads_the_files(judgements: ModuleType, directory: Path) -> None:
    expert = judgements.read_expert(directory)
    assert [j.judgements for j in expert] == [(1.0, 2.0, 1.0), (4.0, 4.0, 4.0)]
    assert [j.judgements for j in judgements.read_crowdflower(directory)] == [(0.25,)]
    captions = judgements.read_captions(directory)
    assert captions["cat.jpg#0"] == "a cat number 0 ."
    kept = judgements.without_references(expert)
    assert [j.caption for j in kept] == ["cat.jpg#1"]
    pairs = judgements.compare(kept, captions)
    assert pairs.candidates == (("a", "cat", "number", "1"),)
    assert len(pairs.references[0]) == 5
    assert len(judgements.compare(expert, captions).references[1]) == 4  # not against itself


def test_a_broken_line_is_named(judgements: ModuleType, directory: Path) -> None:
    (directory / "ExpertAnnotations.txt").write_text("dog.jpg\tcat.jpg#1\t1\n")
    with pytest.raises(CorpusError, match=r"ExpertAnnotations\.txt line 1: 3 columns, expected 5"):
        judgements.read_expert(directory)
    (directory / "CrowdFlowerAnnotations.txt").unlink()
    with pytest.raises(CorpusError, match="holds neither CrowdFlowerAnnotations"):
        judgements.read_crowdflower(directory)


@pytest.mark.real_data
@pytest.mark.slow
def test_published_expert_values(judgements: ModuleType) -> None:
    pytest.importorskip("scipy")
    with_meteor = importlib.util.find_spec("pycocoevalcap") is not None
    directory = Path(os.environ["SIGHTWORDS_DATA"]) / "flickr8k-judgements"
    kept = judgements.without_references(judgements.read_expert(directory))
    assert len(kept) == 5664
    pairs = judgements.compare(kept, judgements.read_captions(directory))
    found = {
        score.metric: 100 * agreement(*judgements.repeat(score, kept)).tau_c
        for score in judgements.score(pairs, with_meteor=with_meteor)
    }
    for metric, published in judgements.PUBLISHED_EXPERT.items():
        if metric in found:
            assert found[metric] == pytest.approx(published, abs=0.1), metric
