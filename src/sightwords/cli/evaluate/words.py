"""`sightwords evaluate words`: average precision and precision at human recall of a detector."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from sightwords.cli.evaluate.results import RowSettings, add_references, check_row, writing
from sightwords.cli.options import HelpFormatter, add_json, add_out, add_set, read_set
from sightwords.cli.output import say


@dataclass(frozen=True, kw_only=True)
class WordSettings(RowSettings):
    """What few evaluations change."""

    vocabulary: str = ""
    """A sightwords vocabulary file: the words to judge, with their parts of speech; empty: the
    words of SCORES, as one class."""
    subset: bool = False
    """Score the images that both files have."""
    name: str = ""
    """The detector's name; empty: the file's."""
    plot: tuple[str, ...] = ()
    """Draw precision-recall curves of these words into --out."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "words",
        help="score word detections by part of speech",
        description="Score word detections: average precision and precision at human recall by "
        "part of speech.",
        epilog="example: sightwords evaluate words scores.npz --references coco-test-00.tar "
        "--set vocabulary=words.json\n"
        "example: sightwords evaluate words scores.jsonl --references refs.jsonl --out words "
        "--set plot=dog,red",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "scores",
        metavar="SCORES",
        help='NPZ with ids (N), words (V), scores (N,V), or JSONL {"id": "9", "words": '
        '{"dog": 0.9}}',
    )
    add_references(parser)
    add_out(parser, "write words.csv, table.json, .csv and .md")
    add_json(parser, "JSON instead of a table")
    add_set(parser, WordSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Score a detector's words."""
    from sightwords.evaluate.words import (
        evaluate_words,
        plot_words,
        save_word_rows,
        save_words,
        word_grid,
        word_json,
    )

    settings = read_set(WordSettings, args)
    if settings.plot and not args.out:
        args.parser.error("--set plot needs --out, the folder to draw into")
    check_row(args, settings, tables=("words",))
    report = evaluate_words(
        args.scores,
        args.references,
        vocabulary=settings.vocabulary or None,
        subset=settings.subset,
        name=settings.name,
    )
    print(word_json(report) if args.json else word_grid(report).text())
    if args.out:
        with writing(args.out):
            save_words(report, args.out)
        say(f"wrote words.csv, table.json, table.csv and table.md into {args.out}")
    if settings.plot:
        with writing(args.out):
            plot_words(report, list(settings.plot), Path(args.out) / "precision_recall.png")
    if settings.save_row:
        system = settings.save_row.partition(":")[2].strip()
        with writing(settings.rows):
            kept = save_word_rows(report, settings.rows, system=system)
        say(f"kept {kept}")
    return 0
