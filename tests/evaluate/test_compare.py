"""Two systems beside each other: which is better, by how much, where."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sightwords.errors import ScoreError
from sightwords.evaluate.captions import Report, evaluate_captions
from sightwords.evaluate.compare import compare_reports, most_different
from sightwords.evaluate.compare_report import (
    comparison_grid,
    comparison_json,
    save_comparison,
)

pytest.importorskip("scipy")

REFERENCES = {
    str(i): [f"a {animal} runs on the {ground}", f"the {animal} is running on {ground}"]
    for i, (animal, ground) in enumerate(
        (animal, ground)
        for animal in ("dog", "cat", "horse", "cow", "bird")
        for ground in ("grass", "sand", "snow", "road")
    )
}
GOOD = {key: said[0] for key, said in REFERENCES.items()}
POOR = dict.fromkeys(REFERENCES, "a man in a hat")


def score(captions: dict[str, str], name: str, *, drawn: int | None = None) -> Report:
    return evaluate_captions(
        captions,
        REFERENCES,
        metrics=["bleu", "rouge_l", "cider"],
        name=name,
        references_per_image=drawn,
    )


def test_a_clear_difference_is_significant_in_both_tests() -> None:
    comparison = compare_reports(score(GOOD, "good"), score(POOR, "poor"))
    assert [d.metric for d in comparison.differences] == [
        *("bleu_1", "bleu_2", "bleu_3", "bleu_4"),
        *("rouge_l", "cider", "overlap_4"),
    ]
    for d in comparison.differences:
        assert d.difference > 0
        assert d.wilcoxon_p < 0.001
        assert d.bootstrap_p < 0.01
        assert d.interval is not None
        assert 0 < d.interval[0] <= d.difference * 1.000001
    overlap = comparison.differences[-1]
    assert overlap.values == (1.0, 0.0)


def test_turning_the_pair_round_turns_the_signs() -> None:
    there = compare_reports(score(GOOD, "good"), score(POOR, "poor"))
    back = compare_reports(score(POOR, "poor"), score(GOOD, "good"))
    for one, other in zip(there.differences, back.differences, strict=True):
        assert one.difference == pytest.approx(-other.difference)
        assert one.wilcoxon_p == pytest.approx(other.wilcoxon_p)


def test_equal_systems_do_not_differ() -> None:
    comparison = compare_reports(score(GOOD, "one"), score(GOOD, "two"))
    for d in comparison.differences:
        assert (d.difference, d.wilcoxon_p, d.bootstrap_p) == (0, 1, 1)
    assert most_different(comparison) == ("cider", ([], []))


def test_the_order_of_the_files_does_not_matter() -> None:
    mixed = {key: GOOD[key] if int(key) % 3 else POOR[key] for key in GOOD}
    backwards = {key: mixed[key] for key in reversed(mixed)}
    one = compare_reports(score(GOOD, "a"), score(mixed, "b"))
    two = compare_reports(score(GOOD, "a"), score(backwards, "b"))
    assert one.differences == two.differences
    ranked = most_different(one, count=3)
    assert ranked == most_different(two, count=3)
    assert set(ranked[1][0]) <= {key for key in GOOD if int(key) % 3 == 0}
    assert ranked[1][1] == []


def test_different_images_or_references_cannot_be_paired() -> None:
    fewer = {key: GOOD[key] for key in list(GOOD)[:5]}
    part = evaluate_captions(fewer, REFERENCES, metrics=["bleu"], subset=True, name="part")
    with pytest.raises(ScoreError, match=r"20.*5.*5"):
        compare_reports(score(GOOD, "good"), part)
    drawn = score(GOOD, "drawn", drawn=1)
    with pytest.raises(ScoreError, match="different references"):
        compare_reports(score(GOOD, "good"), drawn)


def test_files_of_a_comparison(tmp_path: Path) -> None:
    comparison = compare_reports(score(GOOD, "good"), score(POOR, "poor"))
    page = save_comparison(comparison, tmp_path, references=REFERENCES)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"comparison.{ending}" for ending in ("json", "csv", "md", "html")
    }
    content = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert content["first"]["name"] == "good"
    assert content["differences"]["cider"]["difference"] > 0
    assert content == json.loads(comparison_json(comparison))
    text = page.read_text(encoding="utf-8")
    assert text.count("<article>") == 20
    assert "a man in a hat" in text
    assert "good better" in text
    assert "<img" not in text
    assert "<0.001" in comparison_grid(comparison).text()
    assert "&lt;0.001" in text


def test_a_score_that_is_no_mean_gets_p_values_but_no_interval() -> None:
    def odd(captions: dict[str, str], name: str) -> Report:
        report = evaluate_captions(captions, REFERENCES, metrics=["cider"], name=name)
        (found,) = report.scores
        return replace(report, scores=(replace(found, metric="meteor", value=found.value / 2),))

    comparison = compare_reports(odd(GOOD, "good"), odd(POOR, "poor"))
    meteor, overlap = comparison.differences
    assert meteor.interval is None
    assert meteor.bootstrap_p < 0.01
    assert overlap.interval is not None
    assert json.loads(comparison_json(comparison))["differences"]["meteor"]["interval"] is None
