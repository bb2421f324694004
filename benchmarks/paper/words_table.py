"""The paper's word table from score files: AP and PHR by part of speech, and the pointing game.

    python benchmarks/paper/words_table.py --captions 'coco-val-*.tar' --part half0 \
        "ViT-S/14, MIL=runs/baselines/vit-mil.npz" "VGG16, MIL=runs/baselines/vgg16-mil.npz"
    python benchmarks/paper/words_table.py --captions coco-test-00.tar --boxes BOXES \
        --write docs/words.md "VGG16, MIL=runs/baselines/vgg16-mil.npz"

Rows come as NAME=FILE in the order given; files are those of `words_baselines.py`, or any that
`sightwords evaluate words` reads. Images without captions in `--captions` are left out, images
with a single caption too. A FILE that ends in `.jsonl#ROW` is the last line of that row in a
`results.jsonl` of `words_baselines.py`, for rows whose scores were not kept: nothing but its number
of images can be checked then. With `--boxes`, the files that hold peaks play the pointing game as
well (`localisation.py`). `--write` puts the tables into a Markdown page between the lines
`<!-- words_table -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from localisation import comparison, game, read_boxes  # type: ignore[import-not-found]
from shared import PARTS, part_of, placed  # type: ignore[import-not-found]

from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.grid import Grid
from sightwords.evaluate.words import WordReport, evaluate_words
from sightwords.files import write_text
from sightwords.types import Example
from sightwords.words.artefact import DEFAULT_DETECTOR, VOCABULARY_NAME

MARK = "words_table"


def main() -> None:
    args = arguments()
    files = dict(named_file(row) for row in args.rows)
    examples = [e for e in part_of(args.captions, args.part) if len(e.captions) > 1]
    references = {canonical_id(e.id): e.captions for e in examples}
    reports = {
        name: evaluate_words(path, references, vocabulary=args.vocabulary, subset=True, name=name)
        for name, path in files.items()
        if not _is_stated(path)
    }
    lines = {name: stated(path) for name, path in files.items() if _is_stated(path)}
    sizes = {name: len(report.scores) for name, report in reports.items()}
    sizes |= {name: int(line["images"]) for name, line in lines.items()}
    if len(set(sizes.values())) > 1:
        raise SystemExit(f"rows of different images cannot be compared: {sizes}")
    if not reports:
        raise SystemExit("give at least one file of scores")
    tables = [table(reports, lines, m, order=list(files)).markdown() for m in ("ap", "phr")]
    if args.boxes:
        tables.append(places(files, examples, args.boxes))
    text = "\n\n".join(tables)
    print(text)
    if args.write:
        page = args.write.read_text(encoding="utf-8")
        write_text(args.write, placed(page, MARK, f"\n{text}\n"))


def named_file(row: str) -> tuple[str, Path]:
    """NAME=FILE, or a file that is its own name.

    >>> named_file("VGG16, MIL=a/b.npz")
    ('VGG16, MIL', PosixPath('a/b.npz'))
    """
    name, _, path = row.rpartition("=")
    return name or Path(path).stem, Path(path)


def stated(path: Path) -> dict[str, Any]:
    """The last line of a row in `FILE.jsonl#ROW`."""
    file, _, row = str(path).rpartition("#")
    read = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    found: list[dict[str, Any]] = [line for line in read if line["row"] == row]
    if not found:
        raise SystemExit(f"{file}: no row {row!r}; it has {sorted({line['row'] for line in read})}")
    return found[-1]


def table(
    reports: Mapping[str, WordReport],
    lines: Mapping[str, Mapping[str, Any]],
    measure: str,
    *,
    order: Sequence[str],
) -> Grid:
    """Chance, each detector, and for PHR people; one column a part of speech, in per cent."""
    first = next(iter(reports.values()))
    title = {"ap": "AP, %", "phr": "PHR, %"}[measure]
    counted = "words_with_ap" if measure == "ap" else "words_with_phr"
    rows = [("words", *(str(getattr(m, counted)) for m in first.means))]
    if measure == "ap":
        rows.append(("Chance", *_percents(first, "chance")))
    columns = [m.pos for m in first.means]
    for name in order:
        row = (
            [f"{lines[name][pos][measure]:.1f}" for pos in columns]
            if name in lines
            else _percents(reports[name], measure)
        )
        rows.append((name, *row))
    if measure == "phr":
        rows.append(("Human Agreement", *_percents(first, "human_agreement")))
    return Grid((title, *columns), tuple(rows))


def places(files: Mapping[str, Path], examples: Sequence[Example], boxes: Path) -> str:
    """The pointing game of the files that hold peaks."""
    known = read_boxes(boxes)
    corpus = [e for e in examples if known.get(e.id)]
    games = {name: game(path, corpus, known) for name, path in files.items() if _holds_peaks(path)}
    if not games:
        raise SystemExit("no file holds peaks: write them with words_baselines.py")
    pairs = len(next(iter(games.values())))
    grid: Grid = comparison(games)
    header = (f"peak in a box, {pairs} pairs, {len(corpus)} images", *grid.header[1:])
    return Grid(header, grid.rows).markdown()


def _is_stated(path: Path) -> bool:
    return ".jsonl#" in path.name


def _holds_peaks(path: Path) -> bool:
    if path.suffix != ".npz":
        return False
    with np.load(path, allow_pickle=False) as arrays:
        return "peaks" in arrays


def _percents(report: WordReport, attribute: str) -> list[str]:
    values = [float(getattr(m, attribute)) for m in report.means]
    return ["–" if math.isnan(value) else f"{100 * value:.1f}" for value in values]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", help="NAME=FILE")
    parser.add_argument("--captions", action="append", required=True, help="captioned shards")
    parser.add_argument("--part", choices=PARTS, default="all", help="by id hash")
    parser.add_argument("--boxes", type=Path)
    parser.add_argument("--vocabulary", type=Path, default=DEFAULT_DETECTOR / VOCABULARY_NAME)
    parser.add_argument("--write", type=Path, help="a Markdown page with markers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
