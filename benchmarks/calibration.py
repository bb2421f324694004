"""Does "precision .8" mean .8? Fit a calibration on held-out scores, measure it on other images.

    python benchmarks/calibration.py --fit runs/held-out/scores.npz \
        --fit-captions coco-train.jsonl.gz --test runs/words-test/scores.npz \
        --test-captions coco-test-00.tar --plot reliability.png

`benchmarks/describe.py` writes the scores. Over all pairs of image and word at or above the word's
threshold for p (closed-class words, topped-up words and words more common than p left out), the
share of pairs that are right should be p. Images with fewer than five captions are left out: in
them right words look wrong. `sightwords train calibration` writes one into a detector.

A second table judges the content words that are put out for the first method at tau = .5: by
precision alone as in the paper, with the lowest probability that `choose_words` asks for, and, for
comparison, by probability alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.config import CalibrationConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.errors import require
from sightwords.evaluate.grid import Grid
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.metrics.word_ap import CAPTIONS, count_words
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.types import FloatArray
from sightwords.words.calibration import LEAST_SHARE, Calibration, choose_words
from sightwords.words.calibration_fit import fit_calibration
from sightwords.words.reliability import PROMISES, Reliability, reliability

WITHIN = 0.03
"""How far from its promise a precision may be."""
TAU = CalibrationConfig().threshold


@dataclass(frozen=True)
class Scored:
    """Scores and labels of the images that have five captions."""

    scores: npt.NDArray[np.float64]
    labels: npt.NDArray[np.bool_]
    words: tuple[str, ...]


def main() -> None:
    args = arguments()
    fit = read([args.fit], args.fit_captions)
    test = read(args.test, args.test_captions)
    print(f"fitted on {len(fit.scores)} images, measured on {len(test.scores)}\n")
    fitted = {m: fit_calibration(fit.scores, fit.labels, method=m) for m in args.methods}
    measured = {
        method: reliability(calibration, test.scores, test.labels, test.words)
        for method, calibration in fitted.items()
    }
    print(grid(measured).markdown() + "\n")
    first = fitted[args.methods[0]]
    print(choices(first, test).markdown())
    if args.plot:
        plot(measured, args.plot)


def read(files: Sequence[Path], captions: Sequence[str]) -> Scored:
    """Bring scores and captions together by id."""
    tables = [read_word_scores(path) for path in files]
    ids = [key for table in tables for key in table.ids]
    scores = np.concatenate([table.scores for table in tables])
    words = tables[0].words
    said = {canonical_id(e.id): e.captions for e in open_corpus(captions)}
    rows = [row for row, key in enumerate(ids) if len(said.get(key, ())) >= CAPTIONS]
    if not rows:
        raise SystemExit(f"{files[0]}: no image has five captions in {', '.join(captions)}")
    tokens = [tokenize_all(said[ids[row]][:CAPTIONS]) for row in rows]
    counts = count_words([[tuple(t) for t in of_image] for of_image in tokens], words)
    return Scored(scores[rows], counts.counts > 0, words)


def grid(measured: Mapping[str, Sequence[Reliability]]) -> Grid:
    """A row a method: the measured precision beside each promised one."""
    rows = []
    for method, found in measured.items():
        worst = max(abs(r.measured - r.promised) for r in found)
        shares = [f"{r.measured:.3f}" for r in found]
        rows.append((method, *shares, f"{100 * worst:.1f}", "yes" if worst <= WITHIN else "no"))
        rows.append((f"{method}: pairs", *(str(r.pairs) for r in found), "", ""))
        rows.append((f"{method}: words", *(str(r.words) for r in found), "", ""))
    header = ("promised", *(f"{p:.1f}" for p in PROMISES), "largest gap, points", "within 3")
    return Grid(header, tuple(rows), title="Measured precision of what is promised")


def choices(calibration: Calibration, test: Scored) -> Grid:
    """What is put out under several rules: how many words, how many right, how much of it all."""
    probs = test.scores.astype(np.float32)
    precisions = calibration.precision(probs)
    content = np.array([word not in CLOSED_CLASS for word in test.words])
    rules = {f"precision >= {TAU}": 0.0, f"and probability >= {LEAST_SHARE * TAU:.1f}": LEAST_SHARE}
    masks = {name: put_out(precisions, probs, test.words, share) for name, share in rules.items()}
    masks |= {f"probability >= {p} alone": probs >= p for p in (0.15, 0.2, 0.25)}
    rows = []
    for name, mask in masks.items():
        mine = mask & content
        right = int((mine & test.labels).sum())
        precision, recall = right / mine.sum(), right / (test.labels & content).sum()
        f1 = 2 * precision * recall / (precision + recall)
        shares = (f"{100 * share:.1f}" for share in (precision, recall, f1))
        rows.append((name, f"{mine.sum() / len(mine):.1f}", *shares))
    header = ("rule", "words an image", "right, %", "of the words said, %", "F1, %")
    return Grid(header, tuple(rows), title="Content words put out")


def put_out(
    precisions: FloatArray, probs: FloatArray, words: Sequence[str], least_share: float
) -> npt.NDArray[np.bool_]:
    """(N, V) whether `choose_words` puts the word out, top-up included."""
    mask = np.zeros(probs.shape, dtype=np.bool_)
    for row, of_image, chances in zip(mask, precisions, probs, strict=True):
        row[choose_words(of_image, chances, words, threshold=TAU, least_share=least_share)] = True
    return mask


def plot(measured: Mapping[str, Sequence[Reliability]], path: Path) -> None:
    """Promised against measured, with the band of three points."""
    matplotlib = require("matplotlib", extra="eval", purpose="the reliability plot")
    matplotlib.use("Agg")
    pyplot = require("matplotlib.pyplot", extra="eval", purpose="the reliability plot")
    figure, axes = pyplot.subplots(figsize=(5, 5), layout="constrained")
    ends = np.array([0.42, 0.98])
    axes.fill_between(ends, ends - WITHIN, ends + WITHIN, color="0.88", label="within 3 points")
    axes.plot(ends, ends, color="0.5", linewidth=1)
    for (method, found), mark in zip(measured.items(), "os^v", strict=False):
        promised = [r.promised for r in found]
        axes.plot(promised, [r.measured for r in found], marker=mark, label=method)
    axes.set(xlabel="promised precision", ylabel="measured precision", xlim=ends, ylim=ends)
    axes.set_aspect("equal")
    axes.legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fit", type=Path, required=True, help="scores.npz of held-out images")
    parser.add_argument("--fit-captions", nargs="+", required=True)
    parser.add_argument(
        "--test", type=Path, nargs="+", required=True, help="scores.npz of other images"
    )
    parser.add_argument("--test-captions", nargs="+", required=True)
    parser.add_argument("--methods", nargs="+", default=["shrunk", "paper"])
    parser.add_argument("--plot", type=Path, help="a picture file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
