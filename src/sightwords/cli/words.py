"""`sightwords words PHOTO...`: the words that a detector finds, one line per photo."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import (
    HelpFormatter,
    PhotoSettings,
    add_json,
    add_min_precision,
    add_set,
    read_set,
)
from sightwords.cli.output import json_line, let_any_name_out, make_folder, picture_path, say
from sightwords.errors import SightwordsError, on_one_line, said_of
from sightwords.samples import sample_paths
from sightwords.types import Box, DetectedWord, DetectedWords

if TYPE_CHECKING:
    from PIL import Image

    from sightwords.types import RegionScores
    from sightwords.words.detector import Detector

log = logging.getLogger(__name__)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "words",
        help="list the words that a photo shows, with probability and location",
        description="List the words that a photo shows. One line per photo, the most probable word "
        "first, each with its probability. Words such as 'a' and 'of' are found nearly everywhere "
        "and left out; --json has them, and the precision of each word: of held-out photos that "
        "scored this high or higher, the share whose captions have the word. At least three "
        "content words are always given.",
        epilog="example: sightwords words --samples\n"
        "example: sightwords words holiday/*.jpg --min-precision 0.7\n"
        "example: sightwords words dog.jpg --json\n"
        "example: sightwords words dog.jpg --words dog,frisbee --heatmap maps",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("photos", metavar="PHOTO", nargs="*", help="an image file")
    parser.add_argument(
        "--samples", action="store_true", help="also take the photos inside the package"
    )
    parser.add_argument(
        "--detector", metavar="DIR", type=Path, help="a detector of your own (default: built in)"
    )
    add_json(parser, "one JSON object per line, with boxes")
    add_min_precision(parser, None, "list words of at least this precision, 0 to 1 (default: 0.5)")
    parser.add_argument(
        "--words",
        metavar="WORD,...",
        help="list these words, whatever their precision, and no others",
    )
    parser.add_argument(
        "--heatmap",
        metavar="DIR",
        type=Path,
        help="draw where each word is into DIR/PHOTO-WORD.png; words such as 'a' and 'of' are "
        "drawn only if --words names them",
    )
    add_set(parser, PhotoSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Detect in every photo; one that cannot be read is named and the others go on."""
    from sightwords.words.artefact import DEFAULT_DETECTOR
    from sightwords.words.detector import Detector

    settings = read_set(PhotoSettings, args)
    if args.words is not None and not args.words.replace(",", " ").strip():
        args.parser.error("--words names no word; give some, such as dog,frisbee")
    if args.words is not None and args.min_precision is not None:
        args.parser.error("--words lists all its words; leave out --min-precision")
    if args.samples:
        args.photos += map(str, sample_paths())
    if not args.photos:
        args.parser.error("name at least one photo, or --samples")
    let_any_name_out()
    if args.heatmap:
        make_folder(args.heatmap, "--heatmap")
    detector = Detector.load(args.detector or DEFAULT_DETECTOR, threads=settings.threads or None)
    asked = _asked(args.words, detector)
    failed = 0
    for photo in args.photos:
        try:
            line = _detect(photo, detector, asked, args)
        except Exception as error:  # whatever one photo does, the others go on
            if not isinstance(error, SightwordsError):
                log.info("%s: unexpected error", photo, exc_info=True)
            say(f"error: {said_of(error, photo)}")
            failed += 1
        else:
            print(line, flush=True)
    return 1 if failed else 0


def _detect(
    photo: str, detector: Detector, asked: list[int] | None, args: argparse.Namespace
) -> str:
    from sightwords.images import decode_apart
    from sightwords.words.noisy_or import pool

    image = decode_apart(photo, limits=read_set(PhotoSettings, args).limits())
    regions = detector(image, name=photo)
    scores = pool(regions)
    if asked is None:
        found = detector.calibrate(scores, regions, threshold=args.min_precision)
    else:
        found = detector.describe(scores, regions, asked)
    every = asked is not None
    closed = detector.vocabulary.closed_class
    shown = found.words if every else _content(found, closed)
    if args.heatmap:
        _draw(photo, image, regions, detector, shown, args=args)
    if args.json:
        return _json_line(photo, found, closed)
    return _line(photo, shown, every)


def _draw(
    photo: str,
    image: Image.Image,
    regions: RegionScores,
    detector: Detector,
    shown: Sequence[DetectedWord],
    *,
    args: argparse.Namespace,
) -> None:
    from PIL.Image import Resampling

    from sightwords.images import fit_size
    from sightwords.words.heatmap import LONGER_SIDE_PX, detected_heatmap

    small = image.resize(fit_size(*image.size, LONGER_SIDE_PX), Resampling.BICUBIC)  # once for all
    for word in shown:
        index = detector.vocabulary.index(word.word)
        picture = detected_heatmap(small, regions, index, word)
        with picture_path(args.heatmap / _picture_name(photo, word.word, args)) as path:
            picture.save(path)


def _picture_name(photo: str, word: str, args: argparse.Namespace) -> str:
    """PHOTO-WORD.png; photos of one name in several folders are numbered."""
    stem = Path(photo).stem
    same = [p for p in dict.fromkeys(args.photos) if Path(p).stem == stem]
    number = f"-{same.index(photo) + 1}" if len(same) > 1 else ""
    name = re.sub(r"\W+", "_", word)  # letters of any script stay: für and fur are two pictures
    return f"{stem}{number}-{name}.png"


def _asked(words: str | None, detector: Detector) -> list[int] | None:
    """Positions of the words that --words names, in its order, each once."""
    if words is None:
        return None
    names = dict.fromkeys(name for word in words.split(",") if (name := word.strip().lower()))
    return [detector.vocabulary.index(name) for name in names]


def _line(photo: str, shown: Sequence[DetectedWord], as_given: bool) -> str:
    """Likeliest first; words the user named, in the user's order."""
    words = shown if as_given else sorted(shown, key=lambda w: (-w.prob, w.word))
    return f"{on_one_line(photo)}: {', '.join(f'{w.word} {w.prob:.0%}' for w in words)}"


def _content(found: DetectedWords, closed_class: Collection[str]) -> list[DetectedWord]:
    return [word for word in found.words if word.word not in closed_class]


def _json_line(photo: str, found: DetectedWords, closed_class: Collection[str]) -> str:
    words = [_json_word(word, word.word in closed_class) for word in found.words]
    record = {"image": photo, "threshold": found.threshold, "words": words}
    return json_line(record, photo)


def _json_word(word: DetectedWord, closed_class: bool) -> dict[str, object]:
    return {
        "word": word.word,
        "prob": round(word.prob, 5),
        "precision": round(word.precision, 5),
        "raw_score": round(word.raw_score, 5),
        "box": _corners(word.box),
        "closed_class": closed_class,
    }


def _corners(box: Box | None) -> Sequence[float] | None:
    if box is None:
        return None
    return [round(value, 4) for value in (box.x0, box.y0, box.x1, box.y1)]
