"""A comparison out: table, JSON, CSV, Markdown, and the page of images that differ most."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sightwords.evaluate.captions import References, load_references
from sightwords.evaluate.compare import ComparisonReport, aligned, most_different
from sightwords.evaluate.grid import Grid, csv_text
from sightwords.evaluate.page import Entry, comparison_page, thumbnail
from sightwords.evaluate.references import find_images
from sightwords.evaluate.report import report_json
from sightwords.files import write_text
from sightwords.types import ImageRef


def comparison_grid(comparison: ComparisonReport) -> Grid:
    """A line a metric: both values, the difference, both p-values."""
    return Grid(
        (
            "metric",
            comparison.first.name,
            comparison.second.name,
            "difference",
            "5 % to 95 %",
            "p (Wilcoxon)",
            "p (bootstrap)",
        ),
        tuple(
            (
                d.metric,
                f"{d.values[0]:.4f}",
                f"{d.values[1]:.4f}",
                f"{d.difference:+.4f}",
                f"{d.interval[0]:+.4f} to {d.interval[1]:+.4f}" if d.interval else "–",
                p_value(d.wilcoxon_p),
                p_value(d.bootstrap_p),
            )
            for d in comparison.differences
        ),
        title=f"{comparison.first.name} and {comparison.second.name} "
        f"(images: {len(comparison.first.captions)})",
        notes=(
            comparison.settings,
            *(score.signature for score in comparison.first.scores),
            *comparison.first.notes,
        ),
    )


def p_value(p: float) -> str:
    """A p-value as papers print it.

    >>> p_value(0.0123), p_value(3e-9), p_value(1.0)
    ('0.012', '<0.001', '1.000')
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def comparison_json(comparison: ComparisonReport) -> str:
    """Both reports and the differences, every digit."""
    content = {
        "first": json.loads(report_json(comparison.first)),
        "second": json.loads(report_json(comparison.second)),
        "differences": {
            d.metric: {
                "first": d.values[0],
                "second": d.values[1],
                "difference": d.difference,
                "interval": list(d.interval) if d.interval else None,
                "wilcoxon_p": d.wilcoxon_p,
                "bootstrap_p": d.bootstrap_p,
            }
            for d in comparison.differences
        },
        "settings": comparison.settings,
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def save_comparison(
    comparison: ComparisonReport, folder: str | Path, *, references: References
) -> Path:
    """Write `comparison.json`, `.csv`, `.md` and the page; return the page's path.

    Where `references` is a corpus with images (shards, or a folder beside its captions), the
    page shows them; otherwise it names them by id.
    """
    folder = Path(folder)
    grid = comparison_grid(comparison)
    rows = [
        (d.metric, *d.values, d.difference, *(d.interval or ("", "")), d.wilcoxon_p, d.bootstrap_p)
        for d in comparison.differences
    ]
    names = ("metric", "first", "second", "difference", "low", "high")
    header = (*names, "wilcoxon_p", "bootstrap_p")
    write_text(folder / "comparison.json", comparison_json(comparison) + "\n")
    write_text(folder / "comparison.csv", csv_text([header, *rows]))
    write_text(folder / "comparison.md", grid.markdown() + "\n")
    page = folder / "comparison.html"
    write_text(page, _page(comparison, grid, references))
    return page


def _page(comparison: ComparisonReport, grid: Grid, references: References) -> str:
    metric, directions = most_different(comparison)
    names = (comparison.first.name, comparison.second.name)
    shown = [key for ids in directions for key in ids]
    images = find_images(references, shown) if isinstance(references, (str, Path)) else {}
    said = load_references(references)
    sections = {
        f"{name} better": [
            _entry(comparison, key, metric, said[key], images.get(key)) for key in ids
        ]
        for name, ids in zip(names, directions, strict=True)
    }
    return comparison_page(names, grid, sections, metric=metric)


def _entry(
    comparison: ComparisonReport,
    key: str,
    metric: str,
    references: Sequence[str],
    image: ImageRef | None,
) -> Entry:
    reports = (comparison.first, comparison.second)
    scores = [float(aligned(report, metric, [key])[0]) for report in reports]
    return Entry(
        id=key,
        captions=(reports[0].captions[key], reports[1].captions[key]),
        scores=(scores[0], scores[1]),
        references=tuple(references),
        picture=thumbnail(image),
    )
