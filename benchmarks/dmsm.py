"""Train the DMSM (section 5.1) in one or more forms and print what each retrieves.

    python benchmarks/dmsm.py default paper --features learned-features.npz rerank-features.npz \
        --train 'coco-train-*.tar' 'flickr8k-train-*.tar' --val 'coco-val-*.tar' --device cuda
    python benchmarks/dmsm.py default default:objective=nce default:gamma=30,epochs=20 ...

A form is a preset of `sightwords.config`, or one with settings changed after a colon. Features are
those that the stage `features` of `sightwords train all` leaves in its work folder. Retrieval is
judged on the first 1,000 images of coco-val's half 0 (by id hash). With `--lists` (`lists.npz` of
the stage `grounded`) `list_sentences` may be set; with `--val-lists` (of the stage `lists`) each
form is judged on lists too: the mean correlation of its cosines with CIDEr within a list, and the
CIDEr of the sentence it likes best beside that of all sentences (chance) and of the best (oracle).
Models to keep are made by `sightwords train dmsm`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sightwords.config import PRESETS, DmsmConfig
from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.corpus.splits import half_by_hash
from sightwords.metrics.retrieval import HEADER
from sightwords.parallel import available_cores
from sightwords.settings import from_mapping
from sightwords.train.dmsm.data import DmsmData, dmsm_data, with_lists
from sightwords.train.dmsm.image_features import ImageFeatures, merged
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.dmsm.training import train_dmsm
from sightwords.train.dmsm.vectors import evaluate_network, list_agreement
from sightwords.train.fit import StepReport
from sightwords.train.rerank.list_metrics import measure, references_of
from sightwords.train.rerank.lists import Lists, joined
from sightwords.types import FloatArray

Captions = Mapping[str, Sequence[str]]


def main() -> None:
    args = _arguments()
    train, val = captions_of(args.train), captions_of(args.val, half=0)
    features = merged([ImageFeatures.load(path) for path in args.features])
    train_forms(
        args.forms,
        features,
        train,
        val,
        device=args.device,
        lists=joined([Lists.load(path) for path in args.lists]) if args.lists else None,
        val_lists=joined([Lists.load(p) for p in args.val_lists]) if args.val_lists else None,
    )


def train_forms(
    forms: Sequence[str],
    features: ImageFeatures,
    train: Captions,
    val: Captions,
    *,
    device: str,
    lists: Lists | None = None,
    val_lists: Lists | None = None,
) -> dict[str, DmsmNetwork]:
    """Train each form and print its row."""
    seen, unseen = among(features, train), among(features, val)
    lists, poor = measured(lists, seen, train)
    val_lists, worth = measured(val_lists, unseen, val)
    trained = {}
    print(HEADER, flush=True)
    for form in forms:
        config = config_of(form)
        data: DmsmData = dmsm_data(seen, train, config)
        if config.list_sentences and lists is not None and poor is not None:
            data = with_lists(data, lists, poor)
        started = time.perf_counter()
        network = train_dmsm(data, config, device=device, progress=_say, report_every=500)
        seconds = time.perf_counter() - started
        found = evaluate_network(network, unseen, val)
        print(found.markdown(form), f"gamma {network.gamma_value:.1f}, {seconds:.0f} s", flush=True)
        if val_lists is not None and worth is not None:
            print("  ", list_agreement(network, unseen, val_lists, worth), flush=True)
        trained[form] = network
    return trained


def config_of(form: str) -> DmsmConfig:
    """`default:gamma=30,objective=nce` -> settings."""
    name, _, changes = form.partition(":")
    pairs = (pair.split("=") for pair in changes.split(",") if pair)
    values = {k: v if re.fullmatch("(?!true|false)[a-z_]+", v) else json.loads(v) for k, v in pairs}
    return from_mapping(DmsmConfig, dataclasses.asdict(PRESETS[name].dmsm) | values, where=form)


def captions_of(sources: Sequence[str], *, half: int | None = None) -> dict[str, tuple[str, ...]]:
    """Captions by image id, of one half by id hash if asked."""
    corpus = open_corpus(sources)
    return {e.id: e.captions for e in corpus if half is None or half_by_hash(e.id) == half}


def among(features: ImageFeatures, captions: Captions) -> ImageFeatures:
    """The features of images that have captions here, in the order of the features."""
    known = {canonical_id(name) for name in captions}
    return features.select([name for name in features.ids if canonical_id(name) in known])


def measured(
    lists: Lists | None, features: ImageFeatures, captions: Captions
) -> tuple[Lists | None, FloatArray | None]:
    """The 50 likeliest sentences a word of images with features, and the CIDEr of each."""
    if lists is None:
        return None, None
    known = {canonical_id(name) for name in features.ids}
    rows = [row for row, name in enumerate(lists.ids.tolist()) if name in known]
    lists = lists.select(rows)
    lists = lists.best(50, lists.per_word)
    references = references_of(lists, captions)
    return lists, measure(lists, references, processes=available_cores()).cider


def _say(report: StepReport) -> None:
    print(
        f"  {report.step}/{report.steps} loss {report.loss:.3f} "
        f"{report.examples_per_second:.0f} captions/s",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forms", nargs="+")
    parser.add_argument("--train", nargs="+", required=True, help="captioned images")
    parser.add_argument("--val", nargs="+", required=True, help="captioned images")
    parser.add_argument("--features", nargs="+", type=Path, required=True)
    parser.add_argument("--lists", nargs="+", type=Path, help="of training images")
    parser.add_argument("--val-lists", nargs="+", type=Path)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
