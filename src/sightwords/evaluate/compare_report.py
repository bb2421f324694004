"""A comparison out: table, JSON, CSV, Markdown, and the page of images that differ most."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sightwords.errors import ImageError
from sightwords.evaluate.compare import ComparisonReport, aligned, most_different
from sightwords.evaluate.grid import Grid, csv_text
from sightwords.evaluate.references import References, find_images, load_references
from sightwords.evaluate.report import report_json
from sightwords.files import write_text
from sightwords.images import decode_apart
from sightwords.types import ImageRef


def comparison_grid(comparison: ComparisonReport) -> Grid:
    """One line per metric: both values, the difference, both p-values."""
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
    loaded = load_references(references)
    sections = {
        f"{name} better": [
            _entry(comparison, key, metric, loaded[key], images.get(key)) for key in ids
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


# The page: one HTML file, no scripts, no requests. Every word of it that came out of a file is
# escaped, and a Content-Security-Policy forbids the page to load or run anything but its own style
# and the small pictures inside it.

THUMBNAIL_PX = 288
"""Longer side of an embedded picture: about 15 kB each."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One image with what both systems and the references say about it."""

    id: str
    captions: tuple[str, str]
    """The first system's, the second's."""
    scores: tuple[float, float]
    references: tuple[str, ...]
    picture: str = ""
    """A data URI; empty where the references carry no images."""


def thumbnail(image: ImageRef | None, *, longer_side_px: int = THUMBNAIL_PX) -> str:
    """A small JPEG as a data URI, or nothing for an image that cannot be read."""
    if image is None:
        return ""
    try:
        picture = decode_apart(image)
    except ImageError:
        return ""  # the page is useful without this picture; the id still names the image
    picture.thumbnail((longer_side_px, longer_side_px))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def comparison_page(
    names: tuple[str, str],
    table: Grid,
    sections: Mapping[str, Sequence[Entry]],
    *,
    metric: str,
) -> str:
    """The whole HTML text: the table of differences, then a section for each direction."""
    first, second = map(escape, names)
    body = [
        f"<h1>{first} <span class=vs>and</span> {second}</h1>",
        f"<p>The images on which the two differ most in <b>{escape(metric)}</b>, "
        "beside the human references.</p>",
        _table(table),
        *(_section(title, names, entries) for title, entries in sections.items()),
    ]
    return _PAGE.format(title=f"{first} and {second}", style=_STYLE, body="\n".join(body))


def _section(title: str, names: tuple[str, str], entries: Sequence[Entry]) -> str:
    cards = "\n".join(_card(names, entry) for entry in entries)
    return f"<section>\n<h2>{escape(title)}</h2>\n<div class=cards>\n{cards}\n</div>\n</section>"


def _card(names: tuple[str, str], entry: Entry) -> str:
    better = entry.scores[1] > entry.scores[0]
    lines = []
    for place, name in enumerate(names):
        wins = " class=wins" if better == bool(place) else ""
        caption = escape(entry.captions[place]) or "<i>(no caption)</i>"
        lines.append(
            f"<dt>{escape(name)} <span class=score>{entry.scores[place]:.3f}</span></dt>"
            f"<dd{wins}>{caption}</dd>"
        )
    items = "".join(f"<li>{escape(reference)}</li>" for reference in entry.references)
    return (
        f"<article>\n<h3>{escape(entry.id)}</h3>\n{_picture(entry)}"
        f"<dl>{''.join(lines)}</dl>\n"
        f"<details><summary>{len(entry.references)} references</summary>"
        f"<ul>{items}</ul></details>\n"
        "</article>"
    )


def _picture(entry: Entry) -> str:
    if not entry.picture:
        return ""
    # What a person wrote about the image is its best alternative text.
    alternative = escape(entry.references[0] if entry.references else f"image {entry.id}")
    return f'<img src="{escape(entry.picture)}" alt="{alternative}">\n'


def _table(grid: Grid) -> str:
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in grid.header)
    rows = "".join(
        f"<tr><th scope=row>{escape(row[0])}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for row in grid.rows
    )
    notes = "".join(f"<p class=note>{escape(note)}</p>\n" for note in grid.notes)
    return (
        '<div class=scroll tabindex=0 role=region aria-label="differences">'
        f"<table>\n<caption>{escape(grid.title)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table></div>\n{notes}"
    )


_STYLE = """
:root { color-scheme: light dark; --line: #8888; --wins: #0a7d32; --faint: #5a5a5a; }
@media (prefers-color-scheme: dark) { :root { --wins: #5fd38a; --faint: #b0b0b0; } }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; }
.vs, .score, .note { color: var(--faint); font-weight: normal; }
.note { font-size: .85rem; margin: .2rem 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .5rem 0; font-weight: bold; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { text-align: left; } td { white-space: nowrap; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; }
h3 { margin: 0 0 .5rem; font-size: 1rem; overflow-wrap: anywhere; }
img { width: 100%; height: 12rem; object-fit: contain; background: #8882; }
dl { margin: .5rem 0; } dt { font-size: .85rem; } dd { margin: 0 0 .5rem; padding-left: .6rem;
  border-left: 3px solid transparent; overflow-wrap: anywhere; }
dd.wins { border-color: var(--wins); }
summary { cursor: pointer; } ul { padding-left: 1.2rem; margin: .4rem 0; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
