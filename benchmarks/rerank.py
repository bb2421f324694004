"""What each part of re-ranking adds: CIDEr, BLEU-4 and METEOR, with Wilcoxon's p, row by row.

    python benchmarks/rerank.py BUNDLE 'coco-val-*.tar'
    ... --test coco-test-00.tar

The models are those of a bundle. Weights of each row are tuned on one half of the images (by the
hash of their ids) and scored on the other half; with --test, on those images instead. Then comes
how reliable the confidence is that is fitted to the last row, and what it says of 60 other images
that show nothing (blank, noise).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sightwords.config import PRESETS, Config, MertConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider
from sightwords.metrics.meteor import meteor
from sightwords.metrics.score import Comparison
from sightwords.metrics.significance import wilcoxon
from sightwords.rerank.linear import Ranker, Stage
from sightwords.train.rerank.confidence import fit_and_judge, probabilities
from sightwords.train.rerank.list_metrics import References, references_of
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.mert import chosen
from sightwords.train.rerank.mert_stages import Tuning, apply_ranker, tune_ranker
from sightwords.train.rerank.run import Models, halves_of, tuning_of_blank_images, tuning_of_images


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    label: str
    cider: float
    bleu_4: float
    meteor: float
    words: float
    p_value: float
    """Of the difference in CIDEr from the row before."""


def main() -> None:
    args = arguments()
    default = PRESETS["default"]
    config = replace(
        default,
        generation=replace(default.generation, coverage=args.coverage),
        mert=replace(default.mert, objective=args.objective),
    )
    parts = (args.bundle / name for name in ("words", "language", "dmsm", "grounded"))
    models = Models(*parts)
    whole, references = looked_at(args.images, models, config, args)
    tune, held = halves_of(whole, config.mert)
    tune = tune.select(range(min(args.tune_images or len(tune.lists), len(tune.lists))))
    judged = held
    if args.test:
        judged, references = looked_at(args.test, models, config, args)
    print(
        f"tuned on {len(tune.lists)} images for {args.objective}, scored on {len(judged.lists)}; "
        f"{whole.lists.hypotheses / len(whole.lists):.0f} sentences a list"
    )
    rankers = ladder(args, tune)
    before: np.ndarray | None = None
    said = references_of(judged.lists, references)
    for label, ranker in rankers.items():
        picked = apply_ranker(judged, ranker).hypotheses
        row, before = score(label, judged.lists, said, picked, before)
        worth = tune.metrics.cider[apply_ranker(tune, ranker).hypotheses].mean()
        show(row, f"tuning {worth:.3f}")
    best = chosen(judged.metrics.cider, judged.lists.offsets)
    show(score("oracle: best of each list", judged.lists, said, best, before)[0])
    judge_confidence(rankers.popitem()[1], held, models, config)


def looked_at(
    sources: Sequence[str], models: Models, config: Config, args: argparse.Namespace
) -> tuple[Tuning, dict[str, tuple[str, ...]]]:
    """All that MERT asks about the images of a corpus, and their captions."""
    captions = {canonical_id(e.id): e.captions for e in open_corpus(sources)}
    images = ((e, e.image) for e in open_corpus(sources) if e.image is not None)
    found = tuning_of_images(
        images, models, config, threads=args.processes, processes=args.processes
    )
    return found, captions


def ladder(args: argparse.Namespace, tune: Tuning) -> dict[str, Ranker]:
    """Each row's weights, tuned from those of the row before."""
    rankers = {
        "best likelihood": Ranker((Stage({"log_likelihood": 1.0}),)),
        "best likelihood a word": Ranker((Stage({"log_prob_per_word": 1.0}),)),
    }
    base = MertConfig(
        objective=args.objective, dmsm=False, restarts=args.restarts, bags=args.bags,
        seed=args.seed,
    )  # fmt: skip
    steps: dict[str, dict[str, bool]] = {
        "MERT, Table 2 without DMSM": {},
        "+ DMSM (the paper)": {"dmsm": True},
        "+ word probabilities": {"probabilities": True},
        "+ coverage and doubt": {"coverage": True},
        "+ consensus": {"consensus": True},
        "+ grounded": {"grounded": True},
    }
    config, start = base, None
    for label, change in steps.items():
        if (change.get("dmsm") and tune.dmsm is None) or (
            change.get("grounded") and tune.grounded is None
        ):
            continue
        began = time.perf_counter()
        config = replace(config, **change)  # type: ignore[arg-type]
        start = rankers[label] = tune_ranker(tune, config, start=start)
        print(f"# tuned {label!r} in {time.perf_counter() - began:.0f} s", flush=True)
    return rankers


def score(
    label: str, lists: Lists, references: References, picked: np.ndarray, before: np.ndarray | None
) -> tuple[Row, np.ndarray]:
    pairs = Comparison(
        tuple(lists.ids.tolist()),
        tuple(lists.sentence(h) for h in picked.tolist()),
        tuple(tuple(group) for group in references),
    )
    found = cider(pairs)
    p_value = 1.0 if before is None else wilcoxon(found.per_image, before).p_value
    row = Row(
        label, found.value, bleu(pairs)[3].value, meteor(pairs).value,
        float(np.mean([len(c) for c in pairs.candidates])), p_value,
    )  # fmt: skip
    return row, found.per_image


def show(row: Row, more: str = "") -> None:
    print(
        f"{row.label:28s} CIDEr {row.cider:.3f}  BLEU-4 {100 * row.bleu_4:.1f}  METEOR "
        f"{100 * row.meteor:.1f}  {row.words:.1f} words  p {row.p_value:.1e}  {more}",
        flush=True,
    )


def judge_confidence(ranker: Ranker, held: Tuning, models: Models, config: Config) -> None:
    """How often captions of each confidence are good, cross-validated; and blank images."""
    choices = apply_ranker(held, ranker)
    values = held.metrics.cider[choices.hypotheses]
    bad, unseen = (
        apply_ranker(tuning_of_blank_images(models, config, seed=seed), ranker) for seed in (0, 1)
    )
    fitted, table = fit_and_judge(choices, values, bad=bad)
    print(
        f"confidence: good is CIDEr-D >= {fitted.threshold:g} ({100 * fitted.good_share:.0f} %); "
        f"{len(values)} images, cross-validated: ECE {fitted.reliability['ece']:.3f}, AUC "
        f"{fitted.reliability['auc']:.3f}"
    )
    for one in table:
        print(
            f"  {one.low:.1f}-{one.high:.1f}: {one.captions:5d} captions, confidence "
            f"{one.confidence:.2f}, good {one.good:.2f}"
        )
    worst = probabilities(fitted, unseen).max()
    print(f"  {len(unseen.rows)} other images that show nothing: at most {worst:.3f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("images", nargs="+", help="captioned images to tune on and to judge by")
    parser.add_argument("--test", nargs="+", help="score the rows on these images instead")
    parser.add_argument("--coverage", type=int, default=2, help="the T that lists start from")
    parser.add_argument("--objective", default="cider")
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--bags", type=int, default=0)
    parser.add_argument(
        "--tune-images", type=int, default=0, help="how many, from the first on (default: all)"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
