"""The planning table of `sightwords study power`."""

from __future__ import annotations

from collections.abc import Sequence

from sightwords.evaluate.grid import Grid
from sightwords.study.power import PAPER_SHARES, plan


def power_grid(
    difference: float,
    *,
    judges: Sequence[int],
    shares: Sequence[float] = PAPER_SHARES,
    kappa: float = 0.4,
    head_to_head: bool = False,
    alpha: float = 0.05,
    power: float = 0.8,
    pairs_per_judge: int = 20,
) -> Grid:
    """One row a number of judges a pair: what each asks for."""
    plans = [
        plan(
            difference,
            judges_per_pair=count,
            shares=shares,
            kappa=kappa,
            head_to_head=head_to_head,
            alpha=alpha,
            power=power,
            pairs_per_judge=pairs_per_judge,
        )
        for count in judges
    ]
    each = "pairs" if head_to_head else "pairs, each system"
    what = "better minus worse" if head_to_head else "same-or-better of two systems"
    return Grid(
        ("judges a pair", each, "votes in all", "judges in all", "expected points"),
        tuple(
            (
                str(p.judges_per_pair),
                str(p.pairs),
                str(p.votes),
                str(p.judges),
                f"{100 * p.difference:.1f}",
            )
            for p in plans
        ),
        title=f"To show {100 * difference:g} points ({what}; majority of 5)",
        notes=(
            f"two-sided test at {alpha:g}, found {100 * power:g} % of the time; kappa {kappa:g}; "
            f"{pairs_per_judge} pairs a judge, nobody excluded",
            "expected points: the same difference as this many judges' majority would show it",
        ),
    )
