"""Tokenise captions with the Java program of the COCO tools and with sightwords, in one run.

    python benchmarks/tokenizer.py                       300,000 made-up captions
    python benchmarks/tokenizer.py coco-train.jsonl.gz flickr8k-test-00.tar ...

Prints the machine, the seconds of each, their ratios, and in how many captions the tokens differ;
exits with 1 if any does. To give what ours gives, token lists without punctuation, Java's output
must still be read back and parted; that is timed with it, as the COCO tools pay for it too.
Needs `java` and the package pycocoevalcap (its jar). Reads .txt and .jsonl (also gzipped), .json
and webdataset .tar.

A caption's tokens are compared with what Java prints for it as a line before an empty line.
Where the line that happens to follow changes what Java prints (a closing `C.` before `The`), the
caption is counted on a line of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from sightwords.text.ptb import PUNCTUATION, clear_memo, tokenize_all


def main() -> int:
    parser = argparse.ArgumentParser(description="Java's tokeniser against ours: time and tokens.")
    parser.add_argument("files", nargs="*", type=Path, help="caption files and shards")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; the best counts")
    arguments = parser.parse_args()
    captions = [c for f in arguments.files for c in read_captions(f)] or made_up(300_000)

    java_lists, java_process, java_inner, ours_first, ours_later = [], [], [], [], []
    for _ in range(arguments.repeats):
        clear_memo()
        ours, seconds = timed(captions)
        ours_first.append(seconds)
        ours_later.append(timed(captions)[1])
        process, inner, lines = run_java(captions)
        start = time.perf_counter()
        for line in lines:
            words(line)
        java_lists.append(process + time.perf_counter() - start)
        java_process.append(process)
        java_inner.append(inner)

    print(f"machine                 {machine()}")
    print(f"captions                {len(captions):,}")
    print(f"java, to token lists    {min(java_lists):.2f} s")
    print(f"java, process alone     {min(java_process):.2f} s (start-up included)")
    print(f"java, tokenising alone  {min(java_inner):.2f} s (as it says itself)")
    print(f"sightwords, first call  {min(ours_first):.2f} s")
    print(f"sightwords, later call  {min(ours_later):.2f} s")
    first, later = min(ours_first), min(ours_later)
    print(f"ratio                   {min(java_lists) / first:.1f} (java to lists : first call)")
    print(f"ratio, process alone    {min(java_process) / first:.1f} (java process : first call)")
    print(f"ratio, no start-up      {min(java_inner) / later:.1f} (tokenising : later call)")
    neighbours, wrong = compare(captions, ours, lines)
    print(f"changed by neighbours   {neighbours}")
    print(f"mismatches              {len(wrong)}")
    for caption in wrong[:20]:
        print(f"  {caption!r}")
    return 1 if wrong else 0


def timed(captions: Sequence[str]) -> tuple[list[list[str]], float]:
    start = time.perf_counter()
    tokens = tokenize_all(captions)
    return tokens, time.perf_counter() - start


def run_java(captions: Sequence[str], between: str = "\n") -> tuple[float, float, list[str]]:
    """Seconds with start-up, seconds without, and the printed lines."""
    spec = find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("this needs the package pycocoevalcap: pip install 'sightwords[meteor]'")
    jar = Path(spec.submodule_search_locations[0], "tokenizer", "stanford-corenlp-3.4.1.jar")
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer"]
    command += ["-preserveLines", "-lowerCase"]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "captions.txt"
        lines = [caption.replace("\n", " ") for caption in captions]
        path.write_bytes(between.join([*lines, ""]).encode())
        start = time.perf_counter()
        run = subprocess.run([*command, str(path)], capture_output=True, check=True)
        seconds = time.perf_counter() - start
    found = re.search(rb"tokenized (\d+) tokens at ([\d.]+) tokens per second", run.stderr)
    inner = float(found[1]) / float(found[2]) if found else seconds
    return seconds, inner, run.stdout.decode().split("\n")


def compare(
    captions: Sequence[str], ours: list[list[str]], lines: list[str]
) -> tuple[int, list[str]]:
    """How many differ for the sake of the next line alone, and the captions that truly differ."""
    fence = "zqfence"
    if len(lines) == len(captions) + 1:
        suspects = [i for i in range(len(captions)) if words(lines[i]) != ours[i]]
    else:  # a caption with line separators of its own put Java's lines out of step
        suspects = list(range(len(captions)))
    printed = run_java([captions[i] for i in suspects], between=f"\n\n{fence}\n")[2]
    blocks = ("\n" + "\n".join(printed)).split(f"\n{fence}\n")
    alone = [words(" ".join(filter(None, block.split("\n")))) for block in blocks]
    wrong = [captions[i] for i, tokens in zip(suspects, alone, strict=False) if tokens != ours[i]]
    return (len(suspects) - len(wrong)) * (len(suspects) < len(captions)), wrong


def words(line: str) -> list[str]:
    return [w for w in line.rstrip().split(" ") if w and w not in PUNCTUATION]


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


def made_up(count: int) -> list[str]:
    """Captions of about eleven words out of 20,000, frequent ones often, as captions are."""
    rng = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    vocabulary[:8] = ["a", "on", "of", "the", "in", "with", "and", "is"]
    vocabulary[50:60] = [
        "2",
        "t-shirt",
        "man's",
        "it's",
        "can't",
        "(two)",
        '"stop"',
        "3",
        "&",
        "U.S.",
    ]
    weights = [1 / (rank + 3) for rank in range(len(vocabulary))]
    stream = iter(rng.choices(vocabulary, weights, k=count * 15))
    captions = []
    for _ in range(count):
        caption = " ".join(next(stream) for _ in range(rng.randint(7, 15)))
        captions.append(caption[:1].upper() + caption[1:] + rng.choice([".", ".", " .", "", "!"]))
    return captions


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next(
            (x.split(": ")[1] for x in info.read_text().split("\n") if "model name" in x), cpu
        )
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    python = platform.python_version()
    return f"{cpu}, {os.cpu_count()} cores; Python {python}; {java.splitlines()[0]}"


if __name__ == "__main__":
    sys.exit(main())
