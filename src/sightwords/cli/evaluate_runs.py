"""What the sub-verbs of `sightwords evaluate` do: call the library, print, write, keep rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.talk import say
from sightwords.errors import InputError

if TYPE_CHECKING:  # numpy and the metrics load when a command runs, not for --help
    from sightwords.evaluate import Report

CAPTION_TABLES = ("systems", "coco", "pascal5", "pascal50")
"""The paper's tables that caption scores can be a row of."""


def run_captions(args: argparse.Namespace) -> int:
    """Score one results file, and compare it with another where asked."""
    from sightwords.evaluate import evaluate_captions
    from sightwords.evaluate.references import load_references
    from sightwords.metrics.objects import read_objects

    _check_row(args)
    references = load_references(args.references)
    objects = read_objects(args.objects) if args.objects else None
    reports = [
        evaluate_captions(
            results,
            references,
            name=name,
            metrics=_listed(args.metrics),
            subset=args.subset,
            references_per_image=args.references_per_image,
            seed=args.seed,
            boxes=args.boxes,
            objects=objects,
        )
        for results, name in ((args.results, args.name), (args.compare, ""))
        if results
    ]
    if len(reports) == 1:
        return _show(reports[0], args)
    return _compare(reports[0], reports[1], args)


def _compare(report: Report, other: Report, args: argparse.Namespace) -> int:
    from sightwords.evaluate import compare_reports, save_comparison
    from sightwords.evaluate.compare_report import comparison_grid, comparison_json

    comparison = compare_reports(report, other, seed=args.seed)
    print(comparison_json(comparison) if args.json else comparison_grid(comparison).text())
    _keep(report, args)
    if args.out:
        with _writing(args.out):
            page = save_comparison(comparison, args.out, references=args.references)
        say(f"wrote {page} and comparison.json, .csv and .md beside it")
    return 0


def run_words(args: argparse.Namespace) -> int:
    """Judge a detector's words."""
    from sightwords.evaluate.words import (
        evaluate_words,
        save_word_rows,
        save_words,
        word_grid,
        word_json,
    )

    if args.plot and not args.out:
        args.parser.error("--plot needs --out, the folder to draw into")
    _check_row(args, tables=("words",))
    report = evaluate_words(
        args.scores,
        args.references,
        vocabulary=args.vocabulary,
        subset=args.subset,
        name=args.name,
    )
    print(word_json(report) if args.json else word_grid(report).text())
    if args.out:
        with _writing(args.out):
            save_words(report, args.out)
        say(f"wrote words.csv, table.json, table.csv and table.md into {args.out}")
    if args.plot:
        from sightwords.evaluate.words import plot_words

        with _writing(args.out):
            plot_words(report, _listed(args.plot) or [], Path(args.out) / "precision_recall.png")
    if args.save_row:
        system = args.save_row.partition(":")[2].strip()
        with _writing(args.rows):
            kept = save_word_rows(report, args.rows, system=system)
        say(f"kept {kept}")
    return 0


def run_baseline(args: argparse.Namespace) -> int:
    """Score people against people."""
    from sightwords.evaluate import evaluate_baseline

    _check_row(args)
    report = evaluate_baseline(
        args.kind,
        args.references,
        references_per_image=args.references_per_image,
        choices=args.choices,
        metrics=_listed(args.metrics),
        seed=args.seed,
    )
    return _show(report, args)


def run_tables(args: argparse.Namespace) -> int:
    """Print the paper's tables."""
    from sightwords.evaluate import paper_tables
    from sightwords.files import write_text

    grids = paper_tables(args.rows, studies=args.study)
    print("\n\n".join(grid.text() for grid in grids))
    if args.out:
        with _writing(args.out):
            write_text(args.out, "\n\n".join(grid.markdown() for grid in grids) + "\n")
    return 0


def run_server(args: argparse.Namespace) -> int:
    """Write and check one file of a submission, and the zip where asked."""
    from sightwords.evaluate.server import other_split, write_submission, write_zip

    with _writing(args.out):
        print(write_submission(args.results, args.images, args.out))
    if args.zip:
        with _writing(args.zip):
            print(write_zip([args.out, other_split(args.out)], args.zip))
    return 0


def _show(report: Report, args: argparse.Namespace) -> int:
    """Print a report and keep what was asked to be kept."""
    from sightwords.evaluate.report import report_grid, report_json

    print(report_json(report) if args.json else report_grid(report).text())
    _keep(report, args)
    return 0


def _keep(report: Report, args: argparse.Namespace) -> None:
    """Write the files and the row that were asked for."""
    from sightwords.evaluate.report import save_report, save_report_row

    if args.out:
        with _writing(args.out):
            save_report(report, args.out)
        say(f"wrote scores.json, scores.csv, scores.md and per_image.jsonl into {args.out}")
    if args.save_row:
        table, _, system = args.save_row.partition(":")
        with _writing(args.rows):
            kept = save_report_row(report, args.rows, table=table, system=system.strip())
        say(f"kept {kept}")


def _check_row(args: argparse.Namespace, *, tables: Sequence[str] = CAPTION_TABLES) -> None:
    """Refuse a row that could not be kept before an hour of scoring, not after."""
    if args.save_row:
        from sightwords.evaluate.rows import parse_row_name

        table, _ = parse_row_name(args.save_row)
        if table not in tables:
            args.parser.error(f"--save-row {args.save_row}: choose among {', '.join(tables)}")


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


@contextmanager
def _writing(where: str | Path) -> Iterator[None]:
    """A full disk or a forbidden folder is the user's to mend, not a bug of ours."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"{where}: cannot be written ({error.strerror or error}); check the path, its "
            "permissions and the space left"
        ) from error
