"""Reports out: the table on screen, and JSON, CSV and Markdown files, each written whole.

A folder of a report holds `scores.json` (every digit, keys as in `METRICS`), `scores.csv`,
`scores.md` (rounded, with signatures) and `per_image.jsonl` (one line per image).
"""

from __future__ import annotations

import json
from pathlib import Path

from sightwords.evaluate.captions import Report
from sightwords.evaluate.grid import Grid, csv_text
from sightwords.evaluate.rows import Row, save_row
from sightwords.files import write_text


def report_grid(report: Report) -> Grid:
    """Metric and value, with the signatures underneath.

    >>> import numpy as np
    >>> from sightwords.metrics.score import Comparison, Score
    >>> pairs = Comparison(("1",), (("a", "dog"),), ((("a", "dog"),),))
    >>> score = Score("cider", 1.10812, np.zeros(1), "cider|refs:5")
    >>> print(report_grid(Report("mine", pairs, {"1": "a dog"}, (score,))).text())
    mine (images: 1)
    metric   value
    ------  ------
    cider   1.1081
    cider|refs:5
    """
    return Grid(
        ("metric", "value"),
        tuple((score.metric, f"{score.value:.4f}") for score in report.scores),
        title=f"{report.name} (images: {len(report.captions)})",
        notes=(*(score.signature for score in report.scores), *report.notes),
    )


def report_json(report: Report) -> str:
    """The values by key, then everything that makes them reproducible."""
    content = {
        **report.values,
        "name": report.name,
        "images": len(report.captions),
        "signatures": {score.metric: score.signature for score in report.scores},
        "notes": list(report.notes),
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def per_image_jsonl(report: Report) -> str:
    """One line per image: id, caption and its value under each metric."""
    lines = [
        json.dumps(
            {
                "id": key,
                "caption": caption,
                **{score.metric: float(score.per_image[place]) for score in report.scores},
            },
            ensure_ascii=False,
        )
        for place, (key, caption) in enumerate(report.captions.items())
    ]
    return "\n".join(lines) + "\n"


def save_report(report: Report, folder: str | Path) -> None:
    """Write the four files of a report into a folder, each whole or not at all."""
    folder = Path(folder)
    rows = [(score.metric, score.value, score.signature) for score in report.scores]
    write_text(folder / "scores.json", report_json(report) + "\n")
    write_text(folder / "scores.csv", csv_text([("metric", "value", "signature"), *rows]))
    write_text(folder / "scores.md", report_grid(report).markdown() + "\n")
    write_text(folder / "per_image.jsonl", per_image_jsonl(report))


def save_report_row(report: Report, folder: str | Path, *, table: str, system: str) -> Path:
    """Keep a report's values as one row of the paper's tables."""
    signatures = {score.metric: score.signature for score in report.scores}
    return save_row(Path(folder), Row(table, system, report.values, signatures))
