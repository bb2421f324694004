"""How often people and metrics prefer different captions, and an HTML page of those photos.

A metric prefers the caption with the higher score against the references of the photo; people
prefer the caption with more votes. Pairs that are undecided for either one are left out.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightwords.evaluate.captions import score_pairs
from sightwords.evaluate.grid import Grid
from sightwords.metrics.score import Comparison
from sightwords.study.model import Design, JudgedPair
from sightwords.study.results.count import StudyResults

THUMBNAIL_PX = 288
SHOWN = 60
"""Photos on the page per metric, the clearest disagreements first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judged pair with the scores of a metric."""

    judged: JudgedPair
    references: tuple[str, ...]
    scores: tuple[float, float]
    """Of the system under test, of the other side."""

    @property
    def people(self) -> float:
        """(better - worse) / votes: above 0 if people prefer the system."""
        better, same, worse = self.judged.counts
        return (better - worse) / (better + same + worse)

    @property
    def metric(self) -> float:
        """Above 0 if the metric prefers the system."""
        return self.scores[0] - self.scores[1]


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """The verdicts of one metric."""

    metric: str
    signature: str
    verdicts: tuple[Verdict, ...]

    @property
    def decided(self) -> list[Verdict]:
        """Pairs for which both people and the metric have a preference."""
        return [v for v in self.verdicts if v.people and v.metric]

    @property
    def agreeing(self) -> int:
        """Number of decided pairs with the same preference."""
        return sum((v.people > 0) == (v.metric > 0) for v in self.decided)


def metric_agreement(
    results: StudyResults,
    references: Mapping[str, Sequence[str]],
    *,
    metrics: Sequence[str] = ("cider",),
) -> list[MetricAgreement]:
    """Score both captions of every judged pair whose photo has references."""
    usable = [j for j in results.judged if references.get(j.pair.image)]
    if len(usable) < 2:
        return []  # with one image, all idf weights are zero
    said = {str(n): tuple(references[j.pair.image]) for n, j in enumerate(usable)}
    both = [
        score_pairs(Comparison.of({str(n): text for n, text in enumerate(side)}, said), metrics)[0]
        for side in ([j.pair.first for j in usable], [j.pair.second for j in usable])
    ]
    return [
        MetricAgreement(
            ours.metric, ours.signature, _verdicts(usable, said, ours.per_image, theirs.per_image)
        )
        for ours, theirs in zip(*both, strict=True)
    ]


def _verdicts(
    usable: Sequence[JudgedPair],
    said: Mapping[str, tuple[str, ...]],
    ours: npt.NDArray[np.float64],
    theirs: npt.NDArray[np.float64],
) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(judged, said[str(n)], (float(ours[n]), float(theirs[n])))
        for n, judged in enumerate(usable)
    )


def agreement_grid(found: Sequence[MetricAgreement], *, origin: str) -> Grid:
    """One row per metric."""
    who = "people" if origin == "human" else f"{origin.upper()} judges"
    rows = tuple(
        (
            one.metric,
            str(len(one.decided)),
            f"{100 * one.agreeing / len(one.decided):.1f}" if one.decided else "–",
        )
        for one in found
    )
    return Grid(
        ("metric", "decided pairs", "agrees, %"),
        rows,
        title=f"How often a metric prefers the caption that {who} prefer",
        notes=tuple(one.signature for one in found),
    )


def disagreements(found: MetricAgreement) -> list[Verdict]:
    """Decided pairs with opposite preferences, the clearest first."""
    against = [v for v in found.decided if (v.people > 0) != (v.metric > 0)]
    return sorted(against, key=lambda v: (-abs(v.people * v.metric), v.judged.pair.image))


def disagreement_page(
    found: Sequence[MetricAgreement], design: Design, photos: Mapping[str, bytes]
) -> str:
    """A self-contained HTML page: the table of agreement, then a section per metric."""
    who = "People" if design.origin == "human" else f"{design.origin.upper()} judges (not people)"
    body = [
        f"<h1>{escape(who)} and metrics disagree</h1>",
        f"<p>{escape(design.system)} against {escape(design.against)}. {escape(who)} preferred the "
        "marked caption; the metric gave the other one a higher score.</p>",
        _table(agreement_grid(found, origin=design.origin)),
    ]
    for one in found:
        chosen = disagreements(one)
        cards = "\n".join(_card(v, design, photos) for v in chosen[:SHOWN])
        body.append(
            f"<section><h2>{escape(one.metric)}: {len(chosen)} of {len(one.decided)} pairs, "
            f"{min(SHOWN, len(chosen))} shown</h2><div class=cards>{cards}</div></section>"
        )
    return _PAGE.format(style=_STYLE, body="\n".join(body))


def _card(verdict: Verdict, design: Design, photos: Mapping[str, bytes]) -> str:
    pair, (better, same, worse) = verdict.judged.pair, verdict.judged.counts
    sides = ((design.system, pair.first, better), (design.against, pair.second, worse))
    lines = "".join(
        f"<dt>{escape(name)} · {votes} votes · {score:.3f}</dt>"
        f"<dd{' class=wins' if (verdict.people > 0) == (place == 0) else ''}>{escape(caption)}</dd>"
        for place, ((name, caption, votes), score) in enumerate(
            zip(sides, verdict.scores, strict=True)
        )
    )
    said = "".join(f"<li>{escape(reference)}</li>" for reference in verdict.references)
    return (
        f"<article><h3>{escape(pair.image)}</h3>{_picture(photos.get(pair.image))}"
        f"<dl>{lines}<dt>same · {same} votes</dt></dl><details><summary>"
        f"{len(verdict.references)} references</summary><ul>{said}</ul></details></article>"
    )


def _picture(jpeg: bytes | None) -> str:
    if jpeg is None:
        return ""
    picture = Image.open(io.BytesIO(jpeg))
    picture.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img src="data:image/jpeg;base64,{data}" alt="Photo">'


def _table(grid: Grid) -> str:
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in grid.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows
    )
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in grid.notes)
    return (
        f"<table><caption>{escape(grid.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{notes}"
    )


_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } .note { font-size: .85rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; } caption { text-align: left; font-weight: bold; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #8888; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
article { border: 1px solid #8888; border-radius: .5rem; padding: 1rem; }
h3 { margin: 0 0 .5rem; font-size: 1rem; overflow-wrap: anywhere; }
img { width: 100%; height: 12rem; object-fit: contain; background: #8882; }
dt { font-size: .85rem; } dd { margin: 0 0 .5rem; padding-left: .6rem;
  border-left: 3px solid transparent; overflow-wrap: anywhere; }
dd.wins { border-color: #1a9b4b; } ul { padding-left: 1.2rem; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>People and metrics disagree</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
