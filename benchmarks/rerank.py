"""What each part of re-ranking adds: CIDEr, BLEU-4 and METEOR, with Wilcoxon's p, row by row.

    python benchmarks/rerank.py lists-val.npz coco-val.jsonl.gz --features features-val.npz \
        --dmsm DMSM --grounded GROUNDED --out rerank
    ... --test lists-test.npz --test-captions coco-test-00.tar --test-features features-test.npz

LISTS come from benchmarks/lists.py, features from train.image_features. Weights are tuned on one
half of the images (by the hash of their ids) and the rows are scored on the other half; with
--test, on those lists instead. The weights of the last row, or of --keep, and the confidence fitted
to them go to --out (weights.json, confidence.json), with the table (ladder.json) and the captions.
With --detector and --language, images that show nothing (blank, noise) are captioned too, as
examples of captions that are known to be bad; --coverage must be that of the lists.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sightwords.config import Config, GenerationConfig, MertConfig
from sightwords.corpus.splits import coco_half
from sightwords.evaluate.references import read_references
from sightwords.files import write_text
from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider
from sightwords.metrics.meteor import meteor
from sightwords.metrics.score import Comparison
from sightwords.metrics.significance import wilcoxon
from sightwords.rerank.chooser import sentence_text
from sightwords.rerank.linear import Ranker, Stage
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.rerank.confidence import Choices, fit_and_judge, probabilities
from sightwords.train.rerank.list_metrics import References, measure, references_of
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.make_lists import with_precisions
from sightwords.train.rerank.mert import chosen
from sightwords.train.rerank.mert_scores import (
    Remembered,
    dmsm_scores,
    grounded_scores,
    image_tokens,
)
from sightwords.train.rerank.mert_stages import (
    Mask,
    Tuning,
    Values,
    apply_ranker,
    tune_ranker,
    with_values,
)
from sightwords.train.rerank.run import Models, tuning_of_nothing


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
    whole, references = tuning_of(args, args.lists, args.captions, args.features)
    half = np.array([coco_half(name) for name in whole.lists.ids.tolist()])
    tune = whole.select(np.flatnonzero(half == args.tune_half)[: args.tune_images or None])
    others = np.flatnonzero(half != args.tune_half)
    held = whole.select(others)
    judged = held
    judged_references: References = [references[i] for i in others.tolist()]
    if args.test:
        judged, judged_references = tuning_of(
            args, args.test, args.test_captions, args.test_features
        )
    print(
        f"tuned on {len(tune.lists)} images for {args.objective}, scored on {len(judged.lists)}; "
        f"{whole.lists.hypotheses / len(whole.lists):.0f} sentences a list"
    )
    rankers = ladder(args, tune)
    rows: list[Row] = []
    before: np.ndarray | None = None
    for label, ranker in rankers.items():
        picked = apply_ranker(judged, ranker).hypotheses
        row, before = score(label, judged.lists, judged_references, picked, before)
        rows.append(row)
        show(row)
    best = chosen(judged.metrics.cider, judged.lists.offsets)
    rows.append(
        score("oracle: best of each list", judged.lists, judged_references, best, before)[0]
    )
    show(rows[-1])
    keep(args, rankers[args.keep or list(rankers)[-1]], rows, tune, held, judged)


def ladder(args: argparse.Namespace, tune: Tuning) -> dict[str, Ranker]:
    """Each row's weights, tuned from those of the row before."""
    rankers = {
        "best likelihood": Ranker((Stage({"log_likelihood": 1.0}),)),
        "best likelihood a word": Ranker((Stage({"log_prob_per_word": 1.0}),)),
    }
    base = MertConfig(
        objective=args.objective, dmsm=False, restarts=args.restarts, bags=args.bags,
        shortlist=args.shortlist, seed=args.seed,
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


def show(row: Row) -> None:
    print(
        f"{row.label:28s} CIDEr {row.cider:.3f}  BLEU-4 {100 * row.bleu_4:.1f}  METEOR "
        f"{100 * row.meteor:.1f}  {row.words:.1f} words  p {row.p_value:.1e}",
        flush=True,
    )


def keep(
    args: argparse.Namespace,
    ranker: Ranker,
    rows: list[Row],
    tune: Tuning,
    held: Tuning,
    judged: Tuning,
) -> None:
    """Save weights with their values, confidence, the table and the captions."""
    sets = {"tuning": tune, "held_out": held}
    choices = {name: apply_ranker(of, ranker) for name, of in sets.items()}
    ranker = with_values(ranker, {name: (sets[name], choices[name]) for name in sets})
    ranker.save(args.out)
    # Of images that MERT did not see: its own look too good.
    mine = choices["held_out"]
    values = held.metrics.cider[mine.hypotheses]
    bad, unseen = (nothing(args, ranker, seed=seed) for seed in (0, 1))
    fitted, table = fit_and_judge(mine, values, bad=bad)
    fitted.save(args.out)
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
    if unseen is not None:
        worst = probabilities(fitted, unseen).max()
        print(f"  {len(unseen.rows)} other images that show nothing: at most {worst:.3f}")
    picked = apply_ranker(judged, ranker).hypotheses
    captions = [
        {"image_id": name, "caption": sentence_text(judged.lists.sentence(h))}
        for name, h in zip(judged.lists.ids.tolist(), picked.tolist(), strict=True)
    ]
    write_text(args.out / "captions.json", json.dumps(captions, indent=0) + "\n")
    write_text(args.out / "ladder.json", json.dumps([vars(row) for row in rows], indent=1) + "\n")


def nothing(args: argparse.Namespace, ranker: Ranker, *, seed: int) -> Choices | None:
    """What would be said of images that show nothing."""
    if args.detector is None or args.language is None:
        return None
    mert = MertConfig(dmsm=ranker.needs("dmsm"), grounded=ranker.needs("grounded"))
    config = Config(generation=GenerationConfig(coverage=args.coverage), mert=mert)
    models = Models(args.detector, args.language, args.dmsm, args.grounded)
    return apply_ranker(tuning_of_nothing(models, config, seed=seed), ranker)


def tuning_of(
    args: argparse.Namespace, lists_path: Path, captions: Path, features_path: Path | None
) -> tuple[Tuning, References]:
    lists = Lists.load(lists_path)
    if args.m:
        lists = lists.best(args.m)
    if args.detector:
        lists = with_precisions(lists, args.detector)
    said = read_references(captions)
    lists = lists.select([i for i, n in enumerate(lists.ids.tolist()) if n in said])
    references = references_of(lists, said)
    metrics = measure(
        lists, references, with_meteor="meteor" in args.objective, processes=args.processes
    )
    similar, ask, tokens = None, None, None
    if features_path is not None:
        features = ImageFeatures.load(features_path)
        tokens = image_tokens(lists, features)
        if args.dmsm:
            similar = cached(
                args, lists_path, "dmsm", lists, lambda: score_dmsm(args, lists, features)
            )
        if args.grounded:
            ask = asking(args, lists, features)
    return Tuning(lists, metrics, similar, ask, tokens), references


def score_dmsm(args: argparse.Namespace, lists: Lists, features: ImageFeatures) -> Values:
    from sightwords.rerank.dmsm import Dmsm

    return dmsm_scores(lists, features, Dmsm.load(args.dmsm, threads=args.processes))


def asking(
    args: argparse.Namespace, lists: Lists, features: ImageFeatures
) -> Callable[[Mask], Values]:
    """Asks the grounded model about no hypothesis twice."""
    from sightwords.rerank.grounded import Grounded

    model = Grounded.load(args.grounded, threads=args.processes)
    return Remembered(
        lambda fresh: grounded_scores(lists, features, model, fresh), lists.hypotheses
    )


def cached(
    args: argparse.Namespace, lists_path: Path, name: str, lists: Lists, make: Callable[[], Values]
) -> Values:
    """Scores kept beside the lists; those of other lists or of another model are made anew."""
    stamp = f"{lists.hypotheses}|{Path(args.dmsm).resolve()}|{newest(args.dmsm)}"
    path = lists_path.with_suffix(f".{name}.npz")
    if path.exists():
        with np.load(path) as stored:
            if str(stored["stamp"]) == stamp:
                return np.asarray(stored["values"], dtype=np.float32)
    values = make()
    np.savez(path, values=values, stamp=np.array(stamp))
    return values


def newest(directory: Path) -> float:
    return max(path.stat().st_mtime for path in Path(directory).iterdir())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("lists", type=Path)
    parser.add_argument("captions", type=Path)
    parser.add_argument("--features", type=Path, help="image features, for --dmsm and --grounded")
    parser.add_argument("--dmsm", type=Path)
    parser.add_argument("--grounded", type=Path)
    parser.add_argument("--test", type=Path, help="score the rows on these lists instead")
    parser.add_argument("--test-captions", type=Path)
    parser.add_argument("--test-features", type=Path)
    parser.add_argument("--detector", type=Path)
    parser.add_argument("--language", type=Path)
    parser.add_argument("--coverage", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", help="the row whose weights to save (default: the last)")
    parser.add_argument("--objective", default="cider")
    parser.add_argument("--m", type=int, default=0, help="only the likeliest so many of each list")
    parser.add_argument("--shortlist", type=int, default=64)
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--bags", type=int, default=0)
    parser.add_argument("--tune-half", type=int, choices=(0, 1), default=1)
    parser.add_argument(
        "--tune-images", type=int, default=0, help="the first so many (default: all)"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
