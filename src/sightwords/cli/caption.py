"""`sightwords caption PHOTOGRAPH...`: one line a photograph."""

from __future__ import annotations

import argparse
import glob
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.help import HelpFormatter
from sightwords.cli.names import json_line, let_any_name_out
from sightwords.cli.photo_limits import add_photo_limits, photo_limits
from sightwords.cli.talk import say
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
"""So few photographs are captioned before numba's faster search has loaded."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "caption",
        help="write a caption for each photograph",
        description="Write a caption for each photograph: one line with the caption, its "
        "confidence (the chance that it is a good one) and the words it builds on, each with its "
        "probability. For thousands of photographs there is 'sightwords batch'.",
        epilog="example: sightwords caption --samples\n"
        "example: sightwords caption holiday/*.jpg --words\n"
        "example: find . -name '*.jpg' | sightwords caption - --json\n"
        "example: sightwords caption dog.jpg --require dog --forbid man --n-best 3\n"
        "example: sightwords caption dog.jpg --explain figures",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "photographs",
        metavar="PHOTOGRAPH",
        nargs="*",
        help="an image file, a pattern in quotes, or - for a list of paths on stdin",
    )
    parser.add_argument(
        "--samples", action="store_true", help="caption the photographs inside the package too"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line, with everything that is known"
    )
    parser.add_argument(
        "--words", action="store_true", help="list every detected word below the caption"
    )
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="list the N best sentences below the caption (--json has 5 unless told)",
    )
    parser.add_argument(
        "--explain",
        metavar="DIR",
        type=Path,
        help="draw the photograph with a heat map a content word into DIR/PHOTOGRAPH.png",
    )
    add_wishes(parser)
    parser.add_argument(
        "--threads", type=int, metavar="N", help="CPU threads (default: all available)"
    )
    parser.set_defaults(run=run, parser=parser)


def add_wishes(parser: argparse.ArgumentParser) -> None:
    """Options that `caption` and `batch` share."""
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="WORD",
        help="every caption must use it; repeatable, or several as a,b",
    )
    parser.add_argument(
        "--forbid", action="append", default=[], metavar="WORD", help="none may; repeatable"
    )
    parser.add_argument(
        "--min-precision",
        type=_share,
        default=0.0,
        metavar="P",
        help="build only on words of at least this precision, 0 to 1 (three at least are kept)",
    )
    parser.add_argument(
        "--allow-urls",
        action="store_true",
        help="fetch photos that a list names by an http or https URL, up to 64 MB each (default: "
        "such a photo is an error)",
    )
    add_photo_limits(parser)
    parser.add_argument(
        "--bundle",
        metavar="BUNDLE",
        help="a model of your own: a directory, a zip or hf://OWNER/NAME (default: built in)",
    )


def run(args: argparse.Namespace) -> int:
    """Caption every photograph; one that cannot be read is named and the others go on."""
    for option, value in (("--threads", args.threads), ("--n-best", args.n_best)):
        if value is not None and value < 1:
            args.parser.error(f"{option} {value}: give 1 or more")
    let_any_name_out()
    photographs = _photographs(args)
    if not photographs:
        args.parser.error("name at least one photograph, - for a list on stdin, or --samples")
    captioner = load(
        args.bundle,
        threads=args.threads,
        n_best=args.n_best or 5,
        min_precision=args.min_precision,
        require=args.require,
        forbid=args.forbid,
        backend="numpy" if len(photographs) < FEW else "auto",
        limits=photo_limits(args),
    )
    failed = 0
    for photograph in photographs:
        try:
            text = _caption(photograph, captioner, photographs, args)
        except Exception as error:  # whatever one photo does, the others go on
            if not isinstance(error, SightwordsError):
                log.info("%s: unexpected error", photograph, exc_info=True)
            say(f"error: {said_of(error, photograph)}")
            failed += 1
        else:
            print(text, flush=True)
    return 1 if failed else 0


def _photographs(args: argparse.Namespace) -> list[str]:
    """In the order given; a pattern that the shell left alone is expanded, `-` reads stdin."""
    found: list[str] = []
    for name in args.photographs:
        if name == "-":
            from sightwords.batch.sources import standard_input

            found += [line.strip() for line in standard_input().splitlines() if line.strip()]
        elif any(sign in name for sign in "*?[") and not Path(name).exists():
            found += sorted(glob.glob(name, recursive=True)) or [name]  # noqa: PTH207
        else:
            found.append(name)
    return found + (list(map(str, sample_paths())) if args.samples else [])


def _caption(
    photograph: str, captioner: Captioner, photographs: list[str], args: argparse.Namespace
) -> str:
    # A URL that was typed is fetched; one of a list on stdin needs consent.
    typed = photograph in args.photographs
    listed = listed_image(photograph, allow_urls=args.allow_urls)
    trace = captioner.trace(photograph if typed else listed)
    if args.explain:
        _draw(photograph, captioner, trace, photographs, args.explain)
    return _text(photograph, trace.caption, args)


def _text(photograph: str, caption: Caption, args: argparse.Namespace) -> str:
    if args.json:
        return _json_line(photograph, caption, args.n_best or 5)
    lines = [_line(photograph, caption)]
    if args.words:
        lines += [_word_line(word) for word in caption.words]
    if args.n_best:
        lines += [
            f"  {ranked.score:9.4f}  {' '.join(ranked.hypothesis.tokens)}"
            for ranked in caption.n_best[: args.n_best]
        ]
    return "\n".join(lines)


def _line(photograph: str, caption: Caption) -> str:
    words = sorted(
        (w for w in caption.words if w.used),
        key=lambda w: (-w.detected.prob, w.detected.word),
    )
    listed = ", ".join(f"{w.detected.word} {w.detected.prob:.0%}" for w in words)
    found = f"  [{listed}]" if listed else ""
    # Without a confidence model in the bundle it is NaN, and nothing is claimed.
    sure = "" if math.isnan(caption.confidence) else f" ({caption.confidence:.2f})"
    return f"{on_one_line(photograph)}: {caption.text}{sure}{found}"


def _word_line(word: CaptionWord) -> str:
    found = word.detected
    state = "used" if word.used else ""
    if not word.used and found.precision >= SHOWN_PRECISION:
        state = "detected"
    return (
        f"  {found.word:16s} probability {found.prob:.2f}  precision {found.precision:.2f}  {state}"
    ).rstrip()


def _json_line(photograph: str, caption: Caption, n_best: int) -> str:
    from sightwords.batch.records import caption_record

    seconds = {stage: round(value, 5) for stage, value in caption.seconds.items()}
    record = {"image": photograph, **caption_record(caption, n_best=n_best), "seconds": seconds}
    return json_line(record, photograph)


def _draw(
    photograph: str, captioner: Captioner, trace: Trace, photographs: list[str], folder: Path
) -> None:
    """PHOTOGRAPH.png; photographs of one name in several folders are numbered."""
    from sightwords.files import atomic_path

    stem = Path(photograph).stem
    same = [name for name in dict.fromkeys(photographs) if Path(name).stem == stem]
    number = f"-{same.index(photograph) + 1}" if len(same) > 1 else ""
    with atomic_path(folder / f"{stem}{number}.png") as path:
        captioner.explain(trace).save(path)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value
