"""Precision-recall curves of chosen words, drawn with matplotlib (extra `eval`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sightwords.errors import ScoreError, require
from sightwords.evaluate.words import WordReport
from sightwords.files import atomic_path
from sightwords.metrics.word_ap import precision_recall


def plot_words(report: WordReport, words: Sequence[str], path: str | Path) -> None:
    """Draw one curve a word, with a dot where people stand, as PNG, SVG or PDF by the ending."""
    figures = require("matplotlib.figure", extra="eval", purpose="drawing curves")
    place = {word: number for number, word in enumerate(report.table.words)}
    unknown = [word for word in words if word not in place]
    if unknown or not words:
        raise ScoreError(
            f"cannot draw {', '.join(map(repr, unknown)) or 'no words'}; "
            f"choose among the {len(place)} words judged"
        )
    figure = figures.Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    for word in words:
        column = place[word]
        precision, recall = precision_recall(
            report.scores[:, column], report.truth.counts[:, column], report.truth.captions
        )
        label = f"{word} (AP {100 * report.table.ap[column]:.1f})"
        (line,) = axes.plot(recall, precision, label=label)
        human = report.table.human_recall[column], report.table.human_precision[column]
        axes.plot(*human, "o", color=line.get_color())
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title(f"{report.name}; dots: people")
    axes.legend(loc="best")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
