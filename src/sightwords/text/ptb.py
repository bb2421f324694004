"""The PTB tokeniser of the COCO caption tools, without Java."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sightwords.text.ptb_automaton import Alphabet, Automaton, Pattern, parse
from sightwords.text.ptb_rules import RULES, named_patterns

TOKENIZER = "ptb-coco"


class Lexer:
    def __init__(self) -> None:
        names = named_patterns()
        whole = [parse(f"({r.pattern})({r.before})", names) for r in RULES]
        split: list[tuple[Pattern, Pattern] | None] = [
            (parse(r.pattern, names), parse(r.before, names)) if r.before else None for r in RULES
        ]
        alphabet = Alphabet(whole)
        self.rules = Automaton(whole, alphabet)
        self.split = [
            pair and (Automaton([pair[0]], alphabet), Automaton([pair[1]], alphabet))
            for pair in split
        ]

    def token(self, text: str, start: int) -> tuple[str | None, int, int]:
        rule, end, reach = self.rules.longest(text, start)
        pair = self.split[rule]
        if pair:
            base, context = pair
            end = next(
                e
                for e in reversed(base.ends(text, start, end))
                if end in context.ends(text, e, end)
            )
        token, used = RULES[rule].action(text[start:end])
        return token, start + used, reach


@lru_cache(maxsize=1)
def lexer() -> Lexer:
    return Lexer()


def ptb_tokens(text: str) -> list[str]:
    lex = lexer()
    full = text.replace("\n", " ") + "\n\n"
    out = []
    at = 0
    while at < len(text):
        token, at, _ = lex.token(full, at)
        if token is not None:
            out.append(token.lower())
    return out


_PUNCT = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])


def tokenize(caption: str) -> list[str]:
    return [t for t in ptb_tokens(caption) if t not in _PUNCT]


def tokenize_all(captions: Sequence[str]) -> list[list[str]]:
    """One token list a caption."""
    return [tokenize(c) for c in captions]
