"""`benchmarks/early_rows.py` on photographs of a coloured square: boxes, fc8, scores, draws."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cv2")

from sightwords.evaluate.word_scores import read_word_scores  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.text.vocabulary_file import save_vocabulary  # noqa: E402
from sightwords.train.dmsm.image_features import ImageFeatures  # noqa: E402
from sightwords.train.language.data import read_detections  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.torch


class Colours(torch.nn.Module):  # type: ignore[misc,name-defined]
    """In place of AlexNet: how much red and how much blue there is in each cell of 4 px."""

    def keep_map_alone(self) -> None:
        """There is nothing else."""

    def feature_map(self, images: Any) -> Any:
        red, green, blue = images.unbind(1)
        maps = torch.stack([red - green, blue - green, torch.ones_like(red)], dim=1).relu()
        return torch.nn.functional.avg_pool2d(maps, 4)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (BENCHMARKS / "early_rows.py").exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("early_rows", "paper_outputs"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import early_rows  # type: ignore[import-not-found]

    monkeypatch.setattr(early_rows, "build_backbone", lambda *_, **__: Colours())
    monkeypatch.setattr(early_rows, "PIECE", 16)
    module: ModuleType = early_rows
    return module


def test_boxes_to_words(
    script: ModuleType, colour_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(
        colour_base.write_corpus(
            tmp_path, 40, lambda red, _: ["a red square" if red else "a blue square"]
        )
    )
    words = Vocabulary(("a", "square", "blue", "red"), (40, 40, 20, 20), 120)
    save_vocabulary(words, tmp_path / "vocabulary.json")
    described, scored = tmp_path / "described", tmp_path / "scored"
    common = ["--vocabulary", str(tmp_path / "vocabulary.json")]

    def run(*options: str) -> None:
        monkeypatch.setattr(sys, "argv", ["early_rows", *options, *common])
        args = script.arguments()
        args.run(args)

    describe = ["describe", source, "--weights", "none", "--boxes", "5", "--size-px", "32"]
    run(*describe, "--limit", "16", "--out", str(described))
    first = (described / "0000.npz").stat().st_mtime_ns
    run(*describe, "--workers", "2", "--out", str(described))  # goes on with what is not there yet
    assert (described / "0000.npz").stat().st_mtime_ns == first
    assert sorted(p.name for p in described.iterdir()) == ["0000.npz", "0001.npz", "0002.npz"]
    train = ["train", str(described), "--captions", source, "--epochs", "60", "--rate", "0.03"]
    run(*train, "--batch-size", "10", "--out", str(tmp_path / "head.npz"))
    run("score", str(described), "--head", str(tmp_path / "head.npz"), "--out", str(scored))
    table = read_word_scores(scored / "scores.npz")
    red = np.array([int(i) % 2 == 0 for i in table.ids])
    assert table.scores[red, 3].min() > table.scores[~red, 3].max()
    features = ImageFeatures.load(scored / "features.npz")
    assert features.shape == (17, 3)  # the mean, and 4 x 4 parts

    run(
        "bring", str(described), "--head", str(tmp_path / "head.npz"), "--captions", source,
        "--held-out", str(described), "--sets", f"mine={described}", "--out", str(tmp_path),
    )  # fmt: skip
    import paper_outputs  # type: ignore[import-not-found]

    paper_outputs.unpack(tmp_path / "boxes-rows.npz", tmp_path / "home")
    brought = read_detections(tmp_path / "home" / "mine" / "scores.npz", threshold=0.0)
    assert brought.probs.reshape(40, 4) == pytest.approx(-np.sort(-table.scores, axis=1), abs=2e-3)
    assert (tmp_path / "home" / "dmsm" / "text.onnx").exists()
    later = ["score", str(described), "--head", str(tmp_path / "head.npz")]
    run(*later, "--components-of", str(described), "--out", str(tmp_path / "later"))
    same = [
        ImageFeatures.load(folder / "features.npz")
        for folder in (tmp_path / "later", tmp_path / "home" / "mine")
    ]
    assert same[0].ids == same[1].ids
    assert same[0].features == pytest.approx(same[1].features, abs=1e-2)

    run("draw", str(scored / "scores.npz"), "--captions", source, "--out", str(tmp_path / "t.npz"))
    drawn = read_detections(tmp_path / "t.npz", threshold=0.0)
    assert sorted(drawn.names) == sorted(table.ids)  # all were scored: none is drawn


def test_a_box_that_is_not_there_has_no_features(script: ModuleType) -> None:
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]])
    found = script.pooled(torch.rand(1, 3, 4, 4) + 1, boxes, cells=2)
    assert float(found[0, 0].square().mean()) == pytest.approx(1.0)
    assert found[0, 1].abs().max() == 0
