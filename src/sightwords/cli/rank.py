"""`sightwords rank PHOTOGRAPH --sentences FILE`: which of these sentences fits (section 5.1)?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.help import HelpFormatter
from sightwords.cli.photo_limits import add_photo_limits, photo_limits
from sightwords.errors import InputError

if TYPE_CHECKING:
    from sightwords.rerank.dmsm import Dmsm
    from sightwords.words.detector import Detector


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "rank",
        help="say which of some sentences fits a photograph best",
        description="Rank sentences by how well they fit a photograph, the best first. Each line "
        "has the similarity, from -1 to 1, and the sentence's share: how probable it is that this "
        "one belongs to the photograph, if one of them does.",
        epilog="example: sightwords rank dog.jpg --sentences sentences.txt\n"
        "example: printf 'a dog on grass\\na red bus\\n' | sightwords rank dog.jpg --sentences -\n"
        "example: sightwords rank dog.jpg --sentences sentences.txt --json",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("photograph", metavar="PHOTOGRAPH", help="an image file")
    parser.add_argument(
        "--sentences", required=True, metavar="FILE", help="one sentence a line; - for stdin"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a sentence")
    parser.add_argument("--best", type=int, metavar="N", help="print the N best (default: all)")
    parser.add_argument(
        "--bundle",
        metavar="BUNDLE",
        help="a model of your own: a directory, a zip or hf://OWNER/NAME (default: built in)",
    )
    parser.add_argument(
        "--model", metavar="DIR", type=Path, help="a similarity model instead of the bundle's"
    )
    parser.add_argument(
        "--detector", metavar="DIR", type=Path, help="the detector that --model was trained with"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="CPU threads (default: all available)"
    )
    add_photo_limits(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Rank and print."""
    from sightwords.images import decode_apart
    from sightwords.text.ptb import tokenize_all

    for name in ("threads", "best"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            args.parser.error(f"--{name} {getattr(args, name)}: give 1 or more")
    sentences = _read(args.sentences)
    tokens = tokenize_all(sentences)
    if mute := [s for s, words in zip(sentences, tokens, strict=True) if not words]:
        raise InputError(f"{args.sentences}: {mute[0]!r} has no words; take that line out")
    detector, dmsm = _models(args)
    features = detector(
        decode_apart(args.photograph, limits=photo_limits(args)), name=args.photograph
    ).features
    assert features is not None
    scores = dmsm.score(features, tokens)
    shares = dmsm.shares(scores)
    # Of equal scores the earlier line comes first.
    order = sorted(range(len(sentences)), key=lambda i: (-float(scores[i]), i))
    for rank, i in enumerate(order[: args.best], start=1):
        print(_line(rank, sentences[i], float(scores[i]), float(shares[i]), as_json=args.json))
    return 0


def _read(source: str) -> list[str]:
    """The lines that say something."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise InputError(
            f"{source}: cannot be read ({error.strerror}); give a text file, one sentence a line"
        ) from error
    where = "stdin" if source == "-" else source
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    sentences = [text for line in lines if (text := line.strip())]
    if not sentences:
        raise InputError(f"{where}: holds no sentence; write one on each line")
    return sentences


def _models(args: argparse.Namespace) -> tuple[Detector, Dmsm]:
    """From the bundle, or from the directories named instead."""
    from sightwords.rerank.dmsm import Dmsm

    if args.detector is not None and args.model is None:
        args.parser.error("--detector needs --model: a similarity model knows one detector only")
    if args.model is not None:
        from sightwords.words.artefact import DEFAULT_DETECTOR
        from sightwords.words.detector import Detector

        found = Detector.load(
            args.detector or DEFAULT_DETECTOR, threads=args.threads, calibrated=False
        )
        return found, Dmsm.load(args.model, threads=args.threads)
    from sightwords.bundle import open_bundle

    with open_bundle(args.bundle) as bundle:
        dmsm = Dmsm.load(bundle.files / "dmsm", threads=args.threads)
        return bundle.detector(threads=args.threads), dmsm


def _line(rank: int, sentence: str, score: float, share: float, *, as_json: bool) -> str:
    """One row.

    >>> _line(1, "a dog", 0.61234, 0.9, as_json=False)
    '0.612   90%  a dog'
    """
    if as_json:
        row = {
            "rank": rank,
            "sentence": sentence,
            "score": round(score, 5),
            "share": round(share, 5),
        }
        return json.dumps(row, ensure_ascii=False)
    return f"{score:.3f} {share:5.0%}  {sentence}"
