"""`sightwords generate --words "dog:0.9 grass"`: likely sentences from words alone."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import sightwords
from sightwords.cli.help import HelpFormatter
from sightwords.cli.talk import say
from sightwords.errors import BundleError, InputError

if TYPE_CHECKING:
    from sightwords.language.constraints import Constraints
    from sightwords.language.mbest import Generation

DEFAULT_MODEL = Path(sightwords.__file__).parent / "default_bundle" / "language"
CERTAIN = 1.0
"""What a word without a probability gets: the user stands for it."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "generate",
        help="write likely sentences from words alone",
        description="Write likely sentences from words alone, no image needed. One line a "
        "sentence, the likeliest first: its log-likelihood (unnormalised, as the search uses it), "
        "then the sentence. The sentences mention as many of the words as N of them can (the "
        "paper's section 4.2, with M = N).",
        epilog='example: sightwords generate --words "dog:0.9 frisbee:0.8 grass"\n'
        'example: sightwords generate --words "dog frisbee" --require catching --forbid man\n'
        'example: sightwords generate --words "dog:0.9 grass" --n-best 3 --json',
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--words",
        required=True,
        metavar='"WORD[:P] ..."',
        help=f"words with their probabilities, 0 to 1 (without one: {CERTAIN})",
    )
    parser.add_argument(
        "--model", metavar="DIR", type=Path, help="a language model of your own (default: built in)"
    )
    parser.add_argument(
        "--n-best", type=int, default=5, metavar="N", help="sentences to write (default: 5)"
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="WORD",
        help="must appear; repeatable",
    )
    parser.add_argument(
        "--forbid", action="append", default=[], metavar="WORD", help="must not; repeatable"
    )
    parser.add_argument("--min-length", type=int, default=1, metavar="N", help="in words")
    parser.add_argument("--max-length", type=int, metavar="N", help="in words (default: 18)")
    parser.add_argument(
        "--no-repeats", action="store_true", help="no word twice, but for words such as 'a'"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for all sentences")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Search, write the sentences, and say on stderr which constraints could not be met."""
    from sightwords.config import GenerationConfig
    from sightwords.language.constraints import unknown_words_warning
    from sightwords.language.generate import Generator

    if args.n_best < 1:
        args.parser.error(f"--n-best {args.n_best}: give 1 or more")
    probs = parse_words(args.words)
    constraints = _constraints(args)
    config = GenerationConfig(m_best=args.n_best)
    if args.max_length is not None and args.max_length > config.maximum_length:
        config = replace(config, maximum_length=args.max_length)
    # One search: compiling for it would take longer than numpy needs.
    generator = Generator.load(
        _directory(args.model), config, constraints=constraints, backend="numpy"
    )
    found = generator.sentences(probs)
    if idle := unknown_words_warning(constraints.forbidden, generator.model.vocabulary):
        say(f"warning: {idle}")
    print(_json(found) if args.json else _lines(found))
    for unmet in found.unmet:
        say(f"warning: no sentence meets: {unmet}")
    return 0


def parse_words(text: str) -> dict[str, float]:
    """`"dog:0.9, Grass"` -> {"dog": 0.9, "grass": 1.0}; spaces or commas between words.

    >>> parse_words("dog:0.9 Grass")
    {'dog': 0.9, 'grass': 1.0}
    """
    found: dict[str, float] = {}
    for part in text.replace(",", " ").split():
        word, colon, prob = part.lower().rpartition(":")
        if not colon:
            word, prob = prob, str(CERTAIN)
        try:
            value = float(prob)
        except ValueError:
            value = -1.0
        if not word or not 0 <= value <= 1:
            raise InputError(
                f"--words: {part!r} is not WORD or WORD:P with P from 0 to 1, such as dog:0.9"
            )
        if word in found:
            raise InputError(f"--words: {word!r} is there twice; give it once")
        found[word] = value
    if not found:
        raise InputError('--words: no words given; give some, such as --words "dog:0.9 grass"')
    return found


def _constraints(args: argparse.Namespace) -> Constraints:
    from sightwords.language.constraints import Constraints, split_words

    return Constraints(
        required=split_words(args.require),
        forbidden=split_words(args.forbid),
        minimum_length=args.min_length,
        maximum_length=args.max_length,
        repeats=not args.no_repeats,
    )


def _directory(given: Path | None) -> Path:
    if given is not None:
        return given
    if not DEFAULT_MODEL.is_dir():
        raise BundleError(
            f"sightwords {sightwords.__version__} carries no trained language model; name one "
            "with --model DIR (sightwords train language makes it)"
        )
    return DEFAULT_MODEL


def _lines(found: Generation) -> str:
    best = found.m_best.hypotheses
    return "\n".join(f"{h.log_prob:8.3f}  {' '.join(h.tokens)}" for h in best)


def _json(found: Generation) -> str:
    sentences = [
        {
            "sentence": " ".join(h.tokens),
            "log_prob": round(h.log_prob, 5),
            "mentioned": list(h.mentioned),
        }
        for h in found.m_best.hypotheses
    ]
    record = {
        "sentences": sentences,
        "coverage": found.m_best.coverage,
        "unmet": list(found.unmet),
    }
    return json.dumps(record, ensure_ascii=False)
