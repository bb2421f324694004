"""`benchmarks/grounded.py` from files to weights, where only the image tells dogs from cats."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from sightwords.errors import ConfigError  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.text.vocabulary_file import save_vocabulary  # noqa: E402
from sightwords.train.dmsm.image_features import ImageFeatures  # noqa: E402
from sightwords.train.grounded.export import load_weights  # noqa: E402
from sightwords.train.rerank.lists import Lists, starts_of  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "grounded.py"
WORDS = Vocabulary(("a", "dog", "cat", "runs", "sleeps"), (5, 4, 3, 2, 1), 15)
SETTINGS = (
    "units=16,layers=1,heads=2,feed_forward=32,words=3,batch_size=4,risk_batch_size=4,"
    "hypotheses=2,epochs=40,risk_epochs=3,learning_rate=0.01,weight_average=0.9,dropout=0"
)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not SCRIPT.exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    spec = importlib.util.spec_from_file_location("benchmark_grounded", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def _lists(ids: list[str], split: str) -> Lists:
    """ "a cat sleeps" is always the likelier one."""
    count = len(ids)
    return Lists(
        ids=np.array(ids),
        splits=np.array([split] * count),
        words=(*WORDS.words, "<unk>"),
        word_offsets=starts_of(np.full(count, 2)),
        word_ids=np.array([1, 2] * count, np.uint16),
        word_probs=np.array([0.5, 0.5] * count, np.float32),
        word_precisions=np.array([0.5, 0.5] * count, np.float32),
        offsets=starts_of(np.full(count, 2)),
        token_offsets=starts_of(np.array([3, 3] * count)),
        tokens=np.array([0, 2, 4, 0, 1, 3] * count, np.uint16),
        log_probs=np.array([-1.0, -2.0] * count, np.float32),
        coverage=np.ones(count, np.uint8),
    )


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Path]:
    """Images 1 to 24: odd ones show dogs; the last eight are for validation."""
    random = np.random.default_rng(0)
    names = [str(i) for i in range(1, 25)]
    signs = np.array([1.0 if int(name) % 2 else -1.0 for name in names])
    features = random.normal(0, 0.3, (24, 2, 4)) + signs[:, None, None] * np.array([2, -2, 1, -1])
    ImageFeatures(tuple(names), features.astype(np.float16)).save(tmp_path / "features.npz")
    save_vocabulary(WORDS, tmp_path / "vocabulary.json")
    for label, some in (("train", names[:16]), ("val", names[16:])):
        _lists(some, label).save(tmp_path / f"lists-{label}.npz")
        rows = [
            {"id": n, "captions": ["A dog runs." if int(n) % 2 else "A cat sleeps."] * 2}
            for n in some
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{label}.jsonl").write_text(text, encoding="utf-8")
    return {"folder": tmp_path, "out": tmp_path / "out"}


def _run(
    script: ModuleType, world: dict[str, Path], monkeypatch: pytest.MonkeyPatch, *more: str
) -> None:
    folder = world["folder"]
    arguments = [
        "grounded.py", "--language", str(folder), "--features", str(folder / "features.npz"),
        "--captions", str(folder / "train.jsonl"), "--lists", str(folder / "lists-train.npz"),
        "--val-captions", str(folder / "val.jsonl"), "--val-lists", str(folder / "lists-val.npz"),
        "--processes", "1", "--set", SETTINGS, "--out", str(world["out"]), *more,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()


def test_from_files_to_weights(
    script: ModuleType, world: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = str(world["folder"] / "lists-val.npz")
    _run(script, world, monkeypatch, "--try", "objective=risk", "--score", scored)
    log = [json.loads(line) for line in (world["out"] / "log.jsonl").open(encoding="utf-8")]
    kept = {row["lists"]: row for row in log if row["about"] == "kept"}
    # Without the image half of the first sentences are right; with it, all of them.
    both = kept["val0"], kept["val1"]
    assert all(row["alone"] == pytest.approx(row["oracle"]) for row in both)
    assert any(row["first"] < row["oracle"] for row in both)
    assert load_weights(world["out"] / "grounded.safetensors").config.units == 16
    assert (world["out"] / "captions.safetensors").exists()
    with np.load(world["out"] / "scores-lists-val.npz") as scores:
        assert scores["total"].shape == (16,)


def test_lists_of_test_images_are_refused(
    script: ModuleType, world: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _lists(["1", "2"], "coco-test").save(world["folder"] / "lists-train.npz")
    with pytest.raises(SystemExit, match="lists of split 'coco-test'"):
        _run(script, world, monkeypatch)


def test_the_worth_of_other_sentences_is_not_taken(
    script: ModuleType, world: dict[str, Path]
) -> None:
    path, captions = world["folder"] / "lists-train.npz", [str(world["folder"] / "train.jsonl")]
    lists = Lists.load(path)
    first = script.rewards(lists, path, captions, 1)
    np.testing.assert_array_equal(script.rewards(lists, path, [], 1), first)  # as it was kept
    turned = replace(lists, tokens=lists.tokens.reshape(-1, 2, 3)[:, ::-1].reshape(-1))
    again = script.rewards(turned, path, captions, 1)
    np.testing.assert_array_equal(again.reshape(-1, 2)[:, ::-1], first.reshape(-1, 2))


def test_settings_are_read_and_checked(script: ModuleType) -> None:
    config = script.changed(script.GroundedConfig(), "units=64,objective=risk,value_head=false")
    assert (config.units, config.objective, config.value_head) == (64, "risk", False)
    with pytest.raises(ConfigError, match="unknown setting 'unit'"):
        script.changed(config, "unit=3")
