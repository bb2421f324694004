"""What the sub-verbs of `sightwords evaluate` share: references, settings, files, table rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.output import say
from sightwords.config.check import check
from sightwords.errors import InputError

if TYPE_CHECKING:  # numpy and the metrics load when a command runs, not for --help
    from sightwords.evaluate import Report

CAPTION_TABLES = ("systems", "coco", "pascal5", "pascal50")
"""The paper's tables that caption scores can be a row of."""


@dataclass(frozen=True, kw_only=True)
class RowSettings:
    """A row to keep for `evaluate tables`."""

    save_row: str = ""
    """TABLE:SYSTEM: words, systems, coco, pascal5 or pascal50, and the row's name."""
    rows: str = "rows"
    """The folder of kept rows."""


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(RowSettings):
    """How captions are scored."""

    metrics: tuple[str, ...] = ()
    """bleu (or bleu_1 to bleu_4), meteor, rouge_l, cider; empty: these. For captions also chair
    (needs boxes), person_words, alt_text."""
    references_per_image: int = 0
    """Compare with this many randomly drawn references of each image (the paper: 4); 0: all."""
    seed: int = 0
    """Seed of random draws."""

    def __post_init__(self) -> None:
        for name in ("references_per_image", "seed"):
            check(self, name, getattr(self, name) >= 0, "at least 0")


def add_references(parser: argparse.ArgumentParser) -> None:
    """Register `--references`."""
    parser.add_argument(
        "--references",
        metavar="REFS",
        required=True,
        help="human captions: COCO caption JSON, JSONL(.gz), webdataset shards, or anything else "
        "that 'sightwords data inspect' reads",
    )


def show(report: Report, args: argparse.Namespace, settings: RowSettings) -> int:
    """Print a report and write what was asked for."""
    from sightwords.evaluate.report import report_grid, report_json

    print(report_json(report) if args.json else report_grid(report).text())
    keep(report, args, settings)
    return 0


def keep(report: Report, args: argparse.Namespace, settings: RowSettings) -> None:
    """Write the files and the row that were asked for."""
    from sightwords.evaluate.report import save_report, save_report_row

    if args.out:
        with writing(args.out):
            save_report(report, args.out)
        say(f"wrote scores.json, scores.csv, scores.md and per_image.jsonl into {args.out}")
    if settings.save_row:
        table, _, system = settings.save_row.partition(":")
        with writing(settings.rows):
            kept = save_report_row(report, settings.rows, table=table, system=system.strip())
        say(f"kept {kept}")


def check_row(
    args: argparse.Namespace, settings: RowSettings, *, tables: Sequence[str] = CAPTION_TABLES
) -> None:
    """Refuse a row that could not be kept before an hour of scoring, not after."""
    if settings.save_row:
        from sightwords.evaluate.rows import parse_row_name

        table, _ = parse_row_name(settings.save_row)
        if table not in tables:
            args.parser.error(
                f"--set save_row={settings.save_row}: choose one of {', '.join(tables)}"
            )


@contextmanager
def writing(where: str | Path) -> Iterator[None]:
    """Report a full disk or a folder that cannot be written as one line, without a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"{where}: cannot be written ({error.strerror or error}); check the path, its "
            "permissions and the space left"
        ) from error
