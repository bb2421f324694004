"""`sightwords evaluate captions`: score a results file, or compare two."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightwords.cli.evaluate.results import (
    ScoreSettings,
    add_references,
    check_row,
    keep,
    show,
    writing,
)
from sightwords.cli.options import HelpFormatter, add_json, add_out, add_set, read_set
from sightwords.cli.output import say

if TYPE_CHECKING:
    from sightwords.evaluate import Report


@dataclass(frozen=True, kw_only=True)
class CaptionSettings(ScoreSettings):
    """What few evaluations change."""

    subset: bool = False
    """Score the images that results and references share; signatures say so."""
    name: str = ""
    """The system's name; empty: the file's."""
    boxes: str = ""
    """The objects in each image (COCO's instances JSON, or ids with lists of classes); adds CHAIR,
    the share of captions that name an object which is not there."""
    objects: str = ""
    """The words of each object class, one line CLASS: word, word per class; empty: the 80 classes
    of COCO."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "captions",
        help="score one caption per image with BLEU-1 to 4, METEOR, ROUGE-L and CIDEr",
        description="Score one caption per image with BLEU-1 to 4, METEOR, ROUGE-L and CIDEr.",
        epilog="example: sightwords evaluate captions results.json --references coco-test-00.tar "
        "--out scores\n"
        "example: sightwords evaluate captions ours.json --references refs.jsonl "
        "--compare theirs.json --out scores\n"
        "example: sightwords evaluate captions results.json --references refs.jsonl "
        "--set metrics=bleu,cider --set references_per_image=4",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "results",
        metavar="RESULTS",
        help='COCO results JSON, or JSONL such as {"id": "9", "caption": "a dog"}',
    )
    add_references(parser)
    parser.add_argument(
        "--compare",
        metavar="OTHER",
        help="a second results file: print the differences with their p-values, and write a page "
        "of the images that differ most into --out",
    )
    add_out(parser, "write JSON, CSV and Markdown there")
    add_json(parser, "JSON instead of a table")
    add_set(parser, CaptionSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Score one results file, or compare it with another."""
    from sightwords.evaluate import evaluate_captions
    from sightwords.evaluate.references import load_references
    from sightwords.metrics.objects import read_objects

    settings = read_set(CaptionSettings, args)
    check_row(args, settings)
    references = load_references(args.references)
    objects = read_objects(settings.objects) if settings.objects else None
    reports = [
        evaluate_captions(
            results,
            references,
            name=name,
            metrics=settings.metrics or None,
            subset=settings.subset,
            references_per_image=settings.references_per_image or None,
            seed=settings.seed,
            boxes=settings.boxes or None,
            objects=objects,
        )
        for results, name in ((args.results, settings.name), (args.compare, ""))
        if results
    ]
    if len(reports) == 1:
        return show(reports[0], args, settings)
    return _compare(reports[0], reports[1], args, settings)


def _compare(
    report: Report, other: Report, args: argparse.Namespace, settings: CaptionSettings
) -> int:
    from sightwords.evaluate import compare_reports, save_comparison
    from sightwords.evaluate.compare_report import comparison_grid, comparison_json

    comparison = compare_reports(report, other, seed=settings.seed)
    print(comparison_json(comparison) if args.json else comparison_grid(comparison).text())
    keep(report, args, settings)
    if args.out:
        with writing(args.out):
            page = save_comparison(comparison, args.out, references=args.references)
        say(f"wrote {page} and comparison.json, .csv and .md beside it")
    return 0
