"""The tokeniser against the Java program that the COCO tools run, token for token.

With SIGHTWORDS_FREEZE=1 the frozen cases of `tests/text/ptb_cases.json` are written again from
what Java says; do that only after adding a text to that file.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from sightwords.text.ptb import PUNCTUATION, ptb_tokens, tokenize

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "text" / "ptb_cases.json"
FENCE = "zqfence"
"""A line of its own between captions: where Java ends lines inside one, the count still holds."""


def java_lines(captions: Sequence[str]) -> list[str]:
    """What Java prints for each caption, which stands as a line before an empty line."""
    spec = find_spec("pycocoevalcap")
    if shutil.which("java") is None or spec is None or not spec.submodule_search_locations:
        pytest.skip("needs java on the PATH and the package pycocoevalcap: sightwords[meteor]")
    jar = Path(spec.submodule_search_locations[0], "tokenizer", "stanford-corenlp-3.4.1.jar")
    command = ["java", "-cp", str(jar)]
    command += ["edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    text = "".join(caption.replace("\n", " ") + f"\n\n{FENCE}\n" for caption in captions)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "captions.txt"
        path.write_bytes(text.encode())
        run = subprocess.run([*command, str(path)], capture_output=True, check=True, timeout=300)
    blocks = ("\n" + run.stdout.decode()).split(f"\n{FENCE}\n")
    assert blocks.pop() == "", "the output does not end with a fence"
    assert len(blocks) == len(captions)
    return [" ".join(line for line in block.split("\n") if line) for block in blocks]


def coco_words(line: str) -> list[str]:
    """What the COCO tools make of a printed line."""
    return [w for w in line.rstrip().split(" ") if w and w not in PUNCTUATION]


def assert_same(captions: Sequence[str], lines: Sequence[str]) -> None:
    pairs = list(zip(captions, lines, strict=True))
    for _ in range(2):  # the second time round, what the memo holds
        wrong = [(c, line) for c, line in pairs if " ".join(ptb_tokens(c)) != line]
        assert wrong == [], f"{len(wrong)} of {len(captions)}; tokens of the first: " + repr(
            ptb_tokens(wrong[0][0])
        )
        assert [c for c, line in pairs if tokenize(c) != coco_words(line)] == []


def one_case_a_line(groups: dict[str, list[list[str]]]) -> str:
    blocks = (
        f"{json.dumps(group)}: [\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]"
        for group, cases in groups.items()
    )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


@pytest.mark.java
def test_adversarial_and_made_up_captions() -> None:
    groups = json.loads(CASES.read_text(encoding="utf-8"))
    frozen = [text for cases in groups.values() for text, _ in cases]
    made = made_up(4000)
    lines = java_lines([*frozen, *made])
    expected = dict(zip(frozen, lines, strict=False))
    if os.environ.get("SIGHTWORDS_FREEZE") == "1":
        fresh = {g: [[t, expected[t]] for t, _ in cases] for g, cases in groups.items()}
        CASES.write_text(one_case_a_line(fresh), encoding="utf-8")
        groups = fresh
    for cases in groups.values():
        for text, line in cases:
            assert line == expected[text], f"the frozen case {text!r} is not what Java prints"
    assert_same([*frozen, *made], lines)


WORDS = (
    "a A the The two 2 10 man woman dog dogs cat's black-and-white skateboard TV t.v. U.S. St. Mr. "
    "can't don't cannot it's \"stop\" 'go' (brown) [sic] street. table, park; one: 1/2 3.5 $20 50% "
    "#1 & w/ and/or T-shirt o'clock '90s ... -- - ! ? : ) C. I. etc. Inc. No. 5 fig. http://a.bc/d "
    "a@b.cd café naïve 😀 “hi” it’s … – ½"
)
SIGNS = [*" .,;:!?'\"`-_()[]{}/\\|@#$%^&*+=~\t\r\x00\x7f\x85\x91\x93\u00a0\u00ad\u00bd\u00e9\u0130"]
SIGNS += [*"\u017f\u0301\u0661\u200b\u2003\u2014\u2018\u2019\u201c\u2026\u2028\u20ac\u3000\u4e00😀"]
SIGNS += ["n't", "'s", "&amp;", "&lt;", "<b>", ":)", ". . .", "www.", ".com", "Jr. ", "The ", "A"]


def made_up(count: int) -> list[str]:
    """Captions of common and awkward words, most of them damaged somewhere."""
    rng = random.Random(20150612)
    words = WORDS.split()
    captions = []
    for _ in range(count):
        caption = " ".join(rng.choices(words, k=rng.randint(1, 14)))
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            at = rng.randint(0, len(caption))
            caption = caption[:at] + rng.choice(SIGNS) + caption[at + rng.randint(0, 1) :]
        captions.append(caption)
    return captions


@pytest.mark.slow
@pytest.mark.real_data
def test_every_caption_of_the_data() -> None:
    data = Path(os.environ["SIGHTWORDS_DATA"])
    patterns = ("*.jsonl.gz", "*.tar", "*.txt.gz", "*/*.token.txt.gz", "coco-test-peers/*.json")
    files = [f for pattern in patterns for f in sorted(data.glob(pattern))]
    captions = list(dict.fromkeys(c for f in files for c in read_captions(f)))
    pairs = zip(captions, java_lines(captions), strict=True)
    assert [c for c, line in pairs if tokenize(c) != coco_words(line)] == []


def read_captions(path: Path) -> Iterator[str]:
    if path.suffix == ".tar":
        with tarfile.open(path) as shard:
            for member in shard:
                file = shard.extractfile(member) if member.name.endswith(".json") else None
                if file is not None:
                    yield from captions_in(json.load(file))
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    name, text = path.name.removesuffix(".gz"), data.decode()
    if name.endswith(".json"):
        yield from captions_in(json.loads(text))
    elif name.endswith(".jsonl"):
        for line in text.rstrip("\n").split("\n"):
            yield from captions_in(json.loads(line))
    else:
        key = re.compile(r"^\S+\.jpg\S*?[#@]\d[\t@]")  # of a Flickr token file
        yield from (key.sub("", line) for line in text.rstrip("\n").split("\n"))


def captions_in(record: object) -> Iterator[str]:
    """Every string under the keys `caption` and `captions`, at any depth."""
    if isinstance(record, list):
        for item in record:
            yield from captions_in(item)
    elif isinstance(record, dict):
        for key, value in record.items():
            if key in ("caption", "captions"):
                yield from (c for c in (value if isinstance(value, list) else [value]))
            else:
                yield from captions_in(value)
