"""Captions + references -> scores (section 6): what `sightwords evaluate captions` computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sightwords.corpus.ids import canonical_ids
from sightwords.corpus.splits import choose_references
from sightwords.errors import MissingExtraError, ScoreError
from sightwords.evaluate.references import References, load_references
from sightwords.evaluate.results import read_results
from sightwords.metrics.objects import Objects
from sightwords.metrics.score import Comparison, Score

METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider")
"""Every caption metric, under its key in result files, in the order in which tables show them."""

GROUPS = {
    "bleu": METRICS[:4],
    "chair": ("chair_s", "chair_i"),
    "person_words": ("person_words", "person_words_women", "person_words_men"),
    "alt_text": ("alt_length", "alt_opening", "alt_ending"),
}
"""Names that stand for several metrics. All but BLEU count mistakes, so that less is better, and
are computed where they are asked for; CHAIR needs the boxes of objects."""

EVERY_METRIC = (*METRICS, *GROUPS["chair"], *GROUPS["person_words"], *GROUPS["alt_text"])

Results = str | Path | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """One system's scores over one set of images."""

    name: str
    pairs: Comparison = field(repr=False)
    """What was compared; every `Score.per_image` is in the order of its ids."""
    captions: Mapping[str, str] = field(repr=False)
    """The scored captions by image id, as written, in the same order."""
    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know beside the values: a metric left out, a subset scored."""

    @property
    def values(self) -> dict[str, float]:
        """Corpus scores by key; a metric that was not computed has no key."""
        return {score.metric: score.value for score in self.scores}

    def score(self, metric: str) -> Score:
        """The score under one key."""
        for score in self.scores:
            if score.metric == metric:
                return score
        raise ScoreError(f"{self.name}: {metric!r} was not computed; there are {list(self.values)}")


def evaluate_captions(
    results: Results,
    references: References,
    *,
    name: str = "",
    metrics: Iterable[str] | None = None,
    subset: bool = False,
    references_per_image: int | None = None,
    seed: int = 0,
    boxes: str | Path | Mapping[str, Sequence[str]] | None = None,
    objects: Objects | None = None,
) -> Report:
    """Score one caption per image against its references, with the COCO metrics.

    `results` and `references` are files or mappings by image id (see `corpus.ids` for how ids
    are matched). Without `subset` both must have the same images; with it, the images that
    both have are scored, and every signature says so. `references_per_image` keeps that many
    references of each image, drawn with `seed` (the paper's "4 randomly selected references"); an
    image that has fewer keeps them all.
    METEOR is left out with a note where its data is not installed, unless `metrics` names it.
    With `boxes` (a file of `evaluate.references.read_boxes`, or classes by image id) CHAIR is
    computed, too; `objects` is a table of object words for other classes than COCO's.

    >>> report = evaluate_captions(
    ...     {"1": "a dog runs on grass"}, {"1": ["a dog runs on the grass"]}, metrics=["bleu"]
    ... )
    >>> {key: round(value, 3) for key, value in report.values.items()}
    {'bleu_1': 0.819, 'bleu_2': 0.709, 'bleu_3': 0.65, 'bleu_4': 0.579}
    """
    chosen = choose_metrics(metrics, mistakes=True)
    if boxes is not None and metrics is None:
        chosen = (*chosen, *GROUPS["chair"])
    if boxes is None and set(GROUPS["chair"]) & set(chosen):
        raise ScoreError(
            "chair needs the objects of each image; give a file of boxes (--set boxes=FILE)"
        )
    captions, wanted = _load_results(results), load_references(references)
    notes: list[str] = []
    mark = ""
    if subset:
        captions, wanted, mark, note = _intersect(captions, wanted)
        notes += note
    if references_per_image is not None:
        wanted = choose_references(wanted, seed=seed, count=references_per_image)
        mark += f"|refs-drawn:{references_per_image},seed:{seed}"
    pairs = Comparison.of(captions, wanted)
    scores, missing = score_pairs(pairs, chosen, optional=metrics is None)
    scores += _mistakes(pairs, captions, chosen, boxes, objects)
    scores = tuple(replace(s, signature=s.signature + mark) for s in scores)
    return Report(name or _name_of(results), pairs, captions, scores, (*notes, *missing))


def choose_metrics(names: Iterable[str] | None, *, mistakes: bool = False) -> tuple[str, ...]:
    """Metric keys in table order; `bleu` stands for all four, None for the COCO metrics.

    With `mistakes`, the metrics that count mistakes may be named, too.

    >>> choose_metrics(["cider", "bleu"])
    ('bleu_1', 'bleu_2', 'bleu_3', 'bleu_4', 'cider')
    >>> choose_metrics(["spice"])
    Traceback (most recent call last):
        ...
    sightwords.errors.ScoreError: there is no metric 'spice'; choose among bleu, bleu_1, bleu_2, \
bleu_3, bleu_4, meteor, rouge_l, cider
    """
    if names is None:
        return METRICS
    known = ("bleu", *METRICS, *(("chair", "person_words", "alt_text") if mistakes else ()))
    chosen: set[str] = set()
    for name in names:
        if name not in known:
            raise ScoreError(f"there is no metric {name!r}; choose among {', '.join(known)}")
        chosen.update(GROUPS.get(name, (name,)))
    if not chosen:
        raise ScoreError("no metric was chosen; name at least one, or leave out metrics for all")
    return tuple(metric for metric in EVERY_METRIC if metric in chosen)


def score_pairs(
    pairs: Comparison, metrics: Sequence[str], *, optional: bool = False
) -> tuple[tuple[Score, ...], tuple[str, ...]]:
    """Compute the metrics; with `optional`, one whose extra is missing becomes a note."""
    found: dict[str, Score] = {}
    notes: list[str] = []
    for keys, compute in _scorers():
        if not set(keys) & set(metrics):
            continue
        try:
            found.update((score.metric, score) for score in compute(pairs))
        except MissingExtraError as error:
            if not optional:
                raise
            notes.append(f"{', '.join(keys)}: not computed: {error}")
    return tuple(found[m] for m in METRICS if m in metrics and m in found), tuple(notes)


def _scorers() -> list[tuple[tuple[str, ...], Callable[[Comparison], Sequence[Score]]]]:
    """(keys, function) of each metric; imported here so that `--help` stays fast."""
    from sightwords.metrics.bleu import bleu
    from sightwords.metrics.cider import cider
    from sightwords.metrics.meteor import meteor
    from sightwords.metrics.rouge import rouge_l

    return [
        (METRICS[:4], bleu),
        (("meteor",), lambda pairs: (meteor(pairs),)),
        (("rouge_l",), lambda pairs: (rouge_l(pairs),)),
        (("cider",), lambda pairs: (cider(pairs),)),
    ]


def _mistakes(
    pairs: Comparison,
    captions: Mapping[str, str],
    chosen: Sequence[str],
    boxes: str | Path | Mapping[str, Sequence[str]] | None,
    objects: Objects | None,
) -> tuple[Score, ...]:
    """The metrics that count mistakes: objects and person words that are wrong, unfit alt text."""
    from sightwords.metrics.alt_text import alt_text
    from sightwords.metrics.chair import chair
    from sightwords.metrics.persons import person_words

    found: list[Score] = []
    if boxes is not None and set(GROUPS["chair"]) & set(chosen):
        if isinstance(boxes, (str, Path)):
            from sightwords.evaluate.references import read_boxes

            boxes = read_boxes(boxes)
        found += chair(pairs, boxes, objects)
    if set(GROUPS["person_words"]) & set(chosen):
        found += person_words(pairs)
    if set(GROUPS["alt_text"]) & set(chosen):
        found += alt_text({image: captions[image] for image in pairs.ids})
    return tuple(found)


def _load_results(results: Results) -> dict[str, str]:
    if isinstance(results, (str, Path)):
        return read_results(results)
    ids = canonical_ids(results, where="results")
    return {ids[str(key)]: caption for key, caption in results.items()}


def _intersect(
    captions: Mapping[str, str], references: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]], str, list[str]]:
    """The images that both have, the mark for signatures, and a note when any were left out."""
    shared = {key: caption for key, caption in captions.items() if key in references}
    if not shared:
        raise ScoreError(
            f"no image is in both files (results: {next(iter(captions))!r}, ..., references: "
            f"{next(iter(references), None)!r}, ...); check that both use the same image ids"
        )
    kept = {key: references[key] for key in shared}
    without, unsaid = len(captions) - len(shared), len(references) - len(shared)
    note = (
        f"subset: {len(shared)} images scored; {without} results had no reference, "
        f"{unsaid} images with references had no result"
    )
    return shared, kept, f"|subset:{len(shared)}/{len(references)}", [note]


def _name_of(results: Results) -> str:
    if isinstance(results, (str, Path)):
        name = Path(results).name
        for ending in (".gz", ".json", ".jsonl", ".csv"):
            name = name.removesuffix(ending)
        return name
    return "results"
