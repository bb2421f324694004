"""The tables of docs/results.md, from the rows that `paper_rows.py score` has saved.

    python benchmarks/paper/paper_tables.py PLAN.toml --rows rows                         # to read
    python benchmarks/paper/paper_tables.py PLAN.toml --rows rows --page docs/results.md  # in place

One table an image set of the plan, one line a row of the plan, in its order. On the page a table
stands between `<!-- table: SET -->` and `<!-- end -->`; the rest of the page is left as it is, and
so is the line of a row, found by its label, of which no file is at hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from paper_rows import Plan, System, read_plan, saved  # type: ignore[import-not-found]
from shared import marked, placed  # type: ignore[import-not-found]

from sightwords.evaluate.grid import Grid
from sightwords.evaluate.published import PASCAL, SYSTEMS
from sightwords.evaluate.tables import NOT_GIVEN, OPEN
from sightwords.files import write_text

PEOPLE = ("human", "shuffled-human")
MEASURES = (("cider", "CIDEr"), ("bleu_4", "BLEU-4"), ("meteor", "METEOR"))
REFERENCES = {"coco": "[5]", "pascal5": "[5]", "pascal50": "[50]"}
Values = Mapping[str, float]


def main() -> None:
    args = arguments()
    plan = read_plan(args.plan)
    page = args.page.read_text(encoding="utf-8") if args.page else ""
    for name in (name for name, one in plan.sets.items() if one.tables):
        if args.page:
            page = placed(
                page, f"table: {name}", table(plan, name, args.rows, standing(page, name))
            )
        else:
            print(f"## {name}\n\n{table(plan, name, args.rows, {})}\n")
    if args.page:
        write_text(args.page, page)


def table(plan: Plan, images: str, rows: Path, before: Mapping[str, tuple[str, ...]]) -> str:
    """One set's table in Markdown; lines of rows without a file are those from `before`."""
    one = plan.sets[images]
    others = [name for name in one.tables if name != "systems"]
    published = one.published
    header = ["system", "PPLX", "BLEU", "METEOR"]
    if published:
        header = ["system", "PPLX", "paper", "BLEU", "paper", "METEOR", "paper", "≥human", "paper"]
    for name in others:
        header += [f"{label} {REFERENCES[name]}" for _, label in MEASURES]
    body = paper_rows(len(header)) if "pascal5" in one.tables else []
    for system in plan.systems:
        found = {name: saved(rows / images, name, system.name) for name in one.tables}
        label = system.label or system.name
        if label in before and not any(found.values()):
            body.append(before[label])
            continue
        cells = four(system, found.get("systems", {}), published=published)
        for name in others:
            cells += [cell(key, found[name]) for key, _ in MEASURES]
        body.append((label, *cells))
    return Grid(tuple(header), tuple(body)).markdown()


def four(system: System, found: Values, *, published: bool) -> list[str]:
    """Perplexity, BLEU and METEOR against 4 references, beside the paper's where that is shown.

    What people fill stays open for a system that writes captions.
    """
    keys = ("pplx", "bleu_4", "meteor")
    silent = system.kind in PEOPLE
    ours = [NOT_GIVEN if silent and key == "pplx" else cell(key, found) for key in keys]
    if not published:
        return ours
    writes = not silent and system.kind != "sample"
    ours.append(OPEN if writes else NOT_GIVEN)
    paper = SYSTEMS.get(system.name, system.paper)
    theirs = [printed(paper.get(key)) for key in (*keys, "same_or_better")]
    return [cell for pair in zip(ours, theirs, strict=True) for cell in pair]


def paper_rows(columns: int) -> list[tuple[str, ...]]:
    """The paper's own figures on PASCAL: 847 images, 5 references."""
    blank = (NOT_GIVEN,) * (columns - 7)
    return [
        (f"{name} (paper, 847 images)", *[NOT_GIVEN] * 4, *map(printed, values.values()), *blank)
        for name, values in PASCAL.items()
        if any(value is not None for value in values.values())
    ]


def cell(key: str, values: Values) -> str:
    """A measured figure as it is printed: CIDEr as a fraction, the others in per cent.

    >>> cell("cider", {"cider": 1.1789}), cell("bleu_4", {"bleu_4": 0.3559}), cell("pplx", {})
    ('1.179', '35.6', 'open')
    """
    if key not in values:
        return OPEN
    if key == "cider":
        return f"{values[key]:.3f}"
    return f"{values[key]:.1f}" if key == "pplx" else f"{100 * values[key]:.1f}"


def printed(value: float | None) -> str:
    return NOT_GIVEN if value is None else f"{value:.1f}"


def standing(page: str, name: str) -> dict[str, tuple[str, ...]]:
    r"""The lines of a table of the page, by label.

    >>> standing("<!-- table: x -->\n| a | b |\n|:--|--:|\n| r | 1 |\n<!-- end -->", "x")["r"]
    ('r', '1')
    """
    match = marked(f"table: {name}").search(page)
    lines = match[2].splitlines()[2:] if match else []
    rows = (tuple(map(str.strip, line.strip("|").split("|"))) for line in lines)
    return {row[0]: row for row in rows}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path)
    parser.add_argument("--rows", type=Path, default=Path("rows"), help="of `paper_rows.py score`")
    parser.add_argument("--page", type=Path, help="Markdown file to put the tables into")
    return parser.parse_args()


if __name__ == "__main__":
    main()
