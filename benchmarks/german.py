r"""Flickr8k photos with German captions: a corpus for `sightwords train all`.

    python benchmarks/german.py multi30k-dataset flickr8k-train-0*.tar --dev flickr8k-dev-00.tar \
        --test flickr8k-test-00.tar --out german --images 300

Multi30K (Elliott et al., 2016) has five German descriptions of each Flickr30k photo, written
by people who saw the photo and not its English captions (`data/task2`). The number before the
first underscore of a Flickr8k name is the photo's id there. See docs/languages.md.
Written to --out:

    train.jsonl, train/    photos of the train shards, with captions
    dev.jsonl, dev/        photos of the dev shards, to look at and to score
    text.txt               captions of other Flickr30k photos, for the language model
    german.toml            settings for `sightwords train all`

Photos of the dev and test shards are left out of train.jsonl and text.txt, by id.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sightwords.files import write_bytes, write_text

ANNOTATORS = range(1, 6)
CLOSED_CLASS = (
    "ein", "eine", "einem", "einer", "einen", "eines", "der", "die", "das", "dem", "den", "des",
    "und", "in", "im", "ins", "auf", "mit", "an", "am", "vor", "von", "vom", "zu", "zum", "zur",
    "bei", "beim", "für", "aus", "ist", "sind", "sich", "er", "sie", "es", "während", "wie",
)  # fmt: skip
"""German words that nearly every photo has: articles, prepositions and the like."""
SETTINGS = """\
[data]
train = ["{folder}/train.jsonl"]
text = ["{folder}/text.txt"]
base = "default"
base_words = false          # the German word "hat" is not a hat
closed_class = {closed_class}
keep_capitals = true        # nouns
language_words = 1500
name = "german"
licence = "learned from Flickr8k and Multi30K: research use"

[vocabulary]
size = 300

[words]
epochs = 12
batch_size = 32
learning_rate = 1e-4

[language]
epochs = 10

[generation]
m_best = 100
coverage = 4

[grounded]
enabled = false

[mert]
objective = "cider"
mentioned_objects = 0
restarts = 5
"""
Captions = Mapping[str, Sequence[str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the corpus; counts on stdout."""
    args = _parser().parse_args(argv)
    german = {**read_captions(args.dataset, "train"), **read_captions(args.dataset, "val")}
    dev, test = shard_keys(args.dev), shard_keys(args.test)
    kept_out = {photograph_id(key) for key in (*dev, *test)}
    free = {name: found for name, found in german.items() if name not in kept_out}
    keys = [key for key in shard_keys(args.shards) if photograph_id(key) in free]
    chosen = set(random.Random(args.seed).sample(keys, min(args.images, len(keys))))
    trained = write_corpus(args.out, "train", args.shards, free, chosen)
    judged = [key for key in dev if photograph_id(key) in german][: args.dev_images]
    looked_at = write_corpus(args.out, "dev", args.dev, german, set(judged))
    seen = {photograph_id(key) for key in chosen}
    text = [line for name, lines in sorted(free.items()) if name not in seen for line in lines]
    text = random.Random(args.seed).sample(text, min(args.text, len(text)))
    write_text(args.out / "text.txt", "\n".join(text) + "\n")
    closed = json.dumps(CLOSED_CLASS, ensure_ascii=False)
    settings = SETTINGS.format(folder=args.out.as_posix(), closed_class=closed)
    write_text(args.out / "german.toml", settings)
    found = {"with German captions": len(keys), "train": trained, "dev": looked_at,
             "text": len(text), "left out": len(kept_out & german.keys())}  # fmt: skip
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def photograph_id(key: str) -> str:
    """The number that Flickr8k and Flickr30k share.

    >>> photograph_id("1000268201_693b08cb0e"), photograph_id("10002456.jpg")
    ('1000268201', '10002456')
    """
    return key.partition("_")[0].partition(".")[0]


def read_captions(dataset: Path, split: str) -> dict[str, list[str]]:
    """Photo id -> its German descriptions, of one split of task 2."""
    folder = dataset / "data" / "task2"
    names = (folder / "image_splits" / f"{split}_images.txt").read_text("utf-8").split()
    captions: list[list[str]] = [[] for _ in names]
    for number in ANNOTATORS:
        with gzip.open(folder / "raw" / f"{split}.{number}.de.gz", "rt", encoding="utf-8") as file:
            for mine, line in zip(captions, file, strict=True):
                if line.strip():
                    mine.append(line.strip())
    return {photograph_id(name): mine for name, mine in zip(names, captions, strict=True)}


def shard_keys(shards: Iterable[Path]) -> list[str]:
    """The photos of some shards, in order."""
    return [Path(name).stem for name, _ in _members(shards)]


def write_corpus(
    out: Path, name: str, shards: Iterable[Path], captions: Captions, chosen: set[str]
) -> int:
    """Photos into the folder `name`, captions into `name`.jsonl; how many."""
    lines = []
    for member, data in _members(shards, chosen):
        write_bytes(out / name / member, data)
        row = {"image": f"{name}/{member}", "captions": captions[photograph_id(member)]}
        lines.append(json.dumps(row, ensure_ascii=False))
    write_text(out / f"{name}.jsonl", "\n".join(lines) + "\n")
    return len(lines)


def _members(shards: Iterable[Path], chosen: set[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the photos; the bytes only of those chosen."""
    for shard in shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                stem = Path(member.name).stem
                if member.name.endswith(".json") or (chosen is not None and stem not in chosen):
                    continue
                file = tar.extractfile(member) if chosen is not None else None
                yield Path(member.name).name, file.read() if file else b""


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path, help="a checkout of github.com/multi30k/dataset")
    parser.add_argument("shards", type=Path, nargs="+", help="flickr8k-train shards")
    parser.add_argument("--dev", type=Path, nargs="+", required=True, help="flickr8k-dev shards")
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="flickr8k-test shards")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=300, help="photos to train on")
    parser.add_argument("--dev-images", type=int, default=60)
    parser.add_argument("--text", type=int, default=20_000, help="sentences without photos")
    parser.add_argument("--seed", type=int, default=2015)
    return parser


if __name__ == "__main__":
    sys.exit(main())
