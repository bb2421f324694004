"""`sightwords rank PHOTO --sentences FILE`: which of these sentences fits (section 5.1)?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import (
    HelpFormatter,
    PhotoSettings,
    add_bundle,
    add_json,
    add_set,
    at_least,
    read_set,
)
from sightwords.errors import InputError

if TYPE_CHECKING:
    from sightwords.rerank.dmsm import Dmsm
    from sightwords.words.detector import Detector


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "rank",
        help="rank sentences by how well they fit a photo",
        description="Rank sentences by how well they fit a photo, the best first. Each line has "
        "the similarity, from -1 to 1, and the sentence's share: the probability that it belongs "
        "to the photo, if exactly one of the sentences does.",
        epilog="example: sightwords rank dog.jpg --sentences sentences.txt\n"
        "example: printf 'a dog on grass\\na red bus\\n' | sightwords rank dog.jpg --sentences -\n"
        "example: sightwords rank dog.jpg --sentences sentences.txt --json",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("photo", metavar="PHOTO", help="an image file")
    parser.add_argument(
        "--sentences", required=True, metavar="FILE", help="one sentence per line; - for stdin"
    )
    add_json(parser, "one JSON object per sentence")
    parser.add_argument(
        "--n-best", type=at_least(1), metavar="N", help="print the N best (default: all)"
    )
    add_bundle(parser)
    parser.add_argument(
        "--parts",
        metavar="DIR",
        type=Path,
        help="instead of a bundle: a directory with dmsm/ and the detector that it was trained "
        "with in words/ (default of words/: built in)",
    )
    add_set(parser, PhotoSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Rank and print."""
    from sightwords.images import decode_apart
    from sightwords.text.ptb import tokenize_all

    settings = read_set(PhotoSettings, args)
    if args.bundle is not None and args.parts is not None:
        args.parser.error("--parts takes the place of a bundle; leave out --bundle or --parts")
    sentences = _read(args.sentences)
    tokens = tokenize_all(sentences)
    if mute := [s for s, words in zip(sentences, tokens, strict=True) if not words]:
        raise InputError(f"{args.sentences}: {mute[0]!r} has no words; remove that line")
    detector, dmsm = _models(args, settings.threads or None)
    features = detector(
        decode_apart(args.photo, limits=settings.limits()), name=args.photo
    ).features
    assert features is not None
    scores = dmsm.score(features, tokens)
    shares = dmsm.shares(scores)
    # Of equal scores the earlier line comes first.
    order = sorted(range(len(sentences)), key=lambda i: (-float(scores[i]), i))
    for rank, i in enumerate(order[: args.n_best], start=1):
        print(_line(rank, sentences[i], float(scores[i]), float(shares[i]), as_json=args.json))
    return 0


def _read(source: str) -> list[str]:
    """The lines that are not empty."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise InputError(
            f"{source}: cannot be read ({error.strerror}); give a text file, one sentence per line"
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


def _models(args: argparse.Namespace, threads: int | None) -> tuple[Detector, Dmsm]:
    """From the bundle, or from the directory named instead."""
    from sightwords.rerank.dmsm import Dmsm

    if args.parts is not None:
        from sightwords.words.artefact import DEFAULT_DETECTOR
        from sightwords.words.detector import Detector

        words = args.parts / "words"
        found = Detector.load(
            words if words.is_dir() else DEFAULT_DETECTOR, threads=threads, calibrated=False
        )
        return found, Dmsm.load(args.parts / "dmsm", threads=threads)
    from sightwords.bundle import open_bundle

    with open_bundle(args.bundle) as bundle:
        dmsm = Dmsm.load(bundle.files / "dmsm", threads=threads)
        return bundle.detector(threads=threads), dmsm


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
