"""`sightwords study`: each verb, and what it says when it cannot."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("sqlalchemy")

from sightwords.cli.main import main
from sightwords.cli.study.create import find_similarity
from sightwords.errors import BundleError
from sightwords.evaluate.grid import csv_text
from sightwords.types import FloatArray, RegionScores


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve photographs with captions, and a system's captions of them."""
    lines, results = [], []
    for number in range(12):
        Image.new("RGB", (30, 20), (number * 20, 0, 0)).save(tmp_path / f"{number}.png")
        said = [f"Thing number {number}.", f"This shows number {number}", f"A {number}"]
        lines.append(json.dumps({"id": f"i{number}", "image": f"{number}.png", "captions": said}))
        results.append({"image_id": f"i{number}", "caption": f"maybe {number}"})
    (tmp_path / "photographs.jsonl").write_text("\n".join(lines))
    (tmp_path / "ours.json").write_text(json.dumps(results))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIGHTWORDS_STUDY", raising=False)
    return tmp_path


SMALL = ("--set", "pairs=6", "--set", "pairs_per_judge=3", "--set", "checks=2")


def create(*more: str) -> int:
    words = ["study", "create", "--images", "photographs.jsonl", "--system", "ours.json"]
    return main([*words, *SMALL, *more])


def links(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(["study", "links", *more]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_create_and_links(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create() == 0
    said = capsys.readouterr().err
    assert "6 pairs of ours against human, 5 judges per pair, 10 judges of 3 pairs" in said
    rows = links(capsys, "--base-url", "https://study.example.org/", "--add", "1")
    assert len(rows) == 11
    assert rows[0]["link"].startswith("https://study.example.org/j/")
    assert rows[0]["answered"] == "0"


def test_a_second_study_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create() == 0
    assert create() == 1
    assert "study.db" in capsys.readouterr().err


def vote(folder: Path, answers: str = "worse") -> None:
    rows = [(f"i{n}", f"judge-{j}", answers) for n in range(12) for j in range(5)]
    (folder / "votes.csv").write_text(csv_text([("image", "judge", "answer"), *rows]))
    assert main(["study", "import", "votes.csv", "--from", "votes"]) == 0


def test_import_and_results(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create()
    vote(folder)
    assert "30 votes written" in capsys.readouterr().err
    assert main(["study", "results", "--out", "results", "--set", "metrics=cider,rouge_l"]) == 0
    out = capsys.readouterr().out
    assert "≥human" in out
    assert "ours" in out
    assert "0.0 (±0.0)" in out
    assert "origin:human" in out
    assert "rouge_l" in out
    assert (folder / "results" / "disagreement.html").exists()
    assert main(["study", "results", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shares"]["better"]["value"] == 0


def test_a_rehearsal_stays_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create("--set", "origin=simulated")
    vote(folder, "better")
    capsys.readouterr()
    assert main(["study", "results"]) == 0
    out = capsys.readouterr().out
    assert "simulated" in out.lower()
    assert "open    open    open" in " ".join(out.split("\n")).replace("       ", "    ")


def test_exclude(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create()
    vote(folder)
    rows = links(capsys)
    named = next(row for row in rows if row["name"] == "votes:judge-0")
    assert main(["study", "exclude", named["judge"], "--reason", "asleep"]) == 0
    assert "6 votes are open again" in capsys.readouterr().err
    assert main(["study", "results", "--set", "votes=4"]) == 0
    assert "1 asleep" in capsys.readouterr().out
    assert main(["study", "exclude", "999"]) == 1
    assert "there is no judge 999" in capsys.readouterr().err


def test_export(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create()
    words = ["study", "export", "--image-base-url", "https://photos.example.org", "--to"]
    assert main([*words, "mturk", "--out", "hits"]) == 0
    assert (folder / "hits" / "input-5.csv").exists()
    assert len(list((folder / "hits" / "hits").iterdir())) == 10
    assert main([*words, "label-studio", "--out", "project"]) == 1
    assert "nothing to export" in capsys.readouterr().err


def test_power(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "power", "5"]) == 0
    assert "judges in all" in capsys.readouterr().out
    assert main(["study", "power", "99"]) == 1
    assert "less than 66" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["study", "power", "5", "--set", "shares=a,b,c"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["results"], "study.db: .*sightwords study create"),
        (["results", "ours.json"], "ours.json"),
        (["import", "votes.csv", "nosuch://x", "--from", "votes"], "neither|supported"),
    ],
)
def test_errors_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    import re

    assert main(["study", *words]) == 1
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert said.count("\n") == 1


def test_the_environment_names_the_study(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIGHTWORDS_STUDY", "elsewhere.db")
    assert create() == 0
    assert (folder / "elsewhere.db").exists()


def test_a_bundle_that_was_named_must_have_a_dmsm(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"holds no dmsm/dmsm\.json"):
        find_similarity(str(tmp_path), "photographs.jsonl")


def test_dmsm_says_how_far_apart_captions_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With networks that know: the vector of photograph n and of a caption with n point alike."""
    looked: list[str] = []

    class Detector:
        def __call__(self, image: Image.Image, *, name: str) -> RegionScores:
            looked.append(name)
            red = np.asarray(image)[0, 0, 0] / 20.0
            return RegionScores(np.zeros((1, 1, 1), np.float32), features=np.array([[red]]))

    class Dmsm:
        semantic_units = 12

        def image(self, features: FloatArray) -> FloatArray:
            row: FloatArray = np.eye(12, dtype=np.float32)[round(float(features[0, 0]))]
            return row

        def texts(self, sentences: list[list[str]]) -> FloatArray:
            return np.stack([self.image(np.array([[float(words[-1])]])) for words in sentences])

    monkeypatch.setattr("sightwords.words.detector.Detector.load", lambda *_, **__: Detector())
    monkeypatch.setattr("sightwords.rerank.dmsm.Dmsm.load", lambda *_, **__: Dmsm())
    (folder / "bundle" / "dmsm").mkdir(parents=True)
    (folder / "bundle" / "dmsm" / "dmsm.json").write_text("{}")
    similarity, name = find_similarity("bundle", "photographs.jsonl")
    assert name == "DMSM of bundle"
    assert similarity is not None
    found = similarity(["i3", "i7"], ["number 7", "A 3."])
    assert found.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert similarity(["i3"], ["A 3"]).tolist() == [[1.0]]
    assert sorted(looked) == ["i3", "i7"]  # each photograph once
    assert create("--set", "bundle=bundle") == 0
    assert "far apart by DMSM of bundle" in capsys.readouterr().err
