"""`sightwords evaluate tables`: the paper's tables from saved rows."""

from __future__ import annotations

import argparse

from sightwords.cli.evaluate.results import writing
from sightwords.cli.options import HelpFormatter, add_out


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "tables",
        help="assemble the paper's tables from saved rows",
        description="Assemble the paper's tables from saved rows. What was not measured prints as "
        "open.",
        epilog="example: sightwords evaluate tables rows\n"
        "example: sightwords evaluate tables rows --out tables.md\n"
        "example: sightwords evaluate tables rows --study results/results.json",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("rows", metavar="DIR", help="the folder of saved rows (--set save_row)")
    add_out(parser, "also write Markdown there", "FILE")
    parser.add_argument(
        "--study",
        metavar="FILE",
        action="append",
        default=[],
        help="results.json of a human study, for the columns that only people fill; repeatable",
    )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Print the paper's tables."""
    from sightwords.evaluate import paper_tables
    from sightwords.files import write_text

    grids = paper_tables(args.rows, studies=args.study)
    print("\n\n".join(grid.text() for grid in grids))
    if args.out:
        with writing(args.out):
            write_text(args.out, "\n\n".join(grid.markdown() for grid in grids) + "\n")
    return 0
