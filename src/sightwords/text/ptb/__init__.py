"""The PTB tokeniser of the COCO caption tools, without Java.

    captions (COCO form, memo) -> lexer -> automaton <- rules, patterns, characters

`captions.py` is the place to start and says how it behaves.
"""

from sightwords.text.ptb.captions import (
    PUNCTUATION,
    TOKENIZER,
    clear_memo,
    ptb_tokens,
    tokenize,
    tokenize_all,
    tokenize_file,
)

__all__ = [
    "PUNCTUATION",
    "TOKENIZER",
    "clear_memo",
    "ptb_tokens",
    "tokenize",
    "tokenize_all",
    "tokenize_file",
]
