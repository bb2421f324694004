"""Agreement of the metrics with people on Flickr8k: Kendall's tau_c and tau_b.

    python benchmarks/judgements.py DIRECTORY [--without-meteor] [--with-own]

DIRECTORY holds the judgements of Hodosh et al. (JAIR 2013): ExpertAnnotations.txt,
CrowdFlowerAnnotations.txt and Flickr8k.token.txt, each as it is or with .gz added.

Judged captions are captions of Flickr8k, most of them written for another image. A caption that is
one of the image's own five references is left out, since every metric would score it as perfect;
with `--with-own` it is kept, and scored against the other four.
Expert: three judgements a caption, each counted for itself. CrowdFlower: the share of Yes.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import kendalltau

from sightwords.errors import CorpusError
from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider, cider_plain
from sightwords.metrics.rouge import rouge_l
from sightwords.metrics.score import Comparison, Score

PUBLISHED_EXPERT = {"bleu_4": 30.8, "rouge_l": 32.3, "meteor": 41.8, "cider": 43.9}
"""tau_c x 100, as published for the COCO tools."""


@dataclass(frozen=True)
class Judged:
    """One caption of one image, with what people said of it."""

    image: str
    caption: str
    """Id of the caption."""
    judgements: tuple[float, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--without-meteor", action="store_true")
    parser.add_argument("--with-own", action="store_true", help="keep captions of the same image")
    options = parser.parse_args()
    captions = read_captions(options.directory)
    for name, judged in (
        ("Expert", read_expert(options.directory)),
        ("CrowdFlower", read_crowdflower(options.directory)),
    ):
        kept = judged if options.with_own else without_references(judged)
        print(f"\n{name}: {len(kept)} of {len(judged)} captions")
        report(name, kept, captions, with_meteor=not options.without_meteor)


def report(name: str, kept: list[Judged], captions: dict[str, str], *, with_meteor: bool) -> None:
    scores = score(compare(kept, captions), with_meteor=with_meteor)
    print(f"{'metric':14}{'tau_c':>7}{'tau_b':>7}{'published tau_c':>17}")
    for one in scores:
        values, judgements = repeat(one, kept)
        tau_c, tau_b = (tau(values, judgements, variant) for variant in "cb")
        published = PUBLISHED_EXPERT.get(one.metric) if name == "Expert" else None
        print(f"{one.metric:14}{tau_c:7.1f}{tau_b:7.1f}{published or '':>17}")
    print(f"judgements: {len(judgements)}; signatures:")
    print("\n".join(one.signature for one in scores))


def tau(values: list[float], judgements: list[float], variant: str) -> float:
    """Kendall's tau x 100; b (1945) discounts ties, c (Stuart 1953) allows for unequal scales.

    Flickr8k-Expert is usually reported as tau_c, Flickr8k-CrowdFlower as tau_b.
    """
    return 100 * float(kendalltau(values, judgements, variant=variant).statistic)


def without_references(judged: list[Judged]) -> list[Judged]:
    """Leave out captions written for the very image they are judged on."""
    return [j for j in judged if j.caption.split("#")[0] != j.image]


def compare(judged: list[Judged], captions: dict[str, str]) -> Comparison:
    """Each judged caption beside the references of the image."""
    rows = {f"{j.image} {j.caption}": j for j in judged}
    missing = [j.caption for j in judged if j.caption not in captions]
    if missing:
        raise CorpusError(
            f"{len(missing)} judged captions are not in Flickr8k.token.txt "
            f"(first: {missing[0]!r}); take all three files from one release"
        )
    return Comparison.of(
        {row: captions[j.caption] for row, j in rows.items()},
        {row: [captions[i] for i in references_of(j)] for row, j in rows.items()},
    )


def references_of(judged: Judged) -> list[str]:
    """Ids of the image's five captions, without the judged one."""
    return [i for i in (f"{judged.image}#{n}" for n in range(5)) if i != judged.caption]


def score(pairs: Comparison, *, with_meteor: bool) -> list[Score]:
    scores = [*bleu(pairs), rouge_l(pairs), cider(pairs), cider_plain(pairs)]
    if with_meteor:
        from sightwords.metrics.meteor import meteor

        scores.append(meteor(pairs))
    return scores


def repeat(score: Score, judged: list[Judged]) -> tuple[list[float], list[float]]:
    """A caption's value beside each of its judgements."""
    pairs = [
        (value, judgement)
        for value, j in zip(score.per_image.tolist(), judged, strict=True)
        for judgement in j.judgements
    ]
    return [value for value, _ in pairs], [judgement for _, judgement in pairs]


def read_expert(directory: Path) -> list[Judged]:
    return [
        Judged(image, caption, tuple(map(float, judgements)))
        for image, caption, *judgements in rows(directory, "ExpertAnnotations.txt")
    ]


def read_crowdflower(directory: Path) -> list[Judged]:
    return [
        Judged(image, caption, (float(share),))
        for image, caption, share, _, _ in rows(directory, "CrowdFlowerAnnotations.txt")
    ]


def read_captions(directory: Path) -> dict[str, str]:
    """`IMAGE#NUMBER` -> caption; parted by a tab, or by @ in some copies."""
    found = {}
    for number, line in enumerate(text(directory, "Flickr8k.token.txt").splitlines(), start=1):
        match = re.fullmatch(r"(.+?)[#@]([0-4])[\t@](.*)", line)
        if match is None:
            raise CorpusError(f"Flickr8k.token.txt line {number}: {line!r:.60}, expected an id")
        image, place, caption = match.groups()
        found[f"{image}#{place}"] = caption
    return found


def rows(directory: Path, name: str) -> Iterator[list[str]]:
    for number, line in enumerate(text(directory, name).splitlines(), start=1):
        columns = line.split("\t")
        if len(columns) != 5:
            raise CorpusError(f"{name} line {number}: {len(columns)} columns, expected 5")
        yield columns


def text(directory: Path, name: str) -> str:
    for path in (directory / name, directory / f"{name}.gz"):
        if path.exists():
            data = path.read_bytes()
            return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    raise CorpusError(f"{directory} holds neither {name} nor {name}.gz")


if __name__ == "__main__":
    main()
