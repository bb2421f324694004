"""The paper's table of systems (section 6.3), row by row, from a plan of what each row is made of.

    python benchmarks/paper/paper_rows.py PLAN.toml lists --set coco-val   # and the other sets
    python benchmarks/paper/paper_rows.py PLAN.toml tune                   # MERT, on coco-val
    python benchmarks/paper/paper_rows.py PLAN.toml spread --row 'VGG+Score+ft'
    python benchmarks/paper/paper_rows.py PLAN.toml score --set coco-test
    python benchmarks/paper/paper_tables.py PLAN.toml --page docs/results.md

PLAN is `paper_rows.toml` beside this script with its paths filled in (relative to its folder). A
row names a detector, a language model and, if any, a DMSM and a grounded model. A detector is one
folder per image set with `scores.npz` and `features.npz`, as benchmarks/describe.py writes them: a
row of another detector, such as AlexNet on proposals, needs those two files of coco-val and of the
test set, and no other code. A row with `open` says why it cannot be measured yet, and is left out.

`lists` and `tune` keep their work under --out and resume where they stopped. `spread` tunes with
several seeds and prints what each gives on the other half of coco-val: how much of a difference
between rows is MERT's luck. `score` measures perplexity (`perplexity` does only this), writes the
captions, saves the rows for `paper_tables.py` and `sightwords evaluate tables`, and appends a line
to log.md for each. What was scored before is left as it is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.config import GenerationConfig, MertConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import coco_half
from sightwords.errors import InputError
from sightwords.evaluate.baselines import evaluate_baseline
from sightwords.evaluate.captions import Report, evaluate_captions
from sightwords.evaluate.references import read_references
from sightwords.evaluate.report import save_report_row
from sightwords.evaluate.results import read_results
from sightwords.evaluate.rows import Row as TableRow
from sightwords.evaluate.rows import read_row, row_path, save_row
from sightwords.files import atomic_path, write_text
from sightwords.language.maxent import MaxEnt
from sightwords.rerank.chooser import sentence_text
from sightwords.rerank.linear import Ranker
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.language.data import NO_SETS, encode_blocks, joined, read_detections
from sightwords.train.language.perplexity import corpus_perplexity
from sightwords.train.rerank.list_metrics import ListMetrics, measure, references_of
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.make_lists import (
    detected_words,
    make_lists,
    with_precisions,
    without_words,
)
from sightwords.train.rerank.mert_scores import Remembered, dmsm_scores, grounded_scores
from sightwords.train.rerank.mert_stages import Tuning, apply_ranker, tune_ranker, with_values

TUNE = "coco-val"
"""The only set on which anything is fitted."""
OFFERED, KEPT = 0.15, 0.05
"""Words of the first probability are offered to the language model, of the second kept."""
RESTARTS = 6
"""Of MERT."""
SEEDS = 6
"""Of MERT, for `spread`."""
LONGEST = 30
"""Words of a sampled sentence; longer ones are cut."""


@dataclass(frozen=True)
class ImageSet:
    """Images with their people's captions, and the tables that a row of them fills."""

    captions: Path
    tables: Mapping[str, int] = field(default_factory=dict)
    """By table: how many references an image are drawn; 0 takes all."""
    other_captions: Mapping[str, Path] = field(default_factory=dict)
    """By table: references from elsewhere."""
    published: bool = False
    """Whether the paper's table stands beside ours (`paper_tables.py`)."""


@dataclass(frozen=True)
class System:
    """What a row is made of."""

    name: str
    kind: str = "lists"
    """`lists`: words, M-best lists, re-ranking; `sample`: sentences drawn from the language model;
    `human` and `shuffled-human`: people."""
    detector: str = ""
    language: Path | None = None
    dmsm: Path | None = None
    grounded: Path | None = None
    weights: Path | None = None
    """Of re-ranking, where they are not to be tuned here."""
    calibration: Path | None = None
    """The detector's directory, where the weights look at precisions."""
    objective: str = "bleu"
    tune_half: int = 1
    """The half of coco-val, by the hash of the id, that MERT sees."""
    captions: Mapping[str, Path] = field(default_factory=dict)
    """By set: captions that the system has written already, one an image."""
    open: str = ""
    """Why the row cannot be measured yet."""
    label: str = ""
    """In tables, where the name alone would promise too much."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """What the paper says of it in passing, not in its table."""


@dataclass(frozen=True)
class Plan:
    """All that a table needs."""

    sets: Mapping[str, ImageSet]
    detectors: Mapping[str, Mapping[str, Path]]
    """By name, by set: the folder with scores.npz and, for a DMSM, features.npz."""
    systems: tuple[System, ...]
    coverage: int = 2
    tune_images: int = 0
    """MERT uses this many images of its half, the first by id; 0: all."""
    seed: int = 0
    """Of drawn references, sampled sentences and MERT."""


def read_plan(path: Path) -> Plan:
    """The plan, its paths made whole."""

    def at(value: Any) -> Any:
        return {k: at(v) for k, v in value.items()} if isinstance(value, dict) else here / value

    here = path.parent
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    paths = ("language", "dmsm", "grounded", "weights", "calibration", "captions")
    return Plan(
        sets={
            name: ImageSet(
                here / one["captions"],
                one.get("tables", {}),
                at(one.get("other_captions", {})),
                one.get("published", False),
            )
            for name, one in content["sets"].items()
        },
        detectors=at(content["detectors"]),
        systems=tuple(
            System(name, **{k: at(v) if k in paths else v for k, v in one.items()})
            for name, one in content["rows"].items()
        ),
        coverage=content.get("coverage", 2),
        tune_images=content.get("tune_images", 0),
        seed=content.get("seed", 0),
    )


def main() -> None:
    args = arguments()
    plan = read_plan(args.plan)
    work = Work(plan, args.out, args.processes)
    for system in plan.systems:
        if args.row and system.name not in args.row:
            continue
        if system.open:
            print(f"{system.name}: open: {system.open}")
        elif args.stage in ("score", "perplexity"):
            perplexity(work, system, args.set, args.rows)
            if args.stage == "score":
                score(work, system, args.set, args.rows)
        elif system.kind == "lists" and args.stage == "tune":
            work.ranker(system)
        elif system.kind == "lists" and args.stage == "spread":
            work.spread(system)
        elif system.kind == "lists" and args.set not in system.captions:
            work.lists(system, args.set)


@dataclass(frozen=True)
class Work:
    """The stages of a row, each kept in a file."""

    plan: Plan
    out: Path
    processes: int = 1

    def described(self, system: System, images: str) -> Path:
        """The folder of a detector's words and features."""
        try:
            return self.plan.detectors[system.detector][images]
        except KeyError:
            raise InputError(
                f"{system.name}: the plan has no words of detector {system.detector!r} for "
                f"{images}; describe the images with benchmarks/describe.py and name the folder"
            ) from None

    def lists_path(self, system: System, images: str) -> Path:
        """Rows with the same words and the same language model share their lists."""
        assert system.language is not None
        half = f"-half{system.tune_half}" if images == TUNE else ""
        name = f"{system.language.name}-{system.detector}-{images}{half}.npz"
        return self.out / "lists" / name

    def lists(self, system: System, images: str) -> Lists:
        """M-best lists of the images; of coco-val, only of the half that MERT sees."""
        path = self.lists_path(system, images)
        if not path.exists():
            began = time.perf_counter()
            found = self._search(system, images)
            path.parent.mkdir(parents=True, exist_ok=True)
            found.save(path)
            said(f"{path.name}: {len(found)} images", began)
        return Lists.load(path)

    def _search(self, system: System, images: str) -> Lists:
        assert system.language is not None
        scores = self.described(system, images) / "scores.npz"
        detections = read_detections(scores, threshold=KEPT)
        vocabulary = MaxEnt.load(system.language).vocabulary
        words = detected_words(detections, vocabulary, minimum_prob=OFFERED)
        bare = set(without_words(detections.names, words))
        corpus = open_corpus(str(self.plan.sets[images].captions))
        splits = {canonical_id(e.id): e.split for e in corpus}
        kept = [
            row
            for row, name in enumerate(detections.names)
            if name in splits
            and name not in bare
            and (images != TUNE or coco_half(name) == system.tune_half)
        ]
        if images == TUNE and self.plan.tune_images:
            kept = kept[: self.plan.tune_images]
        names = [detections.names[row] for row in kept]
        return make_lists(
            names,
            [words[row] for row in kept],
            system.language,
            GenerationConfig(coverage=self.plan.coverage),
            splits=[splits[name] or images for name in names],
            minimum_prob=OFFERED,
            processes=self.processes,
        )

    def tuning(self, system: System, images: str, *, measured: bool) -> Tuning:
        """The lists with what re-ranking asks; metrics of 0 unless they are `measured`."""
        lists = self.lists(system, images)
        if system.calibration:
            lists = with_precisions(lists, system.calibration)
        count = lists.hypotheses
        metrics = ListMetrics(np.zeros(count, np.float32), np.zeros((count, 10), np.int16))
        if measured:
            people = read_references(self.plan.sets[images].captions)
            metrics = measure(lists, references_of(lists, people), processes=self.processes)
        similar = self._similarities(system, images, lists) if system.dmsm else None
        return Tuning(lists, metrics, similar, self._asking(system, images, lists))

    def _similarities(self, system: System, images: str, lists: Lists) -> npt.NDArray[np.float32]:
        from sightwords.rerank.dmsm import Dmsm

        assert system.dmsm is not None
        path = self.lists_path(system, images).with_suffix(f".{system.dmsm.name}.npy")
        if not path.exists():
            began = time.perf_counter()
            features = ImageFeatures.load(self.described(system, images) / "features.npz")
            scores = dmsm_scores(lists, features, Dmsm.load(system.dmsm, threads=1))
            with atomic_path(path) as temporary, temporary.open("wb") as stream:
                np.save(stream, scores)
            said(path.name, began)
        found: npt.NDArray[np.float32] = np.load(path)
        return found

    def _asking(
        self, system: System, images: str, lists: Lists
    ) -> Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.float32]] | None:
        if system.grounded is None:
            return None
        from sightwords.rerank.grounded import Grounded

        model = Grounded.load(system.grounded, threads=1)
        features = ImageFeatures.load(self.described(system, images) / "features.npz")
        return Remembered(
            lambda fresh: grounded_scores(lists, features, model, fresh), lists.hypotheses
        )

    def ranker(self, system: System) -> Ranker:
        """The weights: given, tuned before, or tuned now for the row's objective."""
        folder = system.weights or self.out / "weights" / system.name
        if not system.weights and not (folder / "weights.json").exists():
            began = time.perf_counter()
            tuning = self.tuning(system, TUNE, measured=True)
            found = tune_ranker(tuning, self._mert(system, self.plan.seed))
            found = with_values(found, {"tuning": (tuning, apply_ranker(tuning, found))})
            found.save(folder)
            said(f"{system.name}: {dict(found.values['tuning'])}", began)
        return Ranker.load(folder)

    def _mert(self, system: System, seed: int) -> MertConfig:
        has_dmsm = system.dmsm is not None
        return MertConfig(objective=system.objective, dmsm=has_dmsm, restarts=RESTARTS, seed=seed)

    def spread(self, system: System) -> None:
        """What MERT with several seeds gives on the half of coco-val that it does not see."""
        seen = self.tuning(system, TUNE, measured=True)
        other = self.tuning(replace(system, tune_half=1 - system.tune_half), TUNE, measured=True)
        found = []
        for seed in range(SEEDS):
            ranker = tune_ranker(seen, self._mert(system, seed))
            ranker = with_values(ranker, {"other": (other, apply_ranker(other, ranker))})
            found.append(ranker.values["other"])
            print(f"{system.name}, seed {seed}: {_told(found[-1])}", flush=True)
        for key in ("cider", "bleu_4"):
            values = [float(one[key]) for one in found]
            print(f"{system.name}: {key} {min(values):.4f} to {max(values):.4f}")

    def captions(self, system: System, images: str) -> dict[str, str]:
        """What the row says of each image."""
        if images in system.captions:
            return dict(read_results(system.captions[images]))
        if system.kind == "sample":
            assert system.language is not None
            model = MaxEnt.load(system.language)
            rng = np.random.default_rng(self.plan.seed)
            return {key: sampled(model, rng) for key in self.references(images)}
        tuning = self.tuning(system, images, measured=False)
        picked = apply_ranker(tuning, self.ranker(system)).hypotheses
        lists = tuning.lists
        return {
            name: sentence_text(lists.sentence(h))
            for name, h in zip(lists.ids.tolist(), picked.tolist(), strict=True)
        }

    def references(self, images: str) -> dict[str, tuple[str, ...]]:
        """People's captions."""
        return read_references(self.plan.sets[images].captions)

    def perplexity(self, system: System, images: str) -> tuple[float, str]:
        """Of all captions of the set, given the words that the row's detector finds."""
        assert system.language is not None
        model = MaxEnt.load(system.language)
        sets = NO_SETS
        if system.kind == "lists":
            scores = self.described(system, images) / "scores.npz"
            sets = read_detections(scores, threshold=OFFERED).attribute_sets(model.vocabulary)
        examples = open_corpus(str(self.plan.sets[images].captions))
        text = joined(encode_blocks(examples, model.vocabulary, sets))
        found = corpus_perplexity(model, text, sets)
        return found.value, found.signature


def _told(values: Mapping[str, float]) -> str:
    return f"CIDEr {values['cider']:.4f}, BLEU-4 {values['bleu_4']:.4f} ({values['images']} images)"


def sampled(model: MaxEnt, rng: np.random.Generator) -> str:
    """A sentence drawn word by word from the model, no word detected; `<unk>` is drawn again."""
    nothing = np.zeros((1, model.size), dtype=np.bool_)
    scores = np.zeros(model.size, dtype=np.float32)
    ids: list[int] = []
    while len(ids) < LONGEST:
        history = model.histories(np.array([*ids, model.end_id], dtype=np.int32))[-1:]
        probs = np.exp(model.log_probs_next(history, nothing, scores)[0])
        probs[model.unknown_id] = 0.0
        drawn = int(rng.choice(len(probs), p=probs / probs.sum()))
        if drawn == model.end_id:
            break
        ids.append(drawn)
    return sentence_text([model.vocabulary.words[i] for i in ids]) or "a"


def score(work: Work, system: System, images: str, rows: Path) -> None:
    """Fill the set's tables with a row, once."""
    folder = rows / images
    tables = {
        table: drawn
        for table, drawn in work.plan.sets[images].tables.items()
        if "bleu_4" not in saved(folder, table, system.name)
    }
    if not tables:
        print(f"{system.name}: scored before on {images}; left as it is")
        return
    began = time.perf_counter()
    human = system.kind in ("human", "shuffled-human")
    captions = {} if human else work.captions(system, images)
    if captions:
        listed = [{"image_id": key, "caption": said} for key, said in captions.items()]
        path = work.out / "captions" / images / f"{system.name}.json"
        write_text(path, json.dumps(listed, indent=0) + "\n")
    lines = []
    for table, drawn in tables.items():
        people = work.plan.sets[images].other_captions.get(table)
        references = read_references(people) if people else work.references(images)
        options: dict[str, Any] = {"references_per_image": drawn or None, "seed": work.plan.seed}
        report = (
            evaluate_baseline(system.kind, references, **options)
            if human
            else evaluate_captions(captions, references, name=system.name, **options)
        )
        save_report_row(report, folder, table=table, system=system.name)
        lines.append(summary(table, report))
    log(work.out, system, images, lines)
    said(f"{system.name} on {images}: {'; '.join(lines)}", began)


def perplexity(work: Work, system: System, images: str, rows: Path) -> None:
    """Fill in the column PPLX, where the row has a language model and none is saved."""
    folder = rows / images
    known = "pplx" in saved(folder, "systems", system.name)
    if system.language is None or "systems" not in work.plan.sets[images].tables or known:
        return
    value, signature = work.perplexity(system, images)
    save_row(folder, TableRow("systems", system.name, {"pplx": value}, {"pplx": signature}))
    log(work.out, system, images, [f"PPLX {value:.2f}"], stage="perplexity")
    print(f"{system.name} on {images}: PPLX {value:.2f}", file=sys.stderr, flush=True)


def saved(folder: Path, table: str, system: str) -> Mapping[str, float]:
    """The values of a row that was kept before; none if there is none."""
    path = row_path(folder, table, system)
    return read_row(path).values if path.exists() else {}


def summary(table: str, report: Report) -> str:
    """A row's figures in a line."""
    found = report.values
    values = [f"CIDEr {found['cider']:.3f}", f"BLEU-4 {100 * found['bleu_4']:.1f}"]
    if "meteor" in found:
        values.append(f"METEOR {100 * found['meteor']:.1f}")
    return f"{table}: {len(report.pairs.ids)} images, {', '.join(values)}"


def log(
    out: Path, system: System, images: str, lines: Iterable[str], *, stage: str = "score"
) -> None:
    """A line for the project's log of runs on test sets."""
    command = (
        f"python benchmarks/paper/paper_rows.py PLAN {stage} --set {images} --row '{system.name}'"
    )
    path = out / "log.md"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    line = f"| {date.today()} | {system.name} | `{command}` | {'; '.join(lines)} |\n"
    write_text(path, before + line)


def said(what: str, began: float) -> None:
    print(f"{what}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("plan", type=Path)
    parser.add_argument("stage", choices=("lists", "tune", "spread", "perplexity", "score"))
    parser.add_argument("--set", default=TUNE, help="images of the plan (default: coco-val)")
    parser.add_argument("--row", action="append", help="only this row; again for more")
    parser.add_argument("--out", type=Path, default=Path("paper_rows"), help="lists, weights, ...")
    parser.add_argument("--rows", type=Path, default=Path("rows"), help="of `evaluate tables`")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    if args.stage in ("perplexity", "score") and args.set == TUNE:
        parser.error(f"--set {TUNE}: that is what the rows were tuned on; score a test set")
    return args


if __name__ == "__main__":
    main()
