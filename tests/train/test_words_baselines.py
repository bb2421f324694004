"""`benchmarks/words_baselines.py` on coloured squares: one row trained, judged and written."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.evaluate.word_scores import read_word_scores  # noqa: E402
from sightwords.rerank.dmsm import Dmsm  # noqa: E402
from sightwords.text.vocabulary_file import save_vocabulary  # noqa: E402
from sightwords.train.dmsm.image_features import ImageFeatures  # noqa: E402
from sightwords.train.language.data import read_detections  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (BENCHMARKS / "words_baselines.py").exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("localisation", "paper_outputs", "words_baselines"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import words_baselines  # type: ignore[import-not-found]

    monkeypatch.setattr(words_baselines, "NAMES", {"thing": "red blue absent"})
    module: ModuleType = words_baselines
    return module


def test_a_row(
    script: ModuleType,
    squares: Any,
    tiny_net: Any,
    toy_config: WordsConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = script.Row(toy_config, 48, None, 1e9)
    monkeypatch.setattr(script, "ROWS", {"tiny": row, "slow": dataclasses.replace(row)})
    data = squares(80)
    # Two captions each: AP and PHR are about people who agree.
    data.captions = [[*said, *said] for said in data.captions]
    source = str(data.manifest(tmp_path))
    save_vocabulary(data.vocabulary, tmp_path / "vocabulary.json")
    options = ["--train", source, "--val", source, "--test", source, "--weights", str(tmp_path)]
    options += ["--vocabulary", str(tmp_path / "vocabulary.json"), "--stored-px", "48"]
    options += ["--cache", str(tmp_path / "tables"), "--out", str(tmp_path / "out")]
    rows = ["--rows", "tiny:12", "--keep", "tiny", "--outputs", f"mine={source}"]
    monkeypatch.setattr(sys, "argv", ["words_baselines", *options, *rows])
    script.main()
    result = json.loads((tmp_path / "out" / "results.jsonl").read_text(encoding="utf-8"))
    assert (result["row"], result["epochs"]) == ("tiny", 12)
    assert result["All"]["ap"] > 60
    with np.load(tmp_path / "out" / "tiny.npz", allow_pickle=False) as arrays:
        scores, parts = arrays["scores"], arrays["parts"].tolist()
        peaks, corners = arrays["peaks"], arrays["corners"]
        assert arrays["peak_words"].tolist() == ["blue", "red"]
        ids = arrays["ids"].tolist()
    assert scores.shape == (len(ids), 4)
    assert parts.count("test") == 80
    assert 0 < parts.count("val") < 80
    assert _hits(data, ids[-80:], peaks[-80:, 1], corners) > 0.7

    script.paper_outputs.unpack(tmp_path / "out" / "tiny-rows.npz", tmp_path / "described")
    _check_outputs(tmp_path / "described", ids[-80:], scores[-80:])

    loaded = ["--rows", "tiny", "--load", f"tiny={tmp_path / 'out' / 'tiny.safetensors'}"]
    loaded += ["--budget-seconds", "0"]  # weights that there are take no time to train
    monkeypatch.setattr(sys, "argv", ["words_baselines", *options, *loaded])
    script.main()
    again = (tmp_path / "out" / "results.jsonl").read_text(encoding="utf-8").splitlines()[1]
    assert json.loads(again)["All"]["ap"] == pytest.approx(result["All"]["ap"], abs=1.5)


def _check_outputs(folder: Path, ids: list[str], scores: Any) -> None:
    """What `paper_rows.py` reads: the same words, features, and a DMSM that takes them."""
    found = read_detections(folder / "mine" / "scores.npz", threshold=0.0)
    assert found.names == ids
    assert found.probs.reshape(80, 4) == pytest.approx(-np.sort(-scores, axis=1), abs=2e-3)
    features = ImageFeatures.load(folder / "mine" / "features.npz")
    dmsm = Dmsm.load(folder / "dmsm", threads=1)
    near = dmsm.score(features.features[0].astype(np.float32), [("a", "red", "square")])
    assert np.isfinite(near).all()
    held = read_word_scores(folder / "held-out" / "scores.npz")
    assert held.scores.shape == (40, 4)
    assert not set(held.ids) - set(ids)


def _hits(data: Any, ids: list[str], peaks: Any, corners: Any) -> float:
    """Share of red squares that the middle of the best region is near to, half a region away."""
    hits = []
    for key, peak in zip(ids, peaks, strict=True):
        place = data.corners[int(key)].get("red")
        if place is not None:
            middle = (corners[peak][:2] + corners[peak][2:]) / 2 * 48
            hits.append(np.abs(middle - (np.array(place) + 4)).max() <= 8)
    return float(np.mean(hits))


def test_the_budget_takes_epochs_away(script: ModuleType, toy_config: WordsConfig) -> None:
    row = script.Row(toy_config, 48, None, 100.0)
    spare = script.SPARE_SECONDS
    assert script.within(row, spare + 3.5, 100, epochs=0).config.epochs == 3
    assert script.within(row, spare + 3.5, 100, epochs=2).config.epochs == 2
    assert script.within(row, spare + 0.5, 100, epochs=0) is None


def test_positions_are_resampled_around_the_class_token(script: ModuleType) -> None:
    positions = torch.cat([torch.full((1, 1, 2), 7.0), torch.ones(1, 16, 2)], dim=1)
    found = script.resample_positions(positions, 3)
    assert found.shape == (1, 10, 2)
    assert found[0, 0].tolist() == [7.0, 7.0]
    torch.testing.assert_close(found[:, 1:], torch.ones(1, 9, 2))
    torch.testing.assert_close(script.resample_positions(positions, 4), positions)
