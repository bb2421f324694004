"""`sightwords caption PHOTO...`: one line per photo."""

from __future__ import annotations

import argparse
import glob
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import (
    HelpFormatter,
    PhotoSettings,
    add_allow_urls,
    add_bundle,
    add_json,
    add_min_precision,
    add_require,
    add_set,
    at_least,
    read_set,
)
from sightwords.cli.output import json_line, let_any_name_out, make_folder, picture_path, say
from sightwords.corpus.sources import listed_image
from sightwords.errors import SightwordsError, on_one_line, said_of
from sightwords.pipeline import load
from sightwords.samples import sample_paths

if TYPE_CHECKING:
    from sightwords.pipeline import Captioner, Trace
    from sightwords.types import Caption, CaptionWord

log = logging.getLogger(__name__)

SHOWN_PRECISION = 0.5
"""Detected words of at least this precision are shown: the tau of section 3.2."""
FEW = 60
"""Fewer photos than this are captioned before numba's faster search has loaded."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "caption",
        help="write a caption for each photo",
        description="Write a caption for each photo: one line with the caption, its confidence "
        "(the chance that it is a good one) and the detected words that it uses, each with its "
        "probability. For thousands of photos use 'sightwords batch'.",
        epilog="example: sightwords caption --samples\n"
        "example: sightwords caption holiday/*.jpg --words\n"
        "example: find . -name '*.jpg' | sightwords caption - --json\n"
        "example: sightwords caption dog.jpg --require dog --forbid man --n-best 3\n"
        "example: sightwords caption dog.jpg --explain figures",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "photos",
        metavar="PHOTO",
        nargs="*",
        help="an image file, a pattern in quotes, or - for a list of paths on stdin",
    )
    parser.add_argument(
        "--samples", action="store_true", help="also caption the photos inside the package"
    )
    add_json(parser, "one JSON object per line, with all details")
    parser.add_argument(
        "--words", action="store_true", help="list every detected word below the caption"
    )
    parser.add_argument(
        "--n-best",
        type=at_least(1),
        metavar="N",
        help="list the N best candidates below the caption (default with --json: 5)",
    )
    parser.add_argument(
        "--explain",
        metavar="DIR",
        type=Path,
        help="draw the photo with one heat map per content word into DIR/PHOTO.png",
    )
    add_caption_options(parser)
    add_set(parser, PhotoSettings)
    parser.set_defaults(run=run, parser=parser)


def add_caption_options(parser: argparse.ArgumentParser) -> None:
    """Register the options that `caption` and `batch` share."""
    add_require(parser)
    add_min_precision(
        parser,
        0.0,
        "use only detected words of at least this precision, 0 to 1 (the three most precise words "
        "are always used)",
    )
    add_allow_urls(parser)
    add_bundle(parser)


def run(args: argparse.Namespace) -> int:
    """Caption every photo; one that cannot be read is named and the others go on."""
    settings = read_set(PhotoSettings, args)
    let_any_name_out()
    photos = _photos(args)
    if not photos:
        args.parser.error("name at least one photo, - for a list on stdin, or --samples")
    if args.explain:
        make_folder(args.explain, "--explain")
    captioner = load(
        args.bundle,
        threads=settings.threads or None,
        n_best=args.n_best or 5,
        min_precision=args.min_precision,
        require=args.require,
        forbid=args.forbid,
        backend="numpy" if len(photos) < FEW else "auto",
        limits=settings.limits(),
    )
    failed = 0
    for photo in photos:
        try:
            text = _caption(photo, captioner, photos, args)
        except Exception as error:  # whatever one photo does, the others go on
            if not isinstance(error, SightwordsError):
                log.info("%s: unexpected error", photo, exc_info=True)
            say(f"error: {said_of(error, photo)}")
            failed += 1
        else:
            print(text, flush=True)
    return 1 if failed else 0


def _photos(args: argparse.Namespace) -> list[str]:
    """In the order given; a pattern that the shell left alone is expanded, `-` reads stdin."""
    found: list[str] = []
    for name in args.photos:
        if name == "-":
            from sightwords.batch.sources import standard_input

            found += [line.strip() for line in standard_input().splitlines() if line.strip()]
        elif any(sign in name for sign in "*?[") and not Path(name).exists():
            found += sorted(glob.glob(name, recursive=True)) or [name]  # noqa: PTH207
        else:
            found.append(name)
    return found + (list(map(str, sample_paths())) if args.samples else [])


def _caption(photo: str, captioner: Captioner, photos: list[str], args: argparse.Namespace) -> str:
    # A URL that was typed is fetched; one of a list on stdin needs consent.
    typed = photo in args.photos
    listed = listed_image(photo, allow_urls=args.allow_urls)
    trace = captioner.trace(photo if typed else listed)
    if args.explain:
        _draw(photo, captioner, trace, photos, args.explain)
    return _text(photo, trace.caption, args)


def _text(photo: str, caption: Caption, args: argparse.Namespace) -> str:
    if args.json:
        return _json_line(photo, caption, args.n_best or 5)
    lines = [_line(photo, caption)]
    if args.words:
        lines += [_word_line(word) for word in caption.words]
    if args.n_best:
        lines += [
            f"  {ranked.score:9.4f}  {' '.join(ranked.hypothesis.tokens)}"
            for ranked in caption.n_best[: args.n_best]
        ]
    return "\n".join(lines)


def _line(photo: str, caption: Caption) -> str:
    words = sorted(
        (w for w in caption.words if w.used),
        key=lambda w: (-w.detected.prob, w.detected.word),
    )
    listed = ", ".join(f"{w.detected.word} {w.detected.prob:.0%}" for w in words)
    found = f"  [{listed}]" if listed else ""
    # Without a confidence model in the bundle it is NaN, and nothing is claimed.
    sure = "" if math.isnan(caption.confidence) else f" ({caption.confidence:.2f})"
    return f"{on_one_line(photo)}: {caption.text}{sure}{found}"


def _word_line(word: CaptionWord) -> str:
    found = word.detected
    state = "used" if word.used else ""
    if not word.used and found.precision >= SHOWN_PRECISION:
        state = "detected"
    return (
        f"  {found.word:16s} probability {found.prob:.2f}  precision {found.precision:.2f}  {state}"
    ).rstrip()


def _json_line(photo: str, caption: Caption, n_best: int) -> str:
    from sightwords.batch.records import caption_record

    seconds = {stage: round(value, 5) for stage, value in caption.seconds.items()}
    record = {"image": photo, **caption_record(caption, n_best=n_best), "seconds": seconds}
    return json_line(record, photo)


def _draw(photo: str, captioner: Captioner, trace: Trace, photos: list[str], folder: Path) -> None:
    """PHOTO.png; photos of one name in several folders are numbered."""
    stem = Path(photo).stem
    same = [name for name in dict.fromkeys(photos) if Path(name).stem == stem]
    number = f"-{same.index(photo) + 1}" if len(same) > 1 else ""
    picture = captioner.explain(trace)
    with picture_path(folder / f"{stem}{number}.png") as path:
        picture.save(path)
