"""`sightwords study power`: how large a study must be."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from sightwords.cli.options import HelpFormatter, add_set, read_set
from sightwords.config.check import check

JUDGES = (1, 3, 5, 7, 9)


@dataclass(frozen=True)
class PowerSettings:
    """What is expected of the judges."""

    shares: tuple[str, ...] = ("7.8", "26.2", "66.0")
    """Expected better, same, worse in % of pairs; those of the paper's best system unless given."""
    kappa: float = 0.4
    """Expected Fleiss' kappa of the judges."""
    head_to_head: bool = False
    """One system against the other, D = better minus worse; otherwise two systems are each
    compared with people, D = difference of same-or-better."""
    alpha: float = 0.05
    """Of the two-sided test."""
    power: float = 0.8
    """Chance of finding D."""
    pairs_per_judge: int = 20
    """Pairs that each judge sees."""

    def __post_init__(self) -> None:
        check(self, "pairs_per_judge", self.pairs_per_judge >= 1, "at least 1")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "power",
        help="plan how many pairs and judges show a difference",
        description="Print how many pairs and judges show a difference of D points.",
        epilog="example: sightwords study power 5\n"
        "example: sightwords study power 10 --set head_to_head=true --set shares=30,40,30 "
        "--set kappa=0.3",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "difference", type=float, metavar="D", help="in points of the results table, such as 5"
    )
    add_set(parser, PowerSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Print the planning table."""
    from sightwords.study.results.power import power_grid

    settings = read_set(PowerSettings, args)
    try:
        shares = [float(part) / 100 for part in settings.shares]
    except ValueError:
        given = ",".join(settings.shares)
        args.parser.error(f"--set shares={given}: expected three figures such as 8,26,66")
    grid = power_grid(
        args.difference / 100,
        judges=JUDGES,
        shares=shares,
        kappa=settings.kappa,
        head_to_head=settings.head_to_head,
        alpha=settings.alpha,
        power=settings.power,
        pairs_per_judge=settings.pairs_per_judge,
    )
    print(grid.text())
    return 0
