"""Word scores + references -> Table 3: AP and PHR by part of speech (section 6.2)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sightwords.errors import ScoreError, require
from sightwords.evaluate.grid import Grid, csv_text
from sightwords.evaluate.references import References, load_references
from sightwords.evaluate.rows import Row, save_row
from sightwords.evaluate.word_scores import Scores, WordScoreTable, read_word_scores
from sightwords.files import atomic_path, write_text
from sightwords.metrics.word_ap import count_words, precision_recall
from sightwords.metrics.word_ap import evaluate_words as judge_words
from sightwords.metrics.word_table import ALL, CaptionCounts, WordMeans, WordTable, summarise
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary_file import load_vocabulary

PartsOfSpeech = Mapping[str, str]
"""The words to judge, in order, each with its part of speech; `` where it is not known."""


@dataclass(frozen=True, slots=True)
class WordReport:
    """One detector's words, judged."""

    name: str
    table: WordTable
    """One row per word."""
    means: tuple[WordMeans, ...]
    """By part of speech, All last; All alone where no part of speech is known."""
    scores: Scores = field(repr=False)
    """(N, V) as judged."""
    truth: CaptionCounts = field(repr=False)
    notes: tuple[str, ...] = ()


def evaluate_words(
    scores: str | Path | WordScoreTable,
    references: References,
    *,
    vocabulary: str | Path | PartsOfSpeech | None = None,
    subset: bool = False,
    name: str = "",
) -> WordReport:
    """Judge a detector's words against the words that people used (the first 5 captions).

    `vocabulary`, a file or a mapping, names the words to judge and their parts of speech; without
    it, the words of the scores are judged as one class. A word the detector does not score counts
    as 0 everywhere.

    >>> import numpy as np
    >>> table = WordScoreTable(("1", "2"), ("dog",), np.array([[0.9], [0.1]]))
    >>> report = evaluate_words(table, {"1": ["a dog", "the dog"], "2": ["a cat", "cats"]})
    >>> report.means[-1].pos, report.means[-1].ap
    ('All', 1.0)
    """
    table = read_word_scores(scores) if isinstance(scores, (str, Path)) else scores
    captions = load_references(references)
    ids, mark, notes = _images(table, captions, subset=subset)
    tags = _parts_of_speech(vocabulary, table.words)
    words, pos = tuple(tags), tuple(tags.values())
    truth = _truth([captions[key] for key in ids], words)
    selected = table.select(ids, words)
    judged = judge_words(selected, truth, words, pos)
    means = summarise(judged)
    unknown = len(set(words) - set(table.words))
    if unknown:
        notes.append(f"{unknown} of {len(words)} words have no score and count as 0 everywhere")
    signature = judged.signature + mark
    return WordReport(
        name=name or (Path(scores).stem if isinstance(scores, (str, Path)) else "detector"),
        table=judged,
        means=means if any(pos) else tuple(m for m in means if m.pos == ALL),
        scores=selected,
        truth=truth,
        notes=(signature, *notes),
    )


def _parts_of_speech(
    vocabulary: str | Path | PartsOfSpeech | None, scored: Sequence[str]
) -> PartsOfSpeech:
    if vocabulary is None:
        return dict.fromkeys(scored, "")
    if isinstance(vocabulary, (str, Path)):
        loaded = load_vocabulary(vocabulary)
        return dict(zip(loaded.words, loaded.pos or ("",) * len(loaded), strict=True))
    return vocabulary


def _truth(captions: Sequence[Sequence[str]], words: Sequence[str]) -> CaptionCounts:
    """Tokenise the captions as the metrics do, and count each word in each image's."""
    tokens = iter(tokenize_all([c for of_image in captions for c in of_image]))
    grouped = [[tuple(next(tokens)) for _ in of_image] for of_image in captions]
    return count_words(grouped, words)


def _images(
    table: WordScoreTable, captions: Mapping[str, Sequence[str]], *, subset: bool
) -> tuple[list[str], str, list[str]]:
    """The images to judge, the mark for the signature, and notes."""
    shared = [key for key in table.ids if key in captions]
    without, unscored = len(table.ids) - len(shared), len(captions) - len(shared)
    if not shared:
        raise ScoreError(
            f"no image has both scores and references (scores: {table.ids[0]!r}, ...; "
            f"references: {next(iter(captions), None)!r}, ...); check that the ids agree"
        )
    if subset:
        note = (
            f"subset: {len(shared)} images judged; {without} scored images had no reference, "
            f"{unscored} images with references had no scores"
        )
        return shared, f"|subset:{len(shared)}/{len(captions)}", [note]
    if without or unscored:
        raise ScoreError(
            f"{without} scored images have no reference and {unscored} images with references "
            "have no scores; give both for the same images, or judge the shared ones with "
            "--set subset=true"
        )
    return shared, "", []


def word_grid(report: WordReport) -> Grid:
    """Chance, the detector and Human Agreement by part of speech, in per cent."""
    means = report.means
    blank = [""] * len(means)
    rows = (
        ("Words", *(str(m.words) for m in means), *(str(m.words_with_phr) for m in means)),
        ("Chance", *(_percent(m.chance) for m in means), *blank),
        (report.name, *(_percent(m.ap) for m in means), *(_percent(m.phr) for m in means)),
        ("Human Agreement", *blank, *(_percent(m.human_agreement) for m in means)),
    )
    header = ("", *(f"AP {m.pos}" for m in means), *(f"PHR {m.pos}" for m in means))
    plain = ", ".join(f"{m.pos} {_percent(m.ap_plain)}" for m in means)
    return Grid(
        header,
        rows,
        title="Average precision (weighted as by the authors) and precision at human recall, %",
        notes=(
            f"AP with any caption as a positive (section 6.2): {plain}",
            "PHR is over all words with a positive image, as in the authors' code; a word that no "
            "caption of an image repeats has human recall 0",
            *report.notes,
        ),
    )


def word_json(report: WordReport) -> str:
    """The means by part of speech, every digit; a value that is not defined is null."""
    content = {
        "name": report.name,
        "means": {
            m.pos: {
                key: _defined(getattr(m, key))
                for key in WordMeans.__dataclass_fields__
                if key != "pos"
            }
            for m in report.means
        },
        "notes": list(report.notes),
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def word_csv(report: WordReport) -> str:
    """One line per word: its part of speech and everything measured; empty where not defined."""
    columns = (
        "positives",
        "ap",
        "ap_plain",
        "chance",
        "chance_plain",
        "phr",
        "human_precision",
        "human_recall",
    )
    table = report.table
    rows = [
        (
            word,
            table.pos[place],
            *(_or_empty(getattr(table, column)[place]) for column in columns),
        )
        for place, word in enumerate(table.words)
    ]
    return csv_text([("word", "pos", *columns), *rows])


def save_words(report: WordReport, folder: str | Path) -> None:
    """Write `words.csv`, and the table as `table.json`, `table.csv` and `table.md`."""
    folder = Path(folder)
    grid = word_grid(report)
    write_text(folder / "words.csv", word_csv(report))
    write_text(folder / "table.json", word_json(report) + "\n")
    write_text(folder / "table.csv", grid.csv())
    write_text(folder / "table.md", grid.markdown() + "\n")


def save_word_rows(report: WordReport, folder: str | Path, *, system: str) -> Path:
    """Keep the detector's row, and with it the Chance and Human Agreement of the same words."""
    signatures = {"word_ap": report.notes[0]}
    own = _row_values(report, ap="ap", phr="phr", words="words")
    chance = _row_values(report, ap="chance", words="words")
    human = _row_values(report, phr="human_agreement")
    save_row(Path(folder), Row("words", "Chance", chance, signatures))
    save_row(Path(folder), Row("words", "Human Agreement", human, signatures))
    return save_row(Path(folder), Row("words", system, own, signatures))


def plot_words(report: WordReport, words: Sequence[str], path: str | Path) -> None:
    """Draw one curve per word, with a dot for people, as PNG, SVG or PDF by the ending."""
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


def _row_values(report: WordReport, **columns: str) -> dict[str, float]:
    """Row keys such as `ap_nn`, `phr_all`, `count_vb` for what is defined."""
    values = {}
    for measure, attribute in columns.items():
        prefix = "count" if measure == "words" else measure
        for m in report.means:
            value = float(getattr(m, attribute))
            if math.isfinite(value):
                values[f"{prefix}_{m.pos.lower()}"] = value
    return values


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def _or_empty(value: float) -> float | str:
    return "" if math.isnan(value) else value.item() if hasattr(value, "item") else value
