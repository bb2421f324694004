"""Time BLEU, ROUGE-L and CIDEr, tokenising included, beside pycocoevalcap in the same run.

    python benchmarks/metrics.py                                 # made-up captions
    python benchmarks/metrics.py --results Zhou-et-al-2017.json --references coco-test-00.tar
    python benchmarks/metrics.py --references coco-karpathy-test.jsonl.gz --images 4000

`--results` and `--references` are files as `sightwords evaluate captions` takes them; without
`--results`, the first caption of each image is scored against the others. Images are repeated under
new ids until there are `--images` of them. Needs java and `sightwords[meteor]`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from sightwords.evaluate.references import read_references
from sightwords.evaluate.results import read_results
from sightwords.metrics.bleu import bleu, statistics
from sightwords.metrics.cider import CiderIdf, candidate_scores, cider
from sightwords.metrics.ngrams import count_in_blocks
from sightwords.metrics.rouge import rouge_l
from sightwords.metrics.score import Comparison, Score
from sightwords.metrics.word_ap import evaluate_words
from sightwords.metrics.word_table import CaptionCounts

Candidates = dict[str, str]
References = Mapping[str, Sequence[str]]
Steps = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path)
    parser.add_argument("--references", type=Path)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="the best of so many runs counts, for the COCO tools and (again)",
    )
    parser.add_argument("--meteor", action="store_true", help="time METEOR beside the jar too")
    parser.add_argument(
        "--candidates", type=int, help="also score this many candidates an image, as tuning does"
    )
    parser.add_argument("--words", type=int, help="also judge detectors of this many words")
    options = parser.parse_args()
    references = read_references(options.references) if options.references else made_up()
    candidates = read_results(options.results) if options.results else {}
    candidates, references = fill(candidates, references, options.images)

    print(f"machine: {machine()}")
    print(f"images: {len(candidates)}, references: {sum(map(len, references.values()))}")
    first, our_scores = run_sightwords(candidates, references)  # nothing remembered yet
    again, _ = best(lambda: run_sightwords(candidates, references), options.repeats)
    theirs, their_scores = best(lambda: run_tools(candidates, references), options.repeats)
    report(first, again, theirs)
    worst = max(abs(our_scores[m] - their_scores[m]) for m in their_scores)
    print(f"largest difference of a corpus score: {worst:.1e}")
    print("  ".join(f"{metric} {value:.4f}" for metric, value in our_scores.items()))
    if options.candidates:
        time_many(references, options.candidates)
    if options.words:
        time_words(options.words, len(candidates))
    if options.meteor:
        time_meteor(candidates, references)


def run_sightwords(
    candidates: Candidates, references: References
) -> tuple[Steps, dict[str, float]]:
    clock = Clock()
    pairs = clock("tokenise", lambda: Comparison.of(candidates, references))
    clock("count n-grams", lambda: pairs.table)
    scores: tuple[Score, ...] = clock("BLEU", lambda: bleu(pairs))
    scores += (clock("ROUGE-L", lambda: rouge_l(pairs)), clock("CIDEr", lambda: cider(pairs)))
    return clock.seconds, {score.metric: score.value for score in scores}


def run_tools(candidates: Candidates, references: References) -> tuple[Steps, dict[str, float]]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    def tokenise(captions: References) -> dict[str, list[str]]:
        found: dict[str, list[str]] = PTBTokenizer().tokenize(
            {i: [{"caption": c} for c in each] for i, each in captions.items()}
        )
        return found

    clock = Clock()
    results, truth = clock(
        "tokenise",
        lambda: (tokenise({i: [c] for i, c in candidates.items()}), tokenise(references)),
    )
    values, _ = clock("BLEU", lambda: Bleu(4).compute_score(truth, results, verbose=0))
    scores = {f"bleu_{n + 1}": float(value) for n, value in enumerate(values)}
    scores["rouge_l"] = clock("ROUGE-L", lambda: Rouge().compute_score(truth, results))[0]
    scores["cider"] = clock("CIDEr", lambda: Cider().compute_score(truth, results))[0]
    return clock.seconds, scores


class Clock:
    """Runs steps, quietly, and notes how long each took."""

    def __init__(self) -> None:
        self.seconds: Steps = {}

    def __call__(self, name, step):  # type: ignore[no-untyped-def]  # noqa: D102
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            result = step()
        self.seconds[name] = time.perf_counter() - start
        return result


def best(
    run: Callable[[], tuple[Steps, dict[str, float]]], repeats: int
) -> tuple[Steps, dict[str, float]]:
    return min((run() for _ in range(repeats)), key=lambda found: sum(found[0].values()))


def report(first: Steps, again: Steps, theirs: Steps) -> None:
    print(f"{'seconds':16}{'sightwords':>12}{'(again)':>10}{'pycocoevalcap':>15}")
    for step in dict.fromkeys([*first, *theirs]):
        cells = (f"{side[step]:.3f}" if step in side else "-" for side in (first, again, theirs))
        print("{:16}{:>12}{:>10}{:>15}".format(step, *cells))
    mine, warm, other = (sum(side.values()) for side in (first, again, theirs))
    print(f"{'together':16}{mine:12.3f}{warm:10.3f}{other:15.3f}")
    print(f"{other / mine:.1f} times faster; {other / warm:.1f} times when run again")


def time_many(references: References, size: int, images: int = 100) -> None:
    """Per-sentence BLEU statistics and CIDEr-D of M-best lists: the captions of other images."""
    tokens = Comparison.of(dict.fromkeys(references, ""), references).references
    pool = [caption for of_image in tokens for caption in of_image]
    lists = [[pool[(n * 97 + k) % len(pool)] for k in range(size)] for n in range(images)]
    idf = CiderIdf.of(tokens)
    start = time.perf_counter()
    for table in count_in_blocks(lists, tokens[:images]):
        statistics(table)
        candidate_scores(table, idf=idf)
    speed = images * size / (time.perf_counter() - start)
    print(f"{size} candidates an image: {speed:,.0f} a second with BLEU statistics and CIDEr-D")


def time_words(words: int, images: int) -> None:
    rng = np.random.default_rng(0)
    counts = rng.binomial(5, rng.beta(0.3, 8, words), size=(images, words))
    scores = (counts + rng.normal(size=counts.shape)).astype(np.float32)
    truth = CaptionCounts(counts, np.full(images, 5))
    start = time.perf_counter()
    evaluate_words(scores, truth, [str(n) for n in range(words)], ["NN"] * words)
    print(f"word AP and PHR, {words} words: {time.perf_counter() - start:.2f} s")


def time_meteor(candidates: Candidates, references: References) -> None:
    """One line; benchmarks/meteor.py has the details."""
    from pycocoevalcap.meteor.meteor import Meteor

    from sightwords.metrics.meteor import meteor

    pairs = Comparison.of(candidates, references)
    results = {i: [" ".join(c)] for i, c in zip(pairs.ids, pairs.candidates, strict=True)}
    truth = {i: [" ".join(r) for r in g] for i, g in zip(pairs.ids, pairs.references, strict=True)}
    clock = Clock()
    mine = clock("mine", lambda: meteor(pairs)).value
    theirs = clock("jar", lambda: Meteor().compute_score(truth, results))[0]
    ratio = clock.seconds["jar"] / clock.seconds["mine"]
    print(
        f"METEOR: {clock.seconds['mine']:.2f} s against the jar's {clock.seconds['jar']:.2f} s, "
        f"{ratio:.1f} times faster; {mine:.5f} and {theirs:.5f}"
    )


def made_up(images: int = 5000) -> References:
    """Captions of words as frequent as Zipf's law has them, related within an image."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(8000)])
    common = 1 / np.arange(1, len(words) + 1)

    def caption(topic: np.ndarray) -> str:
        size = int(rng.integers(8, 15))
        general = rng.choice(words[:200], size=size, p=common[:200] / common[:200].sum())
        return (
            " ".join(np.where(rng.random(size) < 0.4, rng.choice(topic, size=size), general)) + "."
        )

    topics = rng.choice(words, size=(images, 8), p=common / common.sum())
    return {str(i): [caption(topic) for _ in range(6)] for i, topic in enumerate(topics)}


def fill(
    candidates: Candidates, references: References, images: int
) -> tuple[Candidates, References]:
    """Take a candidate where there is none, then repeat the images until there are enough."""
    if not candidates:
        candidates = {i: each[0] for i, each in references.items() if len(each) > 1}
        references = {i: references[i][1:] for i in candidates}
    ids = list(candidates)
    chosen = [(f"{ids[n % len(ids)]}-{n // len(ids)}", ids[n % len(ids)]) for n in range(images)]
    return (
        {new: candidates[old] for new, old in chosen},
        {new: references[old] for new, old in chosen},
    )


def machine() -> str:
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    return (
        f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}"
    )


if __name__ == "__main__":
    main()
