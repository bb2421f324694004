"""`sightwords evaluate baseline`: score people against people."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from sightwords.cli.evaluate.results import ScoreSettings, add_references, check_row, show
from sightwords.cli.options import HelpFormatter, add_json, add_out, add_set, read_set
from sightwords.config.check import check


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(ScoreSettings):
    """What few evaluations change."""

    choices: int = 0
    """Held-out captions to average over (human); 0: all that an image has, at most 10."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, "choices", self.choices >= 0, "at least 0")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "baseline",
        help="score people: one held-out caption, or a caption of another image",
        description="Score people: one held-out caption (human), or a caption of another image "
        "(shuffled-human).",
        epilog="example: sightwords evaluate baseline human --references coco-test-00.tar\n"
        "example: sightwords evaluate baseline shuffled-human --references coco-test-00.tar "
        "--set references_per_image=4",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("kind", choices=("human", "shuffled-human"), help="which baseline")
    add_references(parser)
    add_out(parser, "write JSON, CSV and Markdown there")
    add_json(parser, "JSON instead of a table")
    add_set(parser, BaselineSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Score and print."""
    from sightwords.evaluate import evaluate_baseline

    settings = read_set(BaselineSettings, args)
    check_row(args, settings)
    report = evaluate_baseline(
        args.kind,
        args.references,
        references_per_image=settings.references_per_image or None,
        choices=settings.choices or None,
        metrics=settings.metrics or None,
        seed=settings.seed,
    )
    return show(report, args, settings)
