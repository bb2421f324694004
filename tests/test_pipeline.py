"""The order of the stages, and what happens without a model."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import sightwords
from sightwords.cli.main import main
from sightwords.pipeline import Captioner
from sightwords.types import (
    Caption,
    DetectedWord,
    DetectedWords,
    Hypothesis,
    MBest,
    RegionScores,
    WordScores,
)


def _captioner() -> Captioner:
    """Stages small enough to work by hand: two words, one region each way."""

    def detect(image: Image.Image) -> RegionScores:
        red = np.asarray(image)[..., 0].mean() / 255
        return RegionScores(np.array([[[red, 1 - red]]], dtype=np.float32))

    def pool(regions: RegionScores) -> WordScores:
        image_probs = 1 - (1 - regions.region_probs).prod(axis=(0, 1))
        return WordScores(image_probs, regions.region_probs.max(axis=(0, 1)))

    def calibrate(scores: WordScores, regions: RegionScores) -> DetectedWords:
        named = zip(("red", "dark"), scores.image_probs.tolist(), strict=True)
        words = [DetectedWord(w, p, p, p) for w, p in named if p >= 0.5]
        return DetectedWords(tuple(words), 0.5)

    def generate(words: DetectedWords) -> MBest:
        names = tuple(w.word for w in words.words)
        return MBest((Hypothesis(("a", *names, "image"), -1.0, names),), len(names))

    def choose(
        candidates: MBest, words: DetectedWords, scores: WordScores, regions: RegionScores
    ) -> Caption:
        text = " ".join(candidates.hypotheses[0].tokens)
        return Caption(text, words.words[0].prob, (), ())

    return Captioner(detect, pool, calibrate, generate, choose)


def test_stages_run_in_order_and_are_timed() -> None:
    captioner = _captioner()
    assert captioner(Image.new("RGB", (4, 4), "red")).text == "a red image"
    caption = captioner(Image.new("RGB", (4, 4), "black"))
    assert (caption.text, caption.confidence) == ("a dark image", 1.0)
    stages = ["decode", "detect", "pool", "calibrate", "generate", "choose"]
    assert list(caption.seconds) == stages
    assert all(s >= 0 for s in caption.seconds.values())


def test_caption_names_a_bad_image_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "broken.jpg").write_bytes(b"not an image")
    Image.new("RGB", (8, 8), "red").save(folder / "red.png")
    monkeypatch.setattr("sightwords.cli.caption.load", lambda bundle, **options: _captioner())
    code = main(["caption", str(folder / "broken.jpg"), str(folder / "red.png")])
    out, err = capsys.readouterr()
    assert code == 1
    assert out == f"{folder / 'red.png'}: a red image (1.00)\n"
    assert "broken.jpg" in err


def test_caption_without_arguments_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["caption"])
    assert stopped.value.code == 2
    assert "--samples" in capsys.readouterr().err
