"""`sightwords generate --words "dog:0.9 grass"`: likely sentences from words alone."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sightwords
from sightwords.cli.options import HelpFormatter, add_json, add_require, add_set, at_least, read_set
from sightwords.cli.output import say
from sightwords.config.check import check
from sightwords.errors import BundleError, InputError

if TYPE_CHECKING:
    from sightwords.language.constraints import Constraints
    from sightwords.language.mbest import Generation

DEFAULT_MODEL = Path(sightwords.__file__).parent / "default_bundle" / "language"
CERTAIN = 1.0
"""The probability of a word that is given without one."""


@dataclass(frozen=True)
class SentenceSettings:
    """What the sentences look like."""

    min_length: int = 1
    """Words in the shortest sentence."""
    max_length: int = 18
    """Words in the longest sentence."""
    repeats: bool = True
    """Whether a word may appear twice; words such as 'a' always may."""

    def __post_init__(self) -> None:
        check(self, "min_length", self.min_length >= 1, "at least 1")
        longest = f"at least min_length, {self.min_length}"
        check(self, "max_length", self.max_length >= self.min_length, longest)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "generate",
        help="write likely sentences from words alone",
        description="Write likely sentences from words alone, without a photo. One line per "
        "sentence, the most likely first: its log-likelihood (unnormalised, as the search uses "
        "it), then the sentence. The sentences mention as many of the words as N sentences can "
        "(section 4.2 of the paper, with M = N).",
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
        "--language",
        metavar="DIR",
        type=Path,
        help="a language model of your own (default: built in)",
    )
    parser.add_argument(
        "--n-best",
        type=at_least(1),
        default=5,
        metavar="N",
        help="number of sentences (default: 5)",
    )
    add_require(parser)
    add_json(parser, "one JSON object for all sentences")
    add_set(parser, SentenceSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Search, print the sentences, and warn of constraints that could not be met."""
    from sightwords.config import GenerationConfig
    from sightwords.language.constraints import unknown_words_warning
    from sightwords.language.generate import Generator

    settings = read_set(SentenceSettings, args)
    probs = parse_words(args.words)
    constraints = _constraints(args, settings)
    config = GenerationConfig(m_best=args.n_best)
    if settings.max_length > config.maximum_length:
        config = replace(config, maximum_length=settings.max_length)
    # One search: compiling for it would take longer than numpy needs.
    generator = Generator.load(
        _directory(args.language), config, constraints=constraints, backend="numpy"
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
            raise InputError(f"--words: {word!r} is given twice; give it once")
        found[word] = value
    if not found:
        raise InputError('--words: no words given; give some, such as --words "dog:0.9 grass"')
    return found


def _constraints(args: argparse.Namespace, settings: SentenceSettings) -> Constraints:
    from sightwords.language.constraints import Constraints, split_words

    return Constraints(
        required=split_words(args.require),
        forbidden=split_words(args.forbid),
        minimum_length=settings.min_length,
        maximum_length=settings.max_length,
        repeats=settings.repeats,
    )


def _directory(given: Path | None) -> Path:
    if given is not None:
        return given
    if not DEFAULT_MODEL.is_dir():
        raise BundleError(
            f"sightwords {sightwords.__version__} carries no trained language model; name one "
            "with --language DIR (sightwords train language makes it)"
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
