"""`sightwords study results`: count the votes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import HelpFormatter, add_json, add_out, add_set, read_set
from sightwords.cli.study.opened import add_study, opened, tell
from sightwords.config.check import check

if TYPE_CHECKING:
    from sightwords.evaluate.grid import Grid
    from sightwords.study.results.count import StudyResults
    from sightwords.study.store import Store


@dataclass(frozen=True)
class CountSettings:
    """How votes are counted."""

    votes: int = 0
    """Count pairs with at least this many valid votes; 0: as many as the study asks for."""
    metrics: tuple[str, ...] = ("cider",)
    """Compared with people: bleu_1 to bleu_4, meteor, rouge_l, cider."""
    seed: int = 0
    """Seed of the resampling."""

    def __post_init__(self) -> None:
        for name in ("votes", "seed"):
            check(self, name, getattr(self, name) >= 0, "at least 0")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "results",
        help="count the votes",
        description="Count the votes: the paper's columns with error bars, kappa, agreement of "
        "judges and of metrics.",
        epilog="example: sightwords study results\n"
        "example: sightwords study results --out results --set metrics=bleu,rouge_l,cider",
        formatter_class=HelpFormatter,
    )
    add_study(parser)
    add_out(parser, "write JSON, CSV, Markdown and the page there")
    add_json(parser, "JSON instead of tables")
    add_set(parser, CountSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Count, print and write."""
    settings = read_set(CountSettings, args)
    with opened(args) as store:
        from sightwords.study.results.count import study_results
        from sightwords.study.results.tables import result_tables, results_json

        results = study_results(store, votes_per_pair=settings.votes or None, seed=settings.seed)
        tables = [*result_tables(results), *_agreement(store, results, args, settings)]
    if args.json:
        print(results_json(results))
    else:
        print("\n\n".join(table.text() for table in tables))
    return 0


def _agreement(
    store: Store, results: StudyResults, args: argparse.Namespace, settings: CountSettings
) -> list[Grid]:
    """The metrics beside people; with --out also every file."""
    from sightwords.evaluate.captions import choose_metrics
    from sightwords.study.results.disagreement import agreement_grid, metric_agreement
    from sightwords.study.results.tables import save_results
    from sightwords.study.store import read_references

    with store.read() as connection:
        references = read_references(connection)
    metrics = choose_metrics(list(settings.metrics))
    found = metric_agreement(results, references, metrics=metrics)
    if args.out:
        save_results(store, results, found, Path(args.out))
        tell(f"wrote results.json, .md, .csv, pairs.jsonl and disagreement.html into {args.out}")
    return [agreement_grid(found, origin=results.design.origin)] if found else []
