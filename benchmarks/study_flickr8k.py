"""Runs the human judgements of Flickr8k through `study create`, `import` and `results`.

    python benchmarks/study_flickr8k.py JUDGEMENTS flickr8k-test-00.tar --out FOLDER

JUDGEMENTS is the folder with ExpertAnnotations.txt and Flickr8k.token.txt (Hodosh et al., JAIR
2013): three experts scored captions, most of them written for another image, from 1 to 4. Two
judged captions of an image make a pair, and the two scores of an expert make a vote: better, same
or worse. Two studies:

- retrieved: a caption of another image against one of the image itself, if experts judged both;
- random: two captions of other images, in random order, so that neither side has an advantage; this
  one shows how often each metric prefers the caption that the experts prefer.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from sightwords.cli.main import main as sightwords
from sightwords.evaluate.grid import csv_text

Scores = dict[str, tuple[int, int, int]]
"""Caption id -> the scores of the three experts, for one image."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("judgements", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--metrics", default="bleu,meteor,rouge_l,cider")
    options = parser.parse_args()
    captions = read_captions(options.judgements)
    judged = read_expert(options.judgements)
    for name, against, pairs in (
        ("retrieved", "human", own_pairs(judged)),
        ("random", "other", random_pairs(judged)),
    ):
        folder = options.out / name
        folder.mkdir(parents=True)
        write_study(folder, name, against, pairs, judged, captions)
        run_study(folder, name, against, options)


def own_pairs(judged: dict[str, Scores]) -> dict[str, tuple[str, str]]:
    """Pairs of a caption of another image and one of the image itself."""
    rng = np.random.default_rng(0)
    pairs = {}
    for image, scores in sorted(judged.items()):
        own = sorted(c for c in scores if c.startswith(f"{image}#"))
        foreign = sorted(c for c in scores if not c.startswith(f"{image}#"))
        if own and foreign:
            pairs[image] = (str(rng.choice(foreign)), str(rng.choice(own)))
    return pairs


def random_pairs(judged: dict[str, Scores]) -> dict[str, tuple[str, str]]:
    """Pairs of two captions of other images."""
    rng = np.random.default_rng(0)
    pairs = {}
    for image, scores in sorted(judged.items()):
        foreign = sorted(c for c in scores if not c.startswith(f"{image}#"))
        if len(foreign) >= 2:
            first, second = rng.permutation(foreign)[:2]
            pairs[image] = (str(first), str(second))
    return pairs


def write_study(
    folder: Path,
    name: str,
    against: str,
    pairs: dict[str, tuple[str, str]],
    judged: dict[str, Scores],
    captions: dict[str, str],
) -> None:
    for side, file in enumerate((name, against)):
        content = [{"image_id": i, "caption": captions[pair[side]]} for i, pair in pairs.items()]
        (folder / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")
    rows: list[tuple[str, ...]] = [("image", "judge", "answer")]
    for image, (first, second) in pairs.items():
        both = zip(judged[image][first], judged[image][second], strict=True)
        for expert, (a, b) in enumerate(both, start=1):
            answer = "better" if a > b else "worse" if a < b else "same"
            rows.append((image, f"expert-{expert}", answer))
    (folder / "votes.csv").write_text(csv_text(rows), encoding="utf-8")


def run_study(folder: Path, name: str, against: str, options: argparse.Namespace) -> None:
    """Run the commands of a user."""
    study = str(folder / "study.db")
    create = ["--images", str(options.images), "--system", str(folder / f"{name}.json")]
    create += ["--against", str(folder / f"{against}.json"), "--set", "pairs=all"]
    create += ["--set", "judges_per_pair=3", "--set", "checks=0"]
    for command in (
        ["create", study, *create],
        ["import", str(folder / "votes.csv"), study, "--from", "votes"],
        ["results", study, "--out", str(folder / "results"), "--set", f"metrics={options.metrics}"],
    ):
        print(f"\n$ sightwords study {command[0]} ...")
        if sightwords(["study", *command]):
            raise SystemExit(1)


def read_expert(directory: Path) -> dict[str, Scores]:
    judged: dict[str, Scores] = defaultdict(dict)
    for line in text(directory, "ExpertAnnotations.txt").splitlines():
        image, caption, *scores = line.split("\t")
        first, second, third = map(int, scores)
        judged[image][caption] = (first, second, third)
    return judged


def read_captions(directory: Path) -> dict[str, str]:
    found = {}
    for line in text(directory, "Flickr8k.token.txt").splitlines():
        match = re.fullmatch(r"(.+?)[#@]([0-4])[\t@](.*)", line)
        assert match is not None, line
        found[f"{match[1]}#{match[2]}"] = match[3]
    return found


def text(directory: Path, name: str) -> str:
    plain = directory / name
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    return gzip.decompress((directory / f"{name}.gz").read_bytes()).decode("utf-8")


if __name__ == "__main__":
    main()
