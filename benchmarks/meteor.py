"""Time METEOR, start-up and tokenising included, beside METEOR's jar in the same run.

    python benchmarks/meteor.py                                  # made-up captions
    python benchmarks/meteor.py coco-val.jsonl.gz coco-karpathy-test.jsonl.gz
    python benchmarks/meteor.py coco-test-00.tar --results Zhou-et-al-2017.json

The files hold references, and `--results` one caption per image, as `sightwords evaluate captions`
reads them; without `--results`, an image's first caption is scored against its other four and
one of the next image, so that every image has five references. Images are repeated under new ids
until there are `--images` of them. Each way runs in a process of its own, timed from its start;
the first sightwords run has no cache of the paraphrase table, the second has. Memory is the peak
of resident memory (Linux), Java's own. Needs java and `sightwords[meteor]`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightwords.evaluate.references import read_references
from sightwords.evaluate.results import read_results

Captions = dict[str, list[str]]

WAYS = {
    "sightwords, first run": "sightwords",
    "sightwords, later": "sightwords",
    "pycocoevalcap": "pycocoevalcap",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("references", type=Path, nargs="*")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--way", choices=sorted(set(WAYS.values())), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        return work(options.way)
    candidates, references = gather(options.references, options.results, options.images)
    print(f"machine: {machine()}")
    print(f"images: {len(candidates)}, references: {sum(map(len, references.values()))}")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"SIGHTWORDS_CACHE": folder}
        found = {name: run(way, candidates, references, environment) for name, way in WAYS.items()}
    report(found)
    return None


def run(
    way: str, candidates: Captions, references: Captions, environment: dict[str, str]
) -> dict[str, Any]:
    given = json.dumps([candidates, references])
    start = time.perf_counter()
    command = [sys.executable, __file__, "--way", way]
    done = subprocess.run(
        command, input=given, stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    total = time.perf_counter() - start
    return {**json.loads(done.stdout), "total": total}


def work(way: str) -> None:
    """In a process of its own: captions from stdin, results to stdout."""
    candidates, references = json.load(sys.stdin)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        seconds, value, per_image = ENGINES[way](candidates, references)
    found = {"seconds": seconds, "value": value, "per_image": per_image}
    found["own"] = own_peak_mb()
    found["child"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps(found))


Found = tuple[dict[str, float], float, list[float]]


def by_sightwords(candidates: Captions, references: Captions) -> Found:
    from sightwords.metrics.meteor import meteor
    from sightwords.metrics.score import Comparison

    start = time.perf_counter()
    pairs = Comparison.of({i: c[0] for i, c in candidates.items()}, references)
    middle = time.perf_counter()
    score = meteor(pairs)
    seconds = {"tokenise": middle - start, "meteor": time.perf_counter() - middle}
    return seconds, score.value, score.per_image.tolist()


def by_pycocoevalcap(candidates: Captions, references: Captions) -> Found:
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    def tokenise(captions: Captions) -> dict[str, list[str]]:
        listed = {i: [{"caption": c} for c in each] for i, each in captions.items()}
        tokens: dict[str, list[str]] = PTBTokenizer().tokenize(listed)
        return tokens

    start = time.perf_counter()
    results, truth = tokenise(candidates), tokenise(references)
    middle = time.perf_counter()
    scorer = Meteor()
    value, per_image = scorer.compute_score(truth, results)
    seconds = {"tokenise": middle - start, "meteor": time.perf_counter() - middle}
    del scorer  # ends Java, whose memory is known only then
    return seconds, value, per_image


ENGINES: dict[str, Callable[[Captions, Captions], Found]] = {
    "sightwords": by_sightwords,
    "pycocoevalcap": by_pycocoevalcap,
}


def own_peak_mb() -> float:
    """ru_maxrss would count what the parent held before this program was loaded."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(found: dict[str, dict[str, Any]]) -> None:
    tools = found["pycocoevalcap"]
    print(f"{'':22}{'total s':>8}{'tokenise':>9}{'METEOR':>8}{'ratio':>7}{'MB':>6}{'Java MB':>8}")
    for name, one in found.items():
        steps = one["seconds"]
        java = f"{one['child']:.0f}" if one["child"] > one["own"] else "-"
        print(
            f"{name:22}{one['total']:8.2f}{steps['tokenise']:9.2f}{steps['meteor']:8.2f}"
            f"{tools['total'] / one['total']:7.1f}{one['own']:6.0f}{java:>8}"
        )
    for name, one in found.items():
        apart = [abs(a - b) for a, b in zip(one["per_image"], tools["per_image"], strict=True)]
        print(
            f"{name}: METEOR {one['value']:.6f}, corpus {abs(one['value'] - tools['value']):.1e} "
            f"apart, images more than 1e-6 apart: {sum(a > 1e-6 for a in apart)}"
        )


def gather(files: list[Path], results: Path | None, images: int) -> tuple[Captions, Captions]:
    """Candidates and references of as many images as asked for."""
    known = {i: list(group) for file in files for i, group in read_references(file).items()}
    known = known or made_up()
    if results:
        said = read_results(results)
        pairs = [([said[i]], known[i][:5]) for i in known if i in said]
    else:
        groups = [group for group in known.values() if len(group) >= 5]
        nexts = [*groups[1:], groups[0]]
        pairs = [(g[:1], [*g[1:5], n[0]]) for g, n in zip(groups, nexts, strict=True)]
    chosen = [pairs[i % len(pairs)] for i in range(images)]
    return (
        {str(i): candidate for i, (candidate, _) in enumerate(chosen)},
        {str(i): group for i, (_, group) in enumerate(chosen)},
    )


def made_up() -> Captions:
    """Captions by a small grammar; fewer different words than people use."""
    rng = random.Random(0)
    nouns = "man woman dog cat bus train horse child surfer skier kitchen beach street field table"
    things = "wave ball frisbee bench pizza umbrella skateboard laptop bicycle kite plate bed"
    verbs = "riding holding watching eating carrying chasing walking sitting standing near beside"
    colours = "red blue large small old young black white wooden brown"
    a, b, v, c = (words.split() for words in (nouns, things, verbs, colours))

    def one(noun: str, thing: str) -> str:
        return (
            f"A {rng.choice(c)} {noun} {rng.choice(v)} a {rng.choice(c)} {thing} "
            f"{rng.choice(('on', 'in front of', 'next to'))} the {rng.choice(a)}."
        )

    return {
        str(i): [one(*scene) for _ in range(5)]
        for i in range(5000)
        for scene in [(rng.choice(a), rng.choice(b))]
    }


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
