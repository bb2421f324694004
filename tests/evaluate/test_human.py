"""The columns that people fill, and all that may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightwords.cli.main import main
from sightwords.errors import ScoreError
from sightwords.evaluate.rows import Row, save_row
from sightwords.evaluate.tables import OPEN, paper_tables


def results(folder: Path, *, origin: str = "human", against: str = "human") -> Path:
    """What `sightwords study results --out` writes, as far as it is read."""
    path = folder / "results.json"
    shares = {
        name: {"value": value, "margin": 0.0251}
        for name, value in (("same", 0.262), ("better", 0.078), ("same_or_better", 0.34))
    }
    content = {
        "origin": origin,
        "against": against,
        "system": "mine",
        "shares": shares,
        "signature": f"study|origin:{origin}|system:mine",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def human_cells(folder: Path, study: Path) -> tuple[str, ...]:
    rows = {row[0]: row for row in paper_tables(folder, studies=[study])[1].rows}
    return rows["mine"][7::2]


def test_people_fill_their_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_row(tmp_path, Row("systems", "mine", {"bleu_4": 0.3}))
    study = results(tmp_path)
    assert human_cells(tmp_path, study) == ("26.2 (±2.5)", "7.8 (±2.5)", "34.0 (±2.5)")
    assert main(["evaluate", "tables", str(tmp_path), "--study", str(study)]) == 0
    assert "mine: study|origin:human|system:mine" in capsys.readouterr().out


def test_a_study_without_a_finished_pair_leaves_them_open(tmp_path: Path) -> None:
    study = results(tmp_path)
    study.write_text(json.dumps({**json.loads(study.read_text()), "shares": None}))
    assert human_cells(tmp_path, study) == (OPEN, OPEN, OPEN)


@pytest.mark.parametrize("origin", ["simulated", "model"])
def test_votes_that_are_not_peoples_are_refused(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ScoreError, match=origin):
        paper_tables(tmp_path, studies=[results(tmp_path, origin=origin)])
    lying = results(tmp_path, origin=origin)
    lying.write_text(lying.read_text().replace(f'"origin": "{origin}"', '"origin": "human"'))
    with pytest.raises(ScoreError):
        paper_tables(tmp_path, studies=[lying])


def test_a_study_against_another_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScoreError, match="'theirs'"):
        paper_tables(tmp_path, studies=[results(tmp_path, against="theirs")])


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense"])
def test_what_is_no_results_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ScoreError, match=r"x\.json"):
        paper_tables(tmp_path, studies=[path])


def test_one_study_a_system(tmp_path: Path) -> None:
    study = results(tmp_path)
    with pytest.raises(ScoreError, match="mine"):
        paper_tables(tmp_path, studies=[study, study])
