"""The order of the stages, and what happens without a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import sightwords
from sightwords.cli.main import main
from sightwords.pipeline import Captioner
from sightwords.words.heatmap import word_heatmap


@pytest.fixture(scope="module")
def captioner(tiny_bundle: Path) -> Captioner:
    return sightwords.load(tiny_bundle, threads=1, backend="numpy")


def test_stages_run_in_order_and_are_timed(captioner: Captioner) -> None:
    trace = captioner.trace(Image.new("RGB", (20, 20), "red"))
    assert "red" in trace.caption.text.split()
    stages = ["decode", "detect", "pool", "calibrate", "generate", "choose"]
    assert list(trace.caption.seconds) == stages
    assert all(s >= 0 for s in trace.caption.seconds.values())
    assert trace.candidates == captioner.generator(trace.words)
    assert trace.words == captioner.selector(trace.scores, trace.regions)


def test_caption_names_a_bad_image_and_goes_on(
    tiny_bundle: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "broken.jpg").write_bytes(b"not an image")
    Image.new("RGB", (8, 8), "red").save(folder / "red.png")
    bad, good = str(folder / "broken.jpg"), str(folder / "red.png")
    code = main(["caption", bad, good, "--bundle", str(tiny_bundle), "--set", "threads=1"])
    out, err = capsys.readouterr()
    assert code == 1
    assert out.startswith(f"{good}: ")
    assert "red" in out.split()
    assert out.count("\n") == 1
    assert "broken.jpg" in err


def test_caption_without_arguments_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["caption"])
    assert stopped.value.code == 2
    assert "--samples" in capsys.readouterr().err


def test_every_kind_of_source_gets_the_same_caption(captioner: Captioner, tmp_path: Path) -> None:
    image = Image.new("RGB", (20, 20), "red")
    path = tmp_path / "red.png"
    image.save(path)
    sources = [str(path), path, path.read_bytes(), image, np.asarray(image)]
    several = captioner(sources)
    assert isinstance(several, list)
    assert len({caption.text for caption in several}) == 1
    assert captioner(path).n_best == several[0].n_best
    assert "red" in several[0].text
    assert any(word.used and word.detected.word == "red" for word in several[0].words)
    with pytest.raises(sightwords.ImageError, match=r"none\.jpg"):
        captioner([path, "none.jpg"])


def test_options_are_met_and_checked_at_once(captioner: Captioner, tiny_bundle: Path) -> None:
    red = Image.new("RGB", (20, 20), "red")
    required = captioner.with_options(require=["Green"])
    assert "green" in required(red).text.split()
    for ranked in captioner.with_options(forbid=["red"])(red).n_best:
        assert "red" not in ranked.hypothesis.tokens
    with pytest.raises(sightwords.VocabularyError, match="zebra"):
        sightwords.load(tiny_bundle, require=["zebra"], backend="numpy")
    with pytest.raises(sightwords.InputError, match="'red'"):
        captioner.with_options(require=["red"], forbid=["red"])
    with pytest.raises(sightwords.InputError, match="min_precision is 2"):
        captioner.with_options(min_precision=2)


def test_shown_in_a_python_session_they_fill_one_line(captioner: Captioner) -> None:
    trace = captioner.trace(Image.new("RGB", (30, 20), "red"))
    assert repr(trace) == f"Trace(caption={trace.caption.text!r})"
    assert len(repr(captioner)) < 100
    assert captioner.fingerprint[:12] in repr(captioner)


def test_words_in_one_string_are_split(captioner: Captioner) -> None:
    """'man,woman' once forbade nothing, without a word."""
    red = Image.new("RGB", (40, 30), "red")
    for forbid in ("red, blue", ["Red,blue"], ["red", "blue"]):
        for ranked in captioner.with_options(forbid=forbid)(red).n_best:
            assert not {"red", "blue"} & set(ranked.hypothesis.tokens)
    assert "blue" in captioner.with_options(require="blue")(red).text.split()


def test_forbidden_words_that_are_never_said_are_named(
    captioner: Captioner, tiny_bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who misspells a word believes that it cannot be said."""
    captioner.with_options(forbid=["red", "bleu, zebra"])
    [said] = caplog.messages
    assert said.endswith("'bleu' (did you mean 'blue'?), 'zebra'")
    caplog.clear()
    captioner.with_options(forbid="red,blue")
    assert not caplog.messages
    sightwords.load(tiny_bundle, forbid="Bleu", backend="numpy")
    assert len(caplog.messages) == 1


def test_precision_takes_words_from_the_sentence(captioner: Captioner) -> None:
    half = Image.new("RGB", (40, 40), "red")
    half.paste((0, 0, 255), (0, 0, 20, 40))
    before = captioner.trace(half)
    after = captioner.with_options(min_precision=1.0).again(before)
    assert after.regions is before.regions
    assert len(after.words.words) <= len(before.words.words)
    assert len(after.words.words) == 3  # never fewer: nothing can be said of no words
    precisions = [word.precision for word in after.words.words]
    assert precisions == sorted(precisions, reverse=True)
    assert "decode" not in after.caption.seconds


def test_options_reach_the_stages(tiny_bundle: Path) -> None:
    small = sightwords.load(tiny_bundle, n_best=2, beam_width=3, backend="numpy")
    assert len(small(Image.new("RGB", (8, 8), "red")).n_best) == 2
    assert small.generator.config.beam_width == 3


def test_options_that_make_no_sense_are_refused(tiny_bundle: Path) -> None:
    with pytest.raises(sightwords.InputError, match=r"'cuda'.* auto, numpy"):
        sightwords.load(tiny_bundle, backend="cuda")  # type: ignore[arg-type]
    with pytest.raises(sightwords.InputError, match="threads is 0"):
        sightwords.load(tiny_bundle, threads=0)


def test_the_figure_gives_the_probability_of_words_that_were_not_detected(
    captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels: list[str] = []
    draw = word_heatmap

    def noted(*args: Any, **more: Any) -> Image.Image:
        labels.append(args[3])
        return draw(*args, **more)

    monkeypatch.setattr("sightwords.explain.word_heatmap", noted)
    trace = captioner.trace(Image.new("RGB", (40, 30), "red"))
    captioner.explain(replace(trace, caption=replace(trace.caption, words=())))
    prob = trace.scores.image_probs[captioner.vocabulary.index("red")]
    assert labels[0] == f"red: {prob:.2f}, not detected"


def test_a_figure_shrinks_its_photograph_once(
    captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panel a word, each from all pixels of a telephone's photograph, took most of the time."""
    trace = captioner.trace(Image.new("RGB", (2000, 1500), "red"))
    sizes: list[tuple[int, int]] = []
    resize = Image.Image.resize

    def noted(image: Image.Image, *args: Any, **more: Any) -> Image.Image:
        sizes.append(image.size)
        return resize(image, *args, **more)

    monkeypatch.setattr(Image.Image, "resize", noted)
    captioner.explain(trace)
    assert len(sizes) > 1
    assert sizes.count((2000, 1500)) == 1


def test_the_figure_has_a_panel_a_content_word(captioner: Captioner) -> None:
    from sightwords.explain import PANEL_PX, content_words

    trace = captioner.trace(Image.new("RGB", (64, 32), "red"))
    figure = captioner.explain(trace)
    panels = 1 + len(content_words(trace.caption))
    assert panels >= 2
    assert figure.width > min(panels, 4) * PANEL_PX
    pixels = np.asarray(figure)
    assert (pixels[20, 20] == (255, 0, 0)).all()  # the photograph comes first
    assert (pixels[20, 20 + PANEL_PX + 12] != (255, 0, 0)).any()  # then a map over its grey
