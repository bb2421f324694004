"""Export a grounded model and say what it costs: bytes, milliseconds, and CIDEr lost to int8.

    python benchmarks/grounded_serve.py grounded.safetensors --language LANGUAGE --out grounded/ \
        --lists lists-val.npz --features features-val.npz --captions coco-val.jsonl.gz

Times are of one thread, for the 64 likeliest sentences a word of each list: the median of all
images, wall clock and the process's own time. CIDEr is that of the sentence with the best score,
by the grounded model alone, served in float32 and in int8.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.rerank.grounded import Grounded
from sightwords.rerank.prefix_tree import PrefixTree
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.grounded.export import export_grounded, load_grounded
from sightwords.train.rerank.list_metrics import measure, references_of
from sightwords.train.rerank.lists import Lists


def main() -> None:
    args = arguments()
    network = load_grounded(args.weights)
    vocabulary = load_vocabulary(args.language / "vocabulary.json")
    count = sum(parameter.numel() for parameter in network.parameters())
    print(f"{count / 1e6:.2f} million weights; {platform.machine()}, one thread")
    with tempfile.TemporaryDirectory() as scratch:
        exact = export_grounded(network, vocabulary, scratch, form="float32")
        small = export_grounded(network, vocabulary, args.out)
        for name, export in (("float32", exact), ("int8", small)):
            print(
                f"{name}: {export.total_bytes / 1e6:.1f} MB, log-probabilities differ by "
                f"{export.difference:.2g} from torch's"
            )
        if args.lists:
            compare([exact.directory, small.directory], args)


def compare(folders: Sequence[Path], args: argparse.Namespace) -> None:
    """Both forms on the same lists."""
    every = ImageFeatures.load(args.features)
    features = {canonical_id(n): f for n, f in zip(every.ids, every.features, strict=True)}
    lists = Lists.load(args.lists)
    rows = [i for i, name in enumerate(lists.ids.tolist()) if name in features][: args.images]
    lists = lists.select(rows)
    lists = lists.best(args.candidates, lists.per_word)
    wanted = set(lists.ids.tolist())
    written = {e.id: e.captions for e in open_corpus(args.captions) if canonical_id(e.id) in wanted}
    rewards = measure(lists, references_of(lists, written)).cider
    parts = np.split(rewards, lists.offsets[1:-1])
    print(f"{len(lists)} images: {describe(parts, [len(p) for p in parts])}")
    scores = []
    for name, folder in zip(("float32", "int8"), folders, strict=True):
        found, wall, own = serve(Grounded.load(folder, threads=1), lists, features)
        scores.append(found)
        best = np.mean([part[np.argmax(s)] for part, s in zip(parts, found, strict=True)])
        print(f"{name}: CIDEr {best:.4f}, {wall:.1f} ms an image ({own:.1f} ms of CPU)")
    same = np.mean([np.argmax(a) == np.argmax(b) for a, b in zip(*scores, strict=True)])
    print(f"the same sentence first in {same:.1%} of the images")


def describe(parts: list[np.ndarray], counts: list[int]) -> str:
    oracle = np.mean([part.max() for part in parts])
    return f"{np.mean(counts):.0f} sentences each, best CIDEr of a list {oracle:.4f}"


def serve(
    grounded: Grounded, lists: Lists, features: dict[str, np.ndarray]
) -> tuple[list[np.ndarray], float, float]:
    """Scores of all lists, and the median milliseconds of a list, wall clock and own."""
    scores, wall, own, nodes = [], [], [], []
    for image, name in enumerate(lists.ids.tolist()):
        words, sentences = lists.detected(image), lists.sentences(image)
        tokens = features[name].astype(np.float32)
        start, spent = perf_counter(), process_time()
        scores.append(grounded.score(tokens, words, sentences))
        wall.append(perf_counter() - start)
        own.append(process_time() - spent)
        nodes.append(len(PrefixTree.of([grounded.vocabulary.encode(s) for s in sentences], 0)))
    print(f"  {np.mean(nodes):.0f} distinct beginnings an image")
    return scores, 1e3 * float(np.median(wall)), 1e3 * float(np.median(own))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--language", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lists", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--captions", nargs="+")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--candidates", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    main()
