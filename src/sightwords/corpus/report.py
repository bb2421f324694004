"""What `sightwords data inspect` prints: a summary and the problems, for people or machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sightwords.corpus.open import Corpus
from sightwords.corpus.problems import REMEDIES, Kind, Problem, printable
from sightwords.corpus.summary import VOCABULARY_SIZE, Summary, length_statistics

_SHOWN = 3
"""Problems of each kind that the report names; `--set problems=FILE` writes them all."""


def report_json(corpus: Corpus, summary: Summary) -> dict[str, Any]:
    """For machines."""
    sources = [
        {"source": printable(part.source), "format": part.format, "reason": part.reason}
        for part in corpus.parts
    ]
    problems = {
        str(kind): {
            "count": corpus.problems.counts[kind],
            "remedy": REMEDIES[kind],
            "first": [problem_json(problem) for problem in corpus.problems.first(kind)[:_SHOWN]],
        }
        for kind in Kind
        if corpus.problems.counts[kind]
    }
    return {"sources": sources, **summary.to_json(), "problems": problems}


def problem_json(problem: Problem) -> dict[str, str]:
    """One problem as a line of the file that `--set problems` names."""
    return {
        "kind": str(problem.kind),
        "where": problem.where,
        "found": problem.found,
        "remedy": problem.remedy,
    }


def report_lines(corpus: Corpus, summary: Summary) -> Iterator[str]:
    """For people, a line at a time."""
    yield from corpus.describe()
    yield f"images              {summary.images:,}"
    if summary.images < summary.examples:
        yield f"texts without image {summary.examples - summary.images:,}"
    yield f"captions            {summary.captions:,}"
    counts = summary.captions_per_image.items()
    spread = ", ".join(f"{n:,} with {per}" for per, n in sorted(counts, key=lambda i: (-i[1], i)))
    yield f"captions each       {_cut(spread)}"
    yield f"splits              {_listed(summary.splits)}"
    yield f"datasets            {_listed(summary.datasets)}"
    lengths = length_statistics(summary.lengths)
    if lengths:
        quantiles = ", ".join(f"{name} {value:g}" for name, value in lengths.items())
        yield f"tokens a caption    {quantiles} (longest: {summary.longest})"
    yield f"vocabulary          {len(summary.words):,} words in {summary.words.total():,} tokens"
    yield f"coverage            {summary.coverage():.2%} by the {VOCABULARY_SIZE} most frequent"
    if summary.smallest and summary.largest:
        small, large = (f"{w} x {h}" for w, h in (summary.smallest, summary.largest))
        yield f"image formats       {_listed(summary.formats)}; {small} to {large} px"
    yield from problem_lines(corpus)


def _listed(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return _cut(", ".join(f"{name or '(none)'} {count:,}" for name, count in ordered))


def _cut(text: str, width: int = 300) -> str:
    return text if len(text) <= width else text[:width].rsplit(",", 1)[0] + ", ..."


def problem_lines(corpus: Corpus) -> Iterator[str]:
    """Problems by kind: how many, what to do, and the first of them by name."""
    problems = corpus.problems
    yield f"problems            {len(problems):,}"
    for kind in Kind:
        if not problems.counts[kind]:
            continue
        yield f"  {kind} {problems.counts[kind]:,}: {REMEDIES[kind]}"
        for problem in problems.first(kind)[:_SHOWN]:
            yield f"    {problem.where}: {problem.found}"
        if problems.counts[kind] > _SHOWN:
            yield f"    ... and {problems.counts[kind] - _SHOWN:,} more"
