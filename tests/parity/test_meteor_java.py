"""METEOR without Java against METEOR's jar: corpus and every image."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sightwords.metrics.meteor import meteor
from sightwords.metrics.meteor.data import meteor_files
from sightwords.metrics.meteor.text import sentence_text
from sightwords.metrics.ngrams import Tokens
from sightwords.metrics.score import Comparison
from sightwords.text.ptb import tokenize_all

pytest.importorskip("pycocoevalcap", reason="METEOR's data and jar: sightwords[meteor]")

pytestmark = pytest.mark.java

EXACT = 1e-12
Case = tuple[Tokens, tuple[Tokens, ...]]
"""Candidate and references."""


@pytest.fixture(autouse=True)
def _java() -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on the path")


def check(cases: Sequence[Case]) -> None:
    pairs = Comparison(
        ids=tuple(str(i) for i in range(len(cases))),
        candidates=tuple(candidate for candidate, _ in cases),
        references=tuple(references for _, references in cases),
    )
    ours = meteor(pairs)
    *per_image, value = scores_of_jar(cases)
    different = np.flatnonzero(np.abs(ours.per_image - per_image) > EXACT)
    assert [(cases[i], ours.per_image[i], per_image[i]) for i in different[:3]] == []
    assert ours.value == pytest.approx(value, rel=0, abs=EXACT)


def scores_of_jar(cases: Sequence[Case]) -> list[float]:
    """The score of each case and of all, as pycocoevalcap asks METEOR's jar for them.

    A line `SCORE ||| reference ||| ... ||| candidate` is answered by a line of statistics, a line
    `EVAL ||| statistics ||| ...` by a score for each and one for all.
    """
    questions = [
        " ||| ".join(("SCORE", *map(sentence_text, references), sentence_text(candidate)))
        for candidate, references in cases
    ]
    statistics = ask_jar(questions)
    assert len(statistics) == len(cases)
    return [float(answer) for answer in ask_jar([" ||| ".join(("EVAL", *statistics))])]


def ask_jar(lines: Sequence[str]) -> list[str]:
    jar = meteor_files().jar
    command = f"java -Xmx2G -Duser.language=en -jar {jar.name} - - -stdio -l en -norm"
    done = subprocess.run(
        command.split(),
        cwd=jar.parent,
        input="".join(f"{line}\n" for line in lines).encode("utf-8", "replace"),
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-500:]
    return done.stdout.decode("utf-8", "replace").splitlines()


ODD = (
    *(
        "'s",
        "'",
        "n't",
        "...",
        "..",
        "--",
        "-",
        "-lrb-",
        "-rrb-",
        "u.s.",
        "vs.",
        "no.",
        "5",
        "1,000",
    ),
    *(
        "é",
        "日本",
        "犬",
        "😀",
        "“hi”",
        "|",
        "||",
        "|||",
        "a|||b",
        "$",
        "50%",
        "half-eaten",
        "a-b-c",
    ),
    *("''", "``", "x.", "mr.", "i.e.", "café", "\u00a0", "ﬁ", "İstanbul", "ΣΑΣ", "a", "the", "dog"),
)
PLAIN = ("a", "the", "dog", "dogs", "on", "in", "of", "man", "person", "running", "runs")


def some_words(rng: random.Random, words: Sequence[str], most: int) -> Tokens:
    return tuple(rng.choice(words) for _ in range(rng.randint(0, most)))


def salad(rng: random.Random, words: Sequence[str], most: int, count: int) -> list[Case]:
    return [
        (
            some_words(rng, words, most),
            tuple(some_words(rng, words, most) for _ in range(rng.randint(1, 4))),
        )
        for _ in range(count)
    ]


def paraphrased(rng: random.Random, count: int) -> Iterator[Case]:
    """Sentences put together from entries of METEOR's own table, against their paraphrases."""
    import gzip

    with gzip.open(meteor_files().paraphrases, "rt", encoding="utf-8") as lines:
        found = list(islice((line.strip() for line in lines), 3_000_000, 3_300_000))
    entries = list(zip(found[1::3], found[2::3], strict=True))
    for _ in range(count):
        chosen = [rng.choice(entries) for _ in range(rng.randint(1, 4))]
        candidate = " ".join(phrase for phrase, _ in chosen)
        rng.shuffle(chosen)
        reference = " ".join(paraphrase for _, paraphrase in chosen)
        if rng.random() < 0.5:
            candidate, reference = reference, candidate
        yield tuple(candidate.split()), (tuple(reference.split()),)


def synonymous(rng: random.Random, count: int) -> Iterator[Case]:
    """Inflected members of METEOR's own synonym sets, against other members."""
    with zipfile.ZipFile(meteor_files().jar) as jar:
        lines = jar.read("synonym/english.synsets").decode().splitlines()
    sets: dict[str, list[str]] = {}
    for word, numbers in zip(lines[0::2], lines[1::2], strict=True):
        for number in numbers.split():
            sets.setdefault(number, []).append(word)
    groups = [group for group in sets.values() if len(group) > 1]
    endings = ("", "s", "es", "ed", "ing", "er", "est", "ly", "'s", "ies")
    for _ in range(count):
        chosen = [rng.choice(groups) for _ in range(rng.randint(1, 6))]
        candidate = tuple(rng.choice(group) + rng.choice(endings) for group in chosen)
        rng.shuffle(chosen)
        yield candidate, (tuple(rng.choice(group) + rng.choice(endings) for group in chosen),)


def test_made_up_sentences() -> None:
    """Among them: empty candidates and references, one reference, duplicates, up to 120 words."""
    rng = random.Random(0)
    dog = ("a", "dog")
    check(
        [
            ((), (dog,)),
            ((), ((),)),
            (dog, ((),)),
            (dog, (dog,)),
            (dog, (("cat",), dog, dog)),
            (("dog",), (dog,)),
            *salad(rng, ODD, 10, 1500),
            *salad(rng, PLAIN, 30, 300),
            *salad(rng, PLAIN, 120, 20),
            *paraphrased(rng, 1500),
            *synonymous(rng, 1500),
        ]
    )


def data_folder() -> Path:
    return Path(os.environ["SIGHTWORDS_DATA"])


def captions_of(shard: str) -> dict[str, list[str]]:
    with tarfile.open(data_folder() / shard) as tar:
        records = [json.load(tar.extractfile(m)) for m in tar if m.name.endswith(".json")]  # type: ignore[arg-type]
    return {record["key"]: record["captions"] for record in records}


PEERS = (
    *("Dai-et-al-2017", "Liu-et-al-2017", "Mun-et-al-2017", "Shetty-et-al-2016"),
    *("Shetty-et-al-2017", "Tavakoli-et-al-2017", "Vinyals-et-al-2017", "Wu-et-al-2016"),
    "Zhou-et-al-2017",
)


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_published_systems(peer: str) -> None:
    references = {str(int(key)): group for key, group in captions_of("coco-test-00.tar").items()}
    results = json.loads((data_folder() / "coco-test-peers" / f"{peer}.json").read_text())
    candidates = {str(result["image_id"]): result["caption"] for result in results}
    pairs = Comparison.of(candidates, references)
    check(list(zip(pairs.candidates, pairs.references, strict=True)))


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("shard", ["flickr8k-test-00.tar", "pascal1k-00.tar"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_people_against_people(shard: str, shuffled: bool) -> None:
    groups = [tuple(map(tuple, tokenize_all(group))) for group in captions_of(shard).values()]
    candidates = [group[0] for group in groups]
    if shuffled:
        random.Random(0).shuffle(candidates)
    check([(c, group[1:]) for c, group in zip(candidates, groups, strict=True)])
