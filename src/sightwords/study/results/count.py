"""Counts the votes of a study: shares, excluded judges, agreement."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from sightwords._version import __version__
from sightwords.errors import StudyError
from sightwords.metrics.significance import RESAMPLES
from sightwords.study.model import ANSWERS, Ballot, Design, JudgedPair, Pair
from sightwords.study.results.statistics import (
    JudgeAgreement,
    Shares,
    fleiss_kappa,
    judge_agreement,
    shares,
)
from sightwords.study.schema import showing as showings
from sightwords.study.store import Store, read_ballots, read_judges, read_pairs


@dataclass(frozen=True, slots=True)
class StudyResults:
    """Everything that `sightwords study results` prints."""

    design: Design
    shares: Shares | None
    """None while no pair has enough votes."""
    judged: tuple[JudgedPair, ...] = field(repr=False)
    """The pairs that count, with their votes."""
    votes_per_pair: int
    """How many votes a pair needs to count."""
    kappa: float | None
    agreement: tuple[JudgeAgreement, ...]
    names: dict[int, str]
    """Names of judges from platforms, by number."""
    judges: int
    """Judges who voted and are not excluded."""
    excluded: dict[str, int]
    """Number of excluded judges, by reason."""
    unfinished_pairs: int
    surplus_votes: int
    """Stored but not counted: votes of excluded judges, or for full pairs."""
    signature: str


def study_results(
    store: Store, *, votes_per_pair: int | None = None, seed: int = 0, resamples: int = RESAMPLES
) -> StudyResults:
    """Count the valid votes of pairs that have at least `votes_per_pair` (default: all of them)."""
    design = store.design
    needed = votes_per_pair if votes_per_pair is not None else design.judges_per_pair
    if not 1 <= needed <= design.judges_per_pair:
        raise StudyError(
            f"votes is {needed}; this study has {design.judges_per_pair} judges per pair, so "
            "expected 1 to that"
        )
    with store.read() as connection:
        pairs, ballots = read_pairs(connection), read_ballots(connection)
        judges = {judge.id: judge for judge in read_judges(connection)}
        rows = connection.execute(
            sa.select(showings.c.judge_id, showings.c.pair_id).where(showings.c.choice.is_not(None))
        ).all()
    cast = [row for row in rows if not pairs[row.pair_id].is_check]
    voted = {row.judge_id for row in rows}
    judged = count_votes(pairs, ballots, needed=needed)
    kept = [b for b in ballots if b.pair in judged]
    counts = [pair.counts for pair in judged.values()]
    return StudyResults(
        design=design,
        shares=shares(counts, rng=np.random.default_rng(seed), resamples=resamples)
        if counts
        else None,
        judged=tuple(judged.values()),
        votes_per_pair=needed,
        kappa=fleiss_kappa(counts) if counts else None,
        agreement=tuple(judge_agreement(kept)),
        names={judge.id: judge.name for judge in judges.values() if ":" in judge.name},
        judges=sum(not judges[number].excluded for number in voted),
        excluded=dict(Counter(judges[n].excluded for n in voted if judges[n].excluded)),
        unfinished_pairs=design.pairs - len(judged),
        surplus_votes=len(cast) - len(ballots),
        signature=signature(
            design, pairs=len(judged), needed=needed, seed=seed, resamples=resamples
        ),
    )


def count_votes(
    pairs: dict[int, Pair], ballots: list[Ballot], *, needed: int
) -> dict[int, JudgedPair]:
    """The pairs with enough votes, by number."""
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    for ballot in ballots:
        votes[ballot.pair][ballot.answer] += 1
    counted = {
        number: JudgedPair(pairs[number], (found["better"], found["same"], found["worse"]))
        for number, found in sorted(votes.items())
    }
    assert set().union(*votes.values()) <= set(ANSWERS)
    return {n: pair for n, pair in counted.items() if sum(pair.counts) >= needed}


def signature(design: Design, *, pairs: int, needed: int, seed: int, resamples: int) -> str:
    """Everything needed to reproduce the figures; quote it with them.

    >>> signature(Design("ours"), pairs=9, needed=5, seed=0, resamples=1000).partition("|v:")[0]
    'study|origin:human|system:ours|against:human|pairs:9|judges-a-pair:5|votes-needed:5|\
checks:4|draw-seed:0|resamples:1000|seed:0'
    """
    return (
        f"study|origin:{design.origin}|system:{design.system}|against:{design.against}"
        f"|pairs:{pairs}|judges-a-pair:{design.judges_per_pair}|votes-needed:{needed}"
        f"|checks:{design.checks_per_judge}|draw-seed:{design.seed}"
        f"|resamples:{resamples}|seed:{seed}|v:{__version__}"
    )
