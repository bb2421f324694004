"""A page of the images where two systems differ most: one file, no scripts, no requests.

Every word of it that came out of a file is escaped, and a Content-Security-Policy forbids the
page to load or run anything but its own style and the small pictures inside it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from sightwords.errors import ImageError
from sightwords.evaluate.grid import Grid
from sightwords.images import decode_apart
from sightwords.types import ImageRef

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
        return ""  # the page is worth having without this picture; the id still names the image
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
    said = "".join(f"<li>{escape(reference)}</li>" for reference in entry.references)
    return (
        f"<article>\n<h3>{escape(entry.id)}</h3>\n{_picture(entry)}"
        f"<dl>{''.join(lines)}</dl>\n"
        f"<details><summary>{len(entry.references)} references</summary><ul>{said}</ul></details>\n"
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
