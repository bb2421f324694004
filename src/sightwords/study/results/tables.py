"""Results as tables in the form of the paper (Table 4), as JSON and as files.

Only votes of people go into a column that is about people. Results of any other origin get their
own table, marked in its title, in every heading and in its signature.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightwords.evaluate.grid import Grid
from sightwords.evaluate.published import SYSTEMS
from sightwords.evaluate.tables import NOT_GIVEN, OPEN
from sightwords.files import write_text
from sightwords.study.model import HUMAN
from sightwords.study.results.count import StudyResults
from sightwords.study.results.disagreement import (
    SHOWN,
    MetricAgreement,
    agreement_grid,
    disagreement_page,
    disagreements,
)
from sightwords.study.results.statistics import ErrorBar
from sightwords.study.store import Store, read_photo

COLUMNS = ("≈", ">", "≥")
"""Same, better, same or better: the order of the paper."""


def result_tables(results: StudyResults) -> tuple[Grid, ...]:
    """The table of the paper; if the votes are not of people, also a marked table."""
    tables = [_paper_table(results)]
    if results.design.origin != "human":
        tables.append(_marked_table(results))
    tables.append(_judges_table(results))
    return tuple(tables)


def _paper_table(results: StudyResults) -> Grid:
    design = results.design
    human = design.origin == "human"
    header = ("system", *(f"{sign}{design.against}" for sign in COLUMNS))
    rows: list[tuple[str, ...]] = [(design.system, *(_cells(results) if human else (OPEN,) * 3))]
    if design.against == HUMAN:
        rows += [
            (f"{name} (paper)", *cells)
            for name, cells in _published()
            if any(c != NOT_GIVEN for c in cells)
        ]
    notes = _notes(results) if human else (f"open: this study's votes are {design.origin}",)
    title = f"Judged by people against {design.against}, % of pairs by majority vote"
    return Grid(header, tuple(rows), title=title, notes=notes)


def _marked_table(results: StudyResults) -> Grid:
    design = results.design
    mark = design.origin.upper()
    return Grid(
        ("system", *(f"{sign}{design.against} ({mark})" for sign in COLUMNS)),
        ((f"{design.system} ({mark})", *_cells(results)),),
        title=f"{mark} votes, not votes of people: not the result of a human study",
        notes=_notes(results),
    )


def _cells(results: StudyResults) -> tuple[str, str, str]:
    found = results.shares
    if found is None:
        return (OPEN, OPEN, OPEN)
    return (_percent(found.same), _percent(found.better), _percent(found.same_or_better))


def _percent(bar: ErrorBar) -> str:
    return f"{100 * bar.mean:.1f} (±{100 * bar.margin:.1f})"


def _published() -> list[tuple[str, tuple[str, ...]]]:
    keys = ("same_as_human", "better_than_human", "same_or_better")
    return [
        (name, tuple(NOT_GIVEN if row[k] is None else f"{row[k]:.1f}" for k in keys))
        for name, row in SYSTEMS.items()
    ]


def _notes(results: StudyResults) -> tuple[str, ...]:
    left_out = sum(results.excluded.values())
    why = ", ".join(f"{n} {reason}" for reason, n in sorted(results.excluded.items()))
    kappa = "not defined" if results.kappa is None else f"{results.kappa:.3f}"
    return (
        f"{len(results.judged)} pairs with at least {results.votes_per_pair} valid votes; "
        f"{results.unfinished_pairs} unfinished pairs are not counted",
        f"judges: {results.judges} kept, {left_out} excluded" + (f" ({why})" if why else ""),
        f"votes stored but not counted: {results.surplus_votes}",
        f"Fleiss' kappa: {kappa}",
        results.signature,
    )


def _judges_table(results: StudyResults) -> Grid:
    """The judges with the lowest agreement, and the mean of all."""
    rows = [
        (_name(results, row.judge), str(row.votes), f"{100 * row.agreement:.1f}")
        for row in results.agreement[:10]
    ]
    mark = "" if results.design.origin == "human" else f" ({results.design.origin.upper()})"
    values = [row.agreement for row in results.agreement]
    note = (
        f"of {len(values)} judges; mean {100 * sum(values) / len(values):.1f}" if values else "none"
    )
    return Grid(
        ("judge", "votes", "agreement, %"),
        tuple(rows),
        title=f"Judges{mark} with the lowest agreement",
        notes=(note,),
    )


def _name(results: StudyResults, judge: int) -> str:
    name = results.names.get(judge)
    return f"judge {judge}" + (f" ({name})" if name else "")


def results_json(results: StudyResults) -> str:
    """All figures in full precision, with their `origin`."""
    found = results.shares
    content: dict[str, Any] = {
        "origin": results.design.origin,
        "system": results.design.system,
        "against": results.design.against,
        "shares": None
        if found is None
        else {
            name: {"value": bar.mean, "margin": bar.margin}
            for name, bar in (
                ("same", found.same),
                ("better", found.better),
                ("same_or_better", found.same_or_better),
            )
        },
        "pairs": len(results.judged),
        "votes_needed": results.votes_per_pair,
        "unfinished_pairs": results.unfinished_pairs,
        "judges": results.judges,
        "excluded": results.excluded,
        "surplus_votes": results.surplus_votes,
        "fleiss_kappa": results.kappa,
        "agreement": [
            {"judge": a.judge, "votes": a.votes, "agreement": a.agreement}
            for a in results.agreement
        ],
        "signature": results.signature,
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def pairs_jsonl(results: StudyResults) -> str:
    """One line per judged pair: image, captions and votes."""
    lines = [
        json.dumps(
            {
                "image": judged.pair.image,
                results.design.system: judged.pair.first,
                f"against {results.design.against}": judged.pair.second,
                "votes": dict(zip(("better", "same", "worse"), judged.counts, strict=True)),
                "origin": results.design.origin,
            },
            ensure_ascii=False,
        )
        for judged in results.judged
    ]
    return "".join(f"{line}\n" for line in lines)


def save_results(
    store: Store, results: StudyResults, agreement: Sequence[MetricAgreement], folder: Path
) -> None:
    """Write results.json, results.md, results.csv, pairs.jsonl and disagreement.html."""
    tables = result_tables(results)
    if agreement:
        tables += (agreement_grid(agreement, origin=results.design.origin),)
    write_text(folder / "results.json", results_json(results) + "\n")
    write_text(folder / "results.md", "\n\n".join(table.markdown() for table in tables) + "\n")
    write_text(folder / "results.csv", tables[0].csv())
    write_text(folder / "pairs.jsonl", pairs_jsonl(results))
    shown = {v.judged.pair.image for one in agreement for v in disagreements(one)[:SHOWN]}
    with store.read() as connection:
        photos = {image: read_photo(connection, image) or b"" for image in sorted(shown)}
    write_text(folder / "disagreement.html", disagreement_page(agreement, results.design, photos))
