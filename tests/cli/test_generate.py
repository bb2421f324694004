"""`sightwords generate`: sentences, JSON, and what it says about bad input."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from sightwords.cli import generate as verb
from sightwords.errors import BundleError, InputError, VocabularyError
from sightwords.language.maxent import MaxEnt, padded_table
from sightwords.text.vocabulary import Vocabulary

WORDS = ("a", "dog", "on", "grass", "runs")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every word may follow every other; only their own weights count."""
    size = len(WORDS) + 1
    folder = tmp_path_factory.mktemp("language")
    unigram = np.zeros((2, size + 1), dtype=np.float32)
    unigram[0] = [-1, -2, -3, -4, -5, -9, -1]
    MaxEnt(
        vocabulary=Vocabulary(WORDS, (5, 4, 3, 2, 1), 15),
        order=4,
        distant=False,
        table=padded_table(np.zeros(1 << 10, dtype=np.float32), size + 1),
        scale=1.0,
        unigram=unigram,
        end=np.zeros(size + 1, dtype=np.float32),
        attribute=-0.5,
        score=1.0,
        follower_offsets=np.zeros(size + 2, dtype=np.int64),
        follower_ids=np.empty(0, dtype=np.int32),
    ).save(folder)
    return folder


def _run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["generate", *map(str, arguments)])
    code: int = args.run(args)
    return code


def test_sentences_by_hand(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Both words: -.5 + log p each, the end -1: -2 for probability 1, in the order of their ids.
    assert _run("--words", "grass dog", "--language", model, "--n-best", 3) == 0
    assert capsys.readouterr().out == "  -2.000  dog grass\n  -2.000  grass dog\n" + (
        "  -3.000  a dog grass\n"
    )


def test_probabilities_count(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("--words", "dog:0.5,Grass:0.25", "--language", model, "--n-best", 1)
    score, *sentence = capsys.readouterr().out.split()
    assert sentence == ["dog", "grass"]
    assert float(score) == pytest.approx(-2 + np.log(0.5) + np.log(0.25), abs=1e-3)


def test_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("--words", "dog", "--language", model, "--n-best", 1, "--json")
    assert json.loads(capsys.readouterr().out) == {
        "sentences": [{"sentence": "dog", "log_prob": -1.5, "mentioned": ["dog"]}],
        "coverage": 1,
        "unmet": [],
    }


def test_require_and_forbid(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--words", "dog", "--language", model, "--require", "on", "--require", "Runs"]
    _run(
        *arguments,
        "--forbid",
        "a",
        "--forbid",
        "zebra",
        "--set",
        "min_length=4",
        "--set",
        "repeats=false",
    )
    for line in capsys.readouterr().out.splitlines():
        words = line.split()[1:]
        assert {"on", "runs"} <= set(words)
        assert "a" not in words
        assert len(words) >= 4
        assert words.count("dog") <= 1


def test_a_misspelt_forbidden_word_is_named(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--words", "dog", "--language", model, "--forbid", "gras", "--forbid", "zebra,a"]
    assert _run(*arguments) == 0
    assert capsys.readouterr().err == (
        "sightwords: warning: forbid: not among the 5 words of the language model, so never used "
        "anyway: 'gras' (did you mean 'grass'?), 'zebra'\n"
    )


def test_unmet_constraints_are_said(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--words", "dog", "--language", model, "--require", "on", "--require", "runs"]
    assert _run(*arguments, "--set", "max_length=1") == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()
    assert "warning: no sentence meets: required word 'on'" in printed.err


def test_longer_sentences_than_the_configuration(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("--words", "dog", "--language", model, "--set", "min_length=20", "--set", "max_length=21")
    lines = capsys.readouterr().out.splitlines()
    assert {len(line.split()) - 1 for line in lines} <= {20, 21}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no words given"),
        ("dog:2", "'dog:2' is not WORD or WORD:P"),
        ("dog:often", "'dog:often' is not WORD or WORD:P"),
        (":0.5", "':0.5' is not WORD or WORD:P"),
        ("dog dog:0.5", "'dog'"),
    ],
)
def test_bad_words(model: Path, words: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _run("--words", words, "--language", model)


def test_unknown_words_are_named(model: Path) -> None:
    with pytest.raises(VocabularyError, match="'gras', 'zebra'; did you mean 'grass'"):
        _run("--words", "dog gras zebra", "--language", model)


def test_contradictions(model: Path) -> None:
    with pytest.raises(InputError, match="'dog' is both required and forbidden"):
        _run("--words", "dog", "--language", model, "--require", "dog", "--forbid", "dog")


def test_lengths_that_contradict_are_named_as_the_settings_are(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = ("--set", "min_length=3", "--set", "max_length=2")
    with pytest.raises(SystemExit) as ended:
        _run("--words", "dog", "--language", model, *lengths)
    assert ended.value.code == 2
    assert "max_length is 2; expected at least min_length, 3" in capsys.readouterr().err


def test_without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "DEFAULT_MODEL", tmp_path / "absent")
    with pytest.raises(BundleError, match="carries no trained language model; name one with"):
        _run("--words", "dog")
    with pytest.raises(BundleError, match="nowhere"):
        _run("--words", "dog", "--language", tmp_path / "nowhere")


def test_a_table_of_another_size_or_hash_is_refused(model: Path, tmp_path: Path) -> None:
    header = json.loads((model / "language.json").read_text())
    for name in ("vocabulary.json", "language.npz"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    for key, value in (("hash", "another"), ("table_bits", 12)):
        (tmp_path / "language.json").write_text(json.dumps({**header, key: value}))
        with pytest.raises(BundleError):
            _run("--words", "dog", "--language", tmp_path)


def test_n_best_must_be_positive(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("--words", "dog", "--language", model, "--n-best", 0)
    assert "--n-best" in capsys.readouterr().err
