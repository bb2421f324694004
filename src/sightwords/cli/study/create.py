"""`sightwords study create`: draw pairs and check cases, and make the judges."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from sightwords.cli.options import HelpFormatter, add_set, at_least, read_set
from sightwords.cli.study.opened import add_study, need_extra, tell
from sightwords.config.check import check
from sightwords.errors import BundleError, ImageError
from sightwords.types import ImageRef

if TYPE_CHECKING:
    from sightwords.study.draw import Similarity

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StudySettings:
    """The design of a study; defaults are the paper's."""

    pairs: str = "1000"
    """Images to draw, one pair each; or `all`."""
    judges_per_pair: int = 5
    """Judges that see each pair."""
    pairs_per_judge: int = 20
    """Pairs that each judge sees."""
    checks: int = 4
    """Check cases per judge, beside the pairs."""
    seed: int = 0
    """Seed of every random draw."""
    name: str = ""
    """The system's name; empty: the file's."""
    origin: Literal["human", "simulated", "model"] = "human"
    """Whose votes this study will hold: human, simulated or model; only people's votes fill human
    columns."""
    bundle: str = ""
    """A bundle whose DMSM chooses the wrong captions of check cases; empty: the shipped one, or
    TF-IDF of the captions if it has no DMSM."""

    def __post_init__(self) -> None:
        for name in ("judges_per_pair", "pairs_per_judge"):
            check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("checks", "seed"):
            check(self, name, getattr(self, name) >= 0, "at least 0")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "create",
        help="draw pairs and check cases and make the judges",
        description="Draw pairs and check cases and make the judges. Refuses to replace a study.",
        epilog="example: sightwords study create --images coco-test-00.tar --system ours.json\n"
        "example: sightwords study create --images photos/ --system a.json --against b.json "
        "--set pairs=200 --set checks=0",
        formatter_class=HelpFormatter,
    )
    add_study(parser)
    parser.add_argument(
        "--images",
        metavar="SOURCE",
        required=True,
        help="photos, with human captions where they are a side or in check cases: anything that "
        "'sightwords data inspect' reads, or a folder with nothing but photos",
    )
    parser.add_argument(
        "--system", metavar="A.json", required=True, help="captions of the system under test"
    )
    parser.add_argument(
        "--against",
        metavar="human|B.json",
        default="human",
        help="the other side: a person's caption of the image, or another system's captions "
        "(default: human)",
    )
    add_set(parser, StudySettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Make a study."""
    settings = read_set(StudySettings, args)
    try:
        pairs = None if settings.pairs == "all" else at_least(1)(settings.pairs)
    except argparse.ArgumentTypeError as error:
        args.parser.error(f"--set pairs={settings.pairs}: {error}; or give all")
    need_extra()
    from sightwords.study.create import create_study
    from sightwords.study.model import Design

    against = None if args.against == "human" else args.against
    similarity, checks_by = None, ""
    if settings.checks:
        similarity, checks_by = find_similarity(settings.bundle or None, args.images)
    design = Design(
        system=settings.name or Path(args.system).stem,
        against="human" if against is None else Path(against).stem,
        pairs=pairs or 1,
        judges_per_pair=settings.judges_per_pair,
        pairs_per_judge=settings.pairs_per_judge,
        checks_per_judge=settings.checks,
        seed=settings.seed,
        origin=settings.origin,
        checks_by=checks_by,
    )
    store = create_study(
        args.study,
        design,
        images=args.images,
        system=args.system,
        against=against,
        all_pairs=pairs is None,
        similarity=similarity,
    )
    made = store.design
    tell(
        f"{store.name}: {made.pairs} pairs of {made.system} against {made.against}, "
        f"{made.judges_per_pair} judges per pair, {made.judges} judges of {made.pairs_per_judge} "
        f"pairs and {made.checks_per_judge} check cases"
        + (f" (far apart by {made.checks_by})" if made.checks_by else "")
    )
    tell("next: sightwords study serve, and sightwords study links for the judges")
    store.close()
    return 0


def find_similarity(bundle: str | None, images: str) -> tuple[Similarity | None, str]:
    """(similarity, its name): DMSM's cosine, or (None, "") where the shipped bundle has no DMSM.

    A bundle that was asked for by name must have one.
    """
    from sightwords.rerank.dmsm import DMSM_NAME
    from sightwords.words.artefact import DEFAULT_DETECTOR

    folder = Path(bundle) if bundle is not None else Path(DEFAULT_DETECTOR).parent
    if (folder / "dmsm" / DMSM_NAME).is_file():
        return dmsm_similarity(folder, images), f"DMSM of {folder.name}"
    if bundle is not None:
        raise BundleError(
            f"{folder}: holds no dmsm/{DMSM_NAME}; give a whole bundle, or leave out --set bundle"
        )
    return None, ""


def dmsm_similarity(folder: Path, images: str) -> Similarity:
    """The cosine of a photo's vector with a caption's; each photo is described once."""
    from sightwords.evaluate.references import find_images
    from sightwords.images import decode_apart
    from sightwords.rerank.dmsm import Dmsm
    from sightwords.text.ptb import tokenize_all
    from sightwords.words.detector import Detector

    detector, dmsm = Detector.load(folder / "words"), Dmsm.load(folder / "dmsm")
    known: dict[str, Vector] = {}

    def vector(image: str, ref: ImageRef) -> Vector:
        try:
            features = detector(decode_apart(ref), name=image).features
        except ImageError:  # reading the photos will leave this one out
            return np.zeros(dmsm.semantic_units, dtype=np.float32)
        if features is None:
            raise BundleError(f"{folder}: its detector gives no features; DMSM needs them")
        return dmsm.image(features)

    def similarity(ids: Sequence[str], captions: Sequence[str]) -> Vector:
        wanted = [image for image in ids if image not in known]
        known.update(
            (image, vector(image, ref)) for image, ref in find_images(images, wanted).items()
        )
        sentences = [tokens or ["-"] for tokens in tokenize_all(list(captions))]
        cosines: Vector = np.stack([known[image] for image in ids]) @ dmsm.texts(sentences).T
        return cosines

    return similarity
