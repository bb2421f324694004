"""Scoring results against references: the same numbers as the metrics, and no image lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import MissingExtraError, ScoreError
from sightwords.evaluate import captions as module
from sightwords.evaluate.captions import evaluate_captions
from sightwords.evaluate.report import (
    per_image_jsonl,
    report_grid,
    report_json,
    save_report,
    save_report_row,
)
from sightwords.evaluate.rows import read_row
from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider
from sightwords.metrics.rouge import rouge_l
from sightwords.metrics.score import Comparison, Score

RESULTS = {"1": "a dog runs on the grass", "2": "two cats sit", "3": "a red bus"}
REFERENCES = {
    "1": ["a dog runs on green grass", "the dog is running"],
    "2": ["two cats are sitting", "cats"],
    "3": ["a red bus on a street", "a big red bus"],
}
NO_METEOR = ["bleu", "rouge_l", "cider"]


def test_values_are_those_of_the_metrics() -> None:
    report = evaluate_captions(RESULTS, REFERENCES, metrics=NO_METEOR)
    pairs = Comparison.of(RESULTS, REFERENCES)
    expected = {s.metric: s for s in (*bleu(pairs), rouge_l(pairs), cider(pairs))}
    assert report.values == {key: score.value for key, score in expected.items()}
    for score in report.scores:
        np.testing.assert_array_equal(score.per_image, expected[score.metric].per_image)
        assert score.signature == expected[score.metric].signature


def test_ids_of_different_spelling_meet() -> None:
    spelled = {"COCO_val2014_000000000001.jpg": RESULTS["1"], "02": RESULTS["2"], "3": "a red bus"}
    report = evaluate_captions(spelled, REFERENCES, metrics=["cider"])
    assert report.values == evaluate_captions(RESULTS, REFERENCES, metrics=["cider"]).values


def test_files_and_mappings_agree(tmp_path: Path) -> None:
    results = tmp_path / "mine.jsonl"
    results.write_text(
        "\n".join(json.dumps({"id": key, "caption": c}) for key, c in RESULTS.items())
    )
    report = evaluate_captions(results, REFERENCES, metrics=NO_METEOR)
    assert report.name == "mine"
    assert report.values == evaluate_captions(RESULTS, REFERENCES, metrics=NO_METEOR).values


def test_gaps_are_refused_unless_a_subset_is_asked_for() -> None:
    fewer = {key: RESULTS[key] for key in ("1", "2")}
    more = {**fewer, "9": "a lost caption"}
    with pytest.raises(ScoreError, match="1 of 3"):
        evaluate_captions(fewer, REFERENCES, metrics=["bleu"])
    with pytest.raises(ScoreError, match="1 of 3"):
        evaluate_captions(more, REFERENCES, metrics=["bleu"])
    report = evaluate_captions(more, REFERENCES, metrics=["bleu"], subset=True)
    shared = {key: REFERENCES[key] for key in fewer}
    assert report.values == evaluate_captions(fewer, shared, metrics=["bleu"]).values
    assert all(score.signature.endswith("|subset:2/3") for score in report.scores)
    assert "2 images scored; 1 results had no reference, 1 images" in report.notes[0]
    assert "subset" in report_grid(report).text()


def test_a_subset_of_nothing() -> None:
    with pytest.raises(ScoreError, match="'x'"):
        evaluate_captions({"x": "a"}, REFERENCES, subset=True)


def test_drawn_references_are_said_and_reproducible() -> None:
    draws = [
        evaluate_captions(RESULTS, REFERENCES, metrics=["bleu"], references_per_image=1, seed=seed)
        for seed in (0, 0, 1, 2, 3)
    ]
    assert draws[0].values == draws[1].values
    assert any(draws[0].values != other.values for other in draws[2:])
    assert "|refs:1|" in draws[0].scores[0].signature
    assert draws[0].scores[0].signature.endswith("|refs-drawn:1,seed:0")


def test_missing_meteor_is_a_note_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def scorers() -> list[object]:
        def missing(pairs: Comparison) -> tuple[Score, ...]:
            raise MissingExtraError("METEOR needs pip install 'sightwords[meteor]'")

        return [(("meteor",), missing), (("cider",), lambda pairs: (cider(pairs),))]

    monkeypatch.setattr(module, "_scorers", scorers)
    report = evaluate_captions(RESULTS, REFERENCES)
    assert "meteor" not in report.values
    assert "meteor" not in json.loads(report_json(report))
    assert report.notes == ("meteor: not computed: METEOR needs pip install 'sightwords[meteor]'",)
    with pytest.raises(MissingExtraError):
        evaluate_captions(RESULTS, REFERENCES, metrics=["meteor", "cider"])


def test_an_empty_caption_scores_next_to_nothing() -> None:
    report = evaluate_captions({**RESULTS, "3": ""}, REFERENCES, metrics=NO_METEOR)
    for score in report.scores:
        assert score.per_image[2] == pytest.approx(0, abs=1e-3)


def test_one_mapping_with_two_spellings_is_ambiguous() -> None:
    with pytest.raises(ScoreError, match=r"'1'.*'01'"):
        evaluate_captions({"1": "a", "01": "b"}, REFERENCES)


def test_files_of_a_report(tmp_path: Path) -> None:
    report = evaluate_captions(RESULTS, REFERENCES, metrics=NO_METEOR, name="mine")
    save_report(report, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"scores.json", "scores.csv", "scores.md", "per_image.jsonl"}
    content = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    assert {key: content[key] for key in report.values} == report.values
    assert set(content["signatures"]) == set(report.values)
    lines = [json.loads(line) for line in per_image_jsonl(report).splitlines()]
    assert [line["id"] for line in lines] == ["1", "2", "3"]
    assert lines[1]["caption"] == "two cats sit"
    assert lines[1]["cider"] == report.score("cider").per_image[1]
    csv = (tmp_path / "out" / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert csv[0] == "metric,value,signature"
    assert float(csv[-1].split(",")[1]) == report.values["cider"]
    markdown = (tmp_path / "out" / "scores.md").read_text(encoding="utf-8")
    assert f"| cider | {report.values['cider']:.4f} |" in markdown


def test_a_report_becomes_a_row(tmp_path: Path) -> None:
    report = evaluate_captions(RESULTS, REFERENCES, metrics=["bleu"])
    row = read_row(save_report_row(report, tmp_path, table="coco", system="mine"))
    assert row.values == report.values
    assert row.signatures["bleu_4"] == report.score("bleu_4").signature


def test_asking_for_what_was_not_computed() -> None:
    report = evaluate_captions(RESULTS, REFERENCES, metrics=["bleu_1"])
    assert list(report.values) == ["bleu_1"]
    with pytest.raises(ScoreError, match="'cider'"):
        report.score("cider")


@pytest.mark.parametrize("ending", [".json", ".jsonl.gz", ".csv"])
def test_a_system_is_called_by_its_file(ending: str) -> None:
    assert module._name_of(f"scores/ours{ending}") == "ours"
