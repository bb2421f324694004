"""BLEU, ROUGE-L and CIDEr against pycocoevalcap, corpus and per image, to 1e-9."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider
from sightwords.metrics.rouge import rouge_l
from sightwords.metrics.score import Comparison

pytest.importorskip("pycocoevalcap", reason="the COCO tools to compare with: sightwords[meteor]")

Texts = Mapping[str, list[str]]
"""Image id -> tokenised captions, as the COCO tools pass them on."""

EXACT = 1e-9


def of_tools(results: Texts, references: Texts) -> dict[str, tuple[float, list[float]]]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    values, each = Bleu(4).compute_score(references, results, verbose=0)
    found = {f"bleu_{n + 1}": (values[n], list(each[n])) for n in range(4)}
    found["rouge_l"] = Rouge().compute_score(references, results)
    found["cider"] = Cider().compute_score(references, results)
    return found


def by_java(captions: Texts) -> Texts:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    found: Texts = PTBTokenizer().tokenize(
        {i: [{"caption": c} for c in each] for i, each in captions.items()}
    )
    return found


def compare(results: Texts, references: Texts) -> None:
    pairs = Comparison(
        ids=tuple(results),
        candidates=tuple(tuple(results[i][0].split()) for i in results),
        references=tuple(tuple(tuple(r.split()) for r in references[i]) for i in results),
    )
    check(pairs, of_tools(results, references))


def check(pairs: Comparison, expected: dict[str, tuple[float, list[float]]]) -> None:
    ours = {score.metric: score for score in (*bleu(pairs), rouge_l(pairs), cider(pairs))}
    for metric, (value, per_image) in expected.items():
        assert ours[metric].value == pytest.approx(value, rel=0, abs=EXACT), metric
        assert ours[metric].per_image == pytest.approx(np.array(per_image), rel=0, abs=EXACT), (
            metric
        )


@pytest.mark.parametrize("seed", range(20))
def test_made_up_captions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(int(rng.integers(3, 40)))]

    def sentence(shortest: int) -> str:
        length = int(rng.integers(shortest, 90 if rng.random() < 0.05 else 14))
        return " ".join(rng.choice(words, size=length))

    ids = [str(i) for i in range(int(rng.integers(1, 60)))]
    # References of at least one word: the tools call two empty sentences equal in ROUGE-L.
    references = {i: [sentence(1) for _ in range(int(rng.integers(1, 7)))] for i in ids}
    compare({i: [sentence(0)] for i in ids}, references)


def test_equal_words_in_another_order_and_repeated() -> None:
    references = {"1": ["a b c d a b", "d c b a"], "2": ["a a a a a"], "3": ["é ü 犬"]}
    compare({"1": ["a b a b a b"], "2": ["a a a"], "3": ["犬 ü é"]}, references)


@pytest.mark.java
def test_from_raw_captions_with_the_tools_own_tokeniser() -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on the path")
    references = {
        "1": ["A man's dog runs, on the beach.", "Two (small) dogs -- one brown!"],
        "2": ["The cat can't sleep; it's on a bed.", "A cat on a king-size bed..."],
        "3": ["A bus in the U.S. at 3:30 p.m.", "An old-fashioned bus"],
        "4": ["A bus on 12th Ave S.", "A cake of 1 1/2 pounds", "the letter C."],
    }
    results = {"1": "A brown dog on the beach.", "2": "a cat's bed", "3": "An old bus, at 3:30"}
    results["4"] = "1 1/2 cakes on 12th Ave S."
    expected = of_tools(by_java({i: [c] for i, c in results.items()}), by_java(references))
    check(Comparison.of(results, references), expected)


PEERS = (
    "Dai-et-al-2017",
    "Liu-et-al-2017",
    "Mun-et-al-2017",
    "Shetty-et-al-2016",
    "Shetty-et-al-2017",
    "Tavakoli-et-al-2017",
    "Vinyals-et-al-2017",
    "Wu-et-al-2016",
    "Zhou-et-al-2017",
)


Corpus = tuple[dict[str, list[str]], Texts]
"""References as written, and as the tools tokenise them."""


@pytest.fixture(scope="module")
def coco_test() -> Corpus:
    if shutil.which("java") is None:
        pytest.skip("no java on the path")
    references = {}
    with tarfile.open(Path(os.environ["SIGHTWORDS_DATA"]) / "coco-test-00.tar") as shard:
        for member in shard:
            if member.name.endswith(".json"):
                file = shard.extractfile(member)
                assert file is not None
                record = json.load(file)
                references[str(int(record["key"]))] = record["captions"]
    return references, by_java(references)


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_published_systems_on_coco_test(peer: str, coco_test: Corpus) -> None:
    written, references = coco_test
    path = Path(os.environ["SIGHTWORDS_DATA"]) / "coco-test-peers" / f"{peer}.json"
    results = {str(r["image_id"]): r["caption"] for r in json.loads(path.read_text())}
    assert results.keys() == written.keys()
    tokenised = by_java({i: [results[i]] for i in written})
    compare(tokenised, references)

    ours = Comparison.of({i: results[i] for i in written}, written)
    assert [" ".join(c) for c in ours.candidates] == [tokenised[i][0] for i in written]
    other = [
        (caption, theirs)
        for i, mine in zip(ours.ids, ours.references, strict=True)
        for caption, tokens, theirs in zip(written[i], mine, references[i], strict=True)
        if " ".join(tokens) != theirs
    ]
    assert other == []
    check(ours, of_tools(tokenised, references))
