"""What the M-best lists of real images are like: CIDEr by beam width and coverage, and faults.

    python benchmarks/beam_lists.py MODEL SCORES.npz coco-val.jsonl.gz --images 200
    python benchmarks/beam_lists.py MODEL SCORES.npz coco-val.jsonl.gz --show 50     # to read

MODEL is a language model's directory; SCORES holds a detector's probabilities in either form that
`train.language.data.read_detections` reads; the words of an image are those of .15 and more. CIDEr
is that of the likeliest sentence, of the likeliest a word, and of the best in the list (what a
re-ranker could reach); its document frequencies are those of all images of SCORES. Faults are
counted in ten-best lists:

    repeats       a content word twice
    forms         a content word twice, or beside its plural
    a + vowel     "a airplane"
    never seen    two neighbours that no training caption has: an attribute where it does not fit
    undetected    a content word that was not detected
    drops         leaves out a detected word of probability .9 or more
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sightwords.config import GenerationConfig
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.open import open_corpus
from sightwords.language.constraints import BoolArray, Constraints
from sightwords.language.extend_dense import DenseExtensions
from sightwords.language.features import FloatArray, IntArray
from sightwords.language.generate import Generator
from sightwords.language.maxent import MaxEnt
from sightwords.metrics.cider import CiderIdf, scores_of
from sightwords.metrics.ngrams import Tokens
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.train.language.data import read_detections
from sightwords.types import MBest

THRESHOLD = 0.15
Words = dict[str, float]


def main() -> None:
    args = arguments()
    model = MaxEnt.load(args.model)
    ids, images, references = read(args.scores, args.captions, model)
    idf = CiderIdf.of(references)
    chosen = np.random.default_rng(args.seed).permutation(len(ids))
    if args.show:
        show(model, [(ids[i], images[i], references[i]) for i in chosen[: args.show]])
        return
    some = chosen[: args.images]
    words, captions = [images[i] for i in some], [references[i] for i in some]
    print(f"{len(words)} images, {np.mean([len(image) for image in words]):.0f} words each")
    for width in numbers(args.widths):
        for coverage in numbers(args.coverages):
            config = GenerationConfig(beam_width=width, coverage=coverage)
            lists = search(model, config, words, exact=args.exact)
            print(f"k = {width:3d}, T = {coverage:2d}: {quality(lists, captions, idf)}", flush=True)
    if args.exact:
        return
    few = words[:50]
    for repeats in (True, False):
        lists = search(model, GenerationConfig(), few, Constraints(repeats=repeats))
        label = "repeats allowed" if repeats else "no repeats"
        print(f"faults in {len(few)} ten-best lists, {label} (all, first sentences):")
        for fault, (every, first) in faults(lists, few, model).items():
            print(f"  {fault:12s} {every:4d} {first:4d}")


def search(
    model: MaxEnt,
    config: GenerationConfig,
    images: Iterable[Words],
    constraints: Constraints | None = None,
    *,
    exact: bool = False,
) -> list[MBest]:
    generator = Generator.of(model, config, constraints=constraints)
    if exact:
        generator = replace(generator, extend=Exact.of(model, frequent_words=config.frequent_words))
    return [generator.sentences(words).m_best for words in images]


class Exact(DenseExtensions):
    """With the denominator of Eq. 3, which the paper's search leaves out."""

    def scores(
        self, histories: IntArray, remaining: BoolArray, word_log_probs: FloatArray
    ) -> FloatArray:
        """Log-probabilities."""
        found = self.model.log_probs_next(histories, remaining, word_log_probs)
        return found.astype(np.float32)


def quality(lists: list[MBest], references: list[list[Tokens]], idf: CiderIdf) -> str:
    hypotheses = [found.hypotheses for found in lists]
    scores = scores_of([[h.tokens for h in each] for each in hypotheses], references, idf=idf)
    parts = np.split(scores, np.cumsum([len(each) for each in hypotheses])[:-1])
    first = np.mean([part[0] for part in parts])
    a_word = [
        part[np.argmax([h.log_prob / (len(h.tokens) + 1) for h in each])]
        for part, each in zip(parts, hypotheses, strict=True)
    ]
    best = np.mean([part.max() for part in parts])
    length = np.mean([len(each[0].tokens) for each in hypotheses])
    reached = np.mean([found.coverage for found in lists])
    return (
        f"CIDEr {first:.3f} likeliest, {np.mean(a_word):.3f} a word, {best:.3f} best in the list; "
        f"T reached {reached:.1f}; {length:.1f} words"
    )


def faults(lists: list[MBest], images: list[Words], model: MaxEnt) -> Mapping[str, tuple[int, int]]:
    every: Counter[str] = Counter()
    first: Counter[str] = Counter()
    for found, words in zip(lists, images, strict=True):
        for rank, hypothesis in enumerate(found.hypotheses[:10]):
            wrong = faults_of(hypothesis.tokens, words, model)
            every.update(wrong)
            first.update(wrong if rank == 0 else ())
    names = ("repeats", "forms", "a + vowel", "never seen", "undetected", "drops")
    return {name: (every[name], first[name]) for name in names}


def faults_of(tokens: tuple[str, ...], words: Words, model: MaxEnt) -> list[str]:
    content = [token for token in tokens if token not in CLOSED_CLASS]
    stems = [re.sub("(es|s)$", "", token) if len(token) > 3 else token for token in content]
    encoded = model.vocabulary.encode(tokens)
    strong = {word for word, prob in words.items() if prob >= 0.9 and word not in CLOSED_CLASS}
    found = {
        "repeats": len(set(content)) < len(content),
        "forms": len(set(stems)) < len(stems),
        "a + vowel": any(a == "a" and b[0] in "aeiou" for a, b in pairwise(tokens)),
        "never seen": any(b not in model.followers(a) for a, b in pairwise(encoded)),
        "undetected": any(token not in words for token in content),
        "drops": not strong <= set(tokens),
    }
    return [name for name, holds in found.items() if holds]


def show(model: MaxEnt, images: list[tuple[str, Words, list[Tokens]]]) -> None:
    lists = search(model, GenerationConfig(), [words for _, words, _ in images])
    for (name, words, references), found in zip(images, lists, strict=True):
        content = {w: p for w, p in words.items() if w not in CLOSED_CLASS}
        ranked = sorted(content.items(), key=lambda item: -item[1])
        print(f"{name}: {' '.join(references[0])} (T = {found.coverage})")
        print("  " + " ".join(f"{word}:{prob:.2f}" for word, prob in ranked))
        for hypothesis in found.hypotheses[:10]:
            print(f"  {hypothesis.log_prob:8.2f}  {' '.join(hypothesis.tokens)}")


def read(
    scores: Path, captions: Path, model: MaxEnt
) -> tuple[list[str], list[Words], list[list[Tokens]]]:
    """Ids, detected words that the model knows, and tokenised captions, where there are both."""
    written = {canonical_id(e.id): e.captions for e in open_corpus(captions)}
    found = read_detections(scores, threshold=THRESHOLD)
    every: list[Words] = [{} for _ in found.names]
    for row, column, prob in zip(found.rows, found.columns, found.probs, strict=True):
        word = found.words[column]
        if word in model.vocabulary:
            every[row][word] = float(prob)
    names = found.names
    kept = [row for row, name in enumerate(names) if name in written and every[row]]
    images = [every[row] for row in kept]
    references: list[list[Tokens]] = [
        [tuple(tokens) for tokens in tokenize_all(list(written[names[row]]))] for row in kept
    ]
    return [names[row] for row in kept], images, references


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("scores", type=Path)
    parser.add_argument("captions", type=Path)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--show", type=int, default=0, help="print this many ten-best lists")
    parser.add_argument("--widths", default="100,200")
    parser.add_argument("--coverages", default="3,5,10")
    parser.add_argument("--exact", action="store_true", help="with the denominator of Eq. 3")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
