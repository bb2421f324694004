"""Captions of another language: German, with umlauts, capitals and its own closed class."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightwords.errors import VocabularyError
from sightwords.explain import content_words
from sightwords.language.constraints import Constraints, pose
from sightwords.rerank.chooser import Chooser
from sightwords.rerank.features import candidates_of
from sightwords.rerank.linear import Ranker, Stage
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import CLOSED_CLASS, Vocabulary
from sightwords.text.vocabulary_file import from_json, load_vocabulary, save_vocabulary, to_json
from sightwords.text.written import written_forms
from sightwords.types import (
    DetectedWord,
    DetectedWords,
    Hypothesis,
    MBest,
    RegionScores,
    WordScores,
)

CAPTIONS = (
    "Ein Mädchen läuft über die Straße.",
    "Das Mädchen im grünen Kleid",
    "Zwei Männer mit einem Hund, einem großen!",
    "die männer GRÜSSEN einen Hund",
)
GERMAN = ("ein", "einem", "einen", "das", "die", "im", "mit", "über")
SENTENCE = ("ein", "mädchen", "mit", "einem", "hund")


def _vocabulary() -> Vocabulary:
    words = Vocabulary.of_captions(CAPTIONS, size=30)
    written = written_forms(CAPTIONS, words.words)
    return replace(words, closed_class=GERMAN, written=written)


def test_umlauts_are_letters() -> None:
    first, _, third, fourth = tokenize_all(CAPTIONS)
    assert first == ["ein", "mädchen", "läuft", "über", "die", "straße"]
    assert third[-1] == "großen"
    assert fourth[2] == "grüssen"


def test_nouns_get_their_capitals_and_first_words_tell_nothing() -> None:
    found = written_forms(CAPTIONS, _vocabulary().words)
    assert found["mädchen"] == "Mädchen"
    assert found["hund"] == "Hund"
    assert "ein" not in found
    assert "das" not in found
    # one Männer, one männer: the lower-case form is taken
    assert "männer" not in found


def test_a_file_keeps_the_language(tmp_path: Path) -> None:
    vocabulary = _vocabulary()
    save_vocabulary(vocabulary, tmp_path / "wörter.json")
    assert load_vocabulary(tmp_path / "wörter.json") == vocabulary
    assert '"mädchen": "Mädchen"' in to_json(vocabulary)


def test_english_files_are_as_they_were() -> None:
    text = to_json(Vocabulary(("a", "dog"), (2, 1), 3))
    assert set(json.loads(text)) == {"format", "version", "tokenizer", "total_tokens", "words"}
    assert from_json(text).closed_class == CLOSED_CLASS


@pytest.mark.parametrize("wrong", [{"closed_class": "ein"}, {"written": {"hund": 1}}])
def test_a_damaged_language_is_refused(wrong: dict[str, object]) -> None:
    document = json.loads(to_json(_vocabulary())) | wrong
    with pytest.raises(VocabularyError, match="build the vocabulary again"):
        from_json(json.dumps(document))


def test_the_search_knows_which_words_say_nothing() -> None:
    vocabulary = _vocabulary()
    probs = {"einem": 0.99, "mädchen": 0.9}
    once = Constraints(repeats=False)
    problem = pose(probs, vocabulary, constraints=once, maximum_length=9)
    assert problem.attributes.tolist() == [vocabulary.ids["mädchen"]]
    assert not problem.once[vocabulary.ids["einem"]]
    assert problem.once[vocabulary.ids["hund"]]
    english = replace(vocabulary, closed_class=CLOSED_CLASS)
    assert len(pose(probs, english, maximum_length=9).attributes) == 2


def test_the_chosen_sentence_is_written_as_germans_do() -> None:
    listed = MBest((Hypothesis(SENTENCE, -1.0, ("hund",)),), 1)
    detected = DetectedWords((DetectedWord("hund", 0.9, 0.8, 0.9),), 0.5)
    vocabulary = _vocabulary()
    chooser = Chooser(
        Ranker((Stage({"log_likelihood": 1.0}),)),
        closed_class=vocabulary.closed_class,
        written=vocabulary.written,
    )
    scores = WordScores(np.array([0.9], np.float32), np.array([0.9], np.float32))
    regions = RegionScores(np.array([[[0.9]]], dtype=np.float32))
    caption = chooser(listed, detected, scores, regions)
    assert caption.text == "ein Mädchen mit einem Hund"
    assert caption.n_best[0].hypothesis.tokens == SENTENCE
    assert content_words(caption, closed_class=GERMAN) == ["mädchen", "hund"]
    closed = candidates_of(listed, detected, closed_class=GERMAN).closed
    assert closed.sum() == 3  # ein, mit, einem


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_is_utf8_wherever_it_goes(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "漢字-Mädchen.csv"
    file.write_text("image,caption\nx.jpg,Ein Mädchen\n", encoding="utf-8")
    command = [sys.executable, "-m", "sightwords", "data", "inspect", str(file)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    found = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert b"Traceback" not in found.stderr
    assert "漢字-Mädchen" in found.stdout.decode("utf-8")


def _benchmark() -> Any:
    path = Path(__file__).parents[1] / "benchmarks" / "german.py"
    spec = importlib.util.spec_from_file_location("german", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _shard(path: Path, keys: list[str]) -> Path:
    with tarfile.open(path, "w") as tar:
        for key in keys:
            for name, data in ((f"{key}.avif", key.encode()), (f"{key}.json", b"{}")):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def test_no_photograph_of_dev_or_test_is_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tmp_path / "multi30k" / "data" / "task2"
    (task / "image_splits").mkdir(parents=True)
    (task / "raw").mkdir()
    for split, ids in (("train", [1, 2, 3, 4]), ("val", [5])):
        names = "".join(f"{i}.jpg\n" for i in ids)
        (task / "image_splits" / f"{split}_images.txt").write_text(names, encoding="utf-8")
        for writer in range(1, 6):
            lines = "".join(f"Ein Mädchen Nr. {i}, {writer}\n" for i in ids)
            with gzip.open(task / "raw" / f"{split}.{writer}.de.gz", "wt", encoding="utf-8") as f:
                f.write(lines)
    train = _shard(tmp_path / "train.tar", ["1_aa", "2_bb", "9_nobody"])
    dev, test = _shard(tmp_path / "dev.tar", ["3_cc"]), _shard(tmp_path / "test.tar", ["2_bb"])
    out = tmp_path / "out"
    command = [tmp_path / "multi30k", train, "--dev", dev, "--test", test, "--out", out]
    assert _benchmark().main([str(part) for part in command]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "with German captions": 1, "train": 1, "dev": 1, "text": 10, "left out": 2,
    }  # fmt: skip
    row = json.loads((out / "train.jsonl").read_text("utf-8"))
    assert row["image"] == "train/1_aa.avif"
    assert row["captions"][0] == "Ein Mädchen Nr. 1, 1"
    assert (out / "train" / "1_aa.avif").read_bytes() == b"1_aa"
    text = (out / "text.txt").read_text("utf-8")
    assert {line.split()[3] for line in text.splitlines()} == {"4,", "5,"}
