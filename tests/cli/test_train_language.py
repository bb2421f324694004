"""`sightwords train language`: captions and detected words in, a model that writes out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sightwords.cli.main import main
from sightwords.language.maxent import MaxEnt
from sightwords.samples import sample_paths
from sightwords.words.artefact import DEFAULT_DETECTOR

pytest.importorskip("numba")

SETTINGS = "[language]\ntable_bits = 12\nepochs = 4\nlearning_rate = 0.5\ntext_weight = 0.5\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Twenty images; the words of the last four are not known, the last two have none."""
    lines = []
    for number in range(20):
        animal = ("dog", "cat")[number % 2]
        record = {"id": str(number), "captions": [f"a {animal} runs", f"a small {animal}"]}
        lines.append(json.dumps(record))
    (tmp_path / "animals.jsonl").write_text("\n".join(lines), encoding="utf-8")
    np.savez(
        tmp_path / "top-words.npz",
        ids=np.array([str(n) for n in range(16)]),
        words=np.array(["cat", "dog", "a"]),
        indices=np.array([[(1, 0)[n % 2], 2] for n in range(16)], dtype=np.uint16),
        probs=np.array([[0.9, 0.9]] * 14 + [[0.1, 0.1]] * 2, dtype=np.float16),
    )
    (tmp_path / "more.txt").write_text("a bird sings\n" * 3, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def command(folder: Path, *more: str) -> list[str]:
    return [
        "train", "language", str(folder / "animals.jsonl"), "--config", str(folder / "mine.toml"),
        "--out", str(folder / "model"), *more,
    ]  # fmt: skip


def test_a_model_learns_to_trust_the_words(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--words", str(corpus / "top-words.npz")]
    words += ["--set", f"data.text={corpus / 'more.txt'}"]
    val = ["--val", str(corpus / "animals.jsonl"), "--set", "data.language_words=7"]
    assert main(command(corpus, *words, *val)) == 0
    captured = capsys.readouterr()
    row = json.loads(captured.out)
    assert row["words"] == 5  # a, cat, dog, small, runs: counted in the captions alone
    assert row["val_images"] == 16
    assert row["val_tokens"] == 16 * 8
    assert 1 < row["perplexity"] < 4
    assert "tokens/s" in captured.err
    model = MaxEnt.load(corpus / "model")
    assert model.table.dtype == np.int8
    assert model.attribute > 0
    assert "text_weight = 0.5" in (corpus / "model" / "config.resolved.toml").read_text("utf-8")
    assert not (corpus / "model" / "training").exists()
    generate = [
        "generate",
        "--language",
        str(corpus / "model"),
        "--words",
        "dog:0.9",
        "--n-best",
        "1",
    ]
    assert main(generate) == 0
    assert "dog" in capsys.readouterr().out


def test_detected_words_lower_perplexity(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    val = ["--val", str(corpus / "animals.jsonl")]
    assert main(command(corpus, *val)) == 0
    blind = json.loads(capsys.readouterr().out)
    assert main(command(corpus, *val, "--words", str(corpus / "top-words.npz"))) == 0
    seeing = json.loads(capsys.readouterr().out)
    assert blind["val_images"] == 20
    assert seeing["perplexity"] < blind["perplexity"]


def test_a_stopped_run_goes_on(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--words", str(corpus / "top-words.npz")]
    assert main(command(corpus, *words)) == 0
    unbroken = MaxEnt.load(corpus / "model")

    def stop(self: object, done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sightwords.cli.train.progress.ProgressLine.tokens", stop)
        assert main(command(corpus, *words)) == 130
    capsys.readouterr()
    assert main(["--verbose", *command(corpus, *words)]) == 0
    resumed = MaxEnt.load(corpus / "model")
    assert resumed.table.tolist() == unbroken.table.tolist()
    assert resumed.attribute == unbroken.attribute


def test_a_detector_finds_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["image,caption", f"{sample_paths()[1]},a cat looks on"]
    (tmp_path / "photos.csv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "mine.toml").write_text(SETTINGS, encoding="utf-8")
    command = ["train", "language", str(tmp_path / "photos.csv"), "--out", str(tmp_path / "model")]
    command += ["--detector", str(DEFAULT_DETECTOR), "--config", str(tmp_path / "mine.toml")]
    assert main(command) == 0
    with np.load(tmp_path / "model" / "training" / "top-words.npz") as found:
        assert found["indices"].shape == found["probs"].shape == (1, 40)
        assert "cat" in found["words"][found["indices"][0, :10]]
        assert (np.diff(found["probs"]) <= 0).all()
    assert MaxEnt.load(tmp_path / "model").words == ("a", "cat", "looks", "on", "<unk>")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--val", "animals.jsonl", "--words", "others.npz"], "none of its images has detected"),
        (["--words", "animals.jsonl"], "cannot be read as NPZ"),
    ],
)
def test_what_cannot_be_used_is_named(
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(corpus)
    np.savez("others.npz", ids=np.array(["77"]), words=np.array(["dog"]), scores=np.ones((1, 1)))
    assert main(command(corpus, *more)) == 1
    assert message in capsys.readouterr().err


def test_something_to_train_on_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "language", "--out", str(tmp_path)])
    assert "data.text" in capsys.readouterr().err
    assert (
        main(["train", "language", "--set", "data.text=x.txt", "--detector", "d", "--out", "y"])
        == 1
    )
    assert "no images to find words in" in capsys.readouterr().err


def test_several_processes_learn_as_one_does(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--words", str(corpus / "top-words.npz"), "--set", f"data.text={corpus / 'more.txt'}"]
    more += ["--val", str(corpus / "animals.jsonl")]
    assert main(command(corpus, *more)) == 0
    one = json.loads(capsys.readouterr().out)
    assert main(command(corpus, *more, "--set", "run.workers=2")) == 0
    captured = capsys.readouterr()
    two = json.loads(captured.out)
    assert "4/4 parts of the text read" in captured.err
    assert (two["words"], two["val_tokens"]) == (one["words"], one["val_tokens"])
    assert two["perplexity"] == pytest.approx(one["perplexity"], rel=0.1)
    assert not (corpus / "model" / "training").exists()


def _stop_after_reading(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightwords.train.language.run.fit_language", _interrupted)
    assert main(command(corpus, "--set", "run.workers=1")) == 130
    monkeypatch.undo()


def test_a_stopped_run_of_processes_goes_on(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stop_after_reading(corpus, monkeypatch)
    assert (corpus / "model" / "training" / "text" / "part-00000.npz").exists()
    asked: list[int] = []
    monkeypatch.setattr(
        "sightwords.train.language.store._each", lambda tasks, *_, **__: asked.append(len(tasks))
    )
    assert main(command(corpus, "--set", "run.workers=1")) == 0
    assert json.loads(capsys.readouterr().out)["words"] == 5
    assert asked == [0]  # neither counted nor read again


def test_a_stopped_run_does_not_go_on_with_other_text(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stop_after_reading(corpus, monkeypatch)
    record = {"id": "20", "captions": ["a dog sings"]}
    with (corpus / "animals.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(record)}")
    assert main(command(corpus, "--set", "run.workers=1")) == 1
    assert "delete the folder to read the text again" in capsys.readouterr().err


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
