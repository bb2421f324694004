"""Captions -> tokens, exactly as the COCO caption tools cut them, without Java.

The COCO tools write captions to a file, one a line (a line feed inside a caption becomes a
space), run the Stanford PTB tokeniser of CoreNLP 3.4.1 over it with `-preserveLines -lowerCase`,
and drop from each line the tokens on their punctuation list. BLEU, ROUGE and CIDEr are computed
on what is left, so scores can only be compared when the tokens are the same.

`ptb_rules.py` holds the rules, `ptb_lexer.py` applies them; this module adds the COCO form and
the memo that makes it fast. Behaviour worth knowing:

- Brackets survive: the tools list `-LRB-`, but the tokeniser prints `-lrb-`.
- A token can hold a no-break space (`1 1/2`, a telephone number, a tag).
- Characters that the tokeniser does not know are dropped, emoji among them.
- One caption in, one token list out, always. The Java program also ends a line at the characters
  CR, VT, FF, LS and PS; a caption that holds one comes out as several lines, and the tools then
  give every later caption the tokens of another. Here such a caption's lines stay together.
- A caption is cut as a line that an empty line follows. In the Java program the next caption
  shows through in one case, the last in the file in two: a closing single initial (`vitamin C.`)
  gives `c.`, but `c` when the next line begins with a word such as `The`; and at the end of the
  file alone `:)` and `'90` are not recognised. Here a caption's tokens depend on nothing else.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from itertools import chain

from sightwords.text.ptb_lexer import lexer, to_units

TOKENIZER = "ptb-coco"
"""What score signatures call this tokeniser."""

_SIGNS = ["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
PUNCTUATION = frozenset([*_SIGNS, "-LRB-", "-RRB-", "-LCB-", "-RCB-"])
"""The list of the COCO tools. Tokens are lower-case, so its bracket names never apply."""

Tokens = tuple[str, ...]


def ptb_tokens(text: str) -> list[str]:
    """Cut a text into lower-case PTB tokens, punctuation among them.

    >>> ptb_tokens("A dog (brown) can't sit...")
    ['a', 'dog', '-lrb-', 'brown', '-rrb-', 'ca', "n't", 'sit', '...']
    """
    return list(chain.from_iterable(_pieces(text)))


def tokenize(caption: str) -> list[str]:
    """Cut a caption as the COCO tools do: lower-case PTB tokens without punctuation.

    >>> tokenize("A dog's ball -- red, and on the U.S. flag!")
    ['a', 'dog', "'s", 'ball', 'red', 'and', 'on', 'the', 'u.s.', 'flag']
    """
    chunks = caption.split(" ")
    last = chunks.pop()
    try:
        tokens = list(chain.from_iterable(map(_WORDS_BEFORE_SPACE.__getitem__, chunks)))
        tokens += _WORDS_AT_END[last]
    except KeyError:  # something not seen before, or not to be remembered
        return _without_punctuation(ptb_tokens(caption))
    return tokens


def tokenize_all(captions: Sequence[str]) -> list[list[str]]:
    """`tokenize` for many captions: as many lists, in the same order.

    >>> tokenize_all(["A dog.", ""])
    [['a', 'dog'], []]
    """
    was_enabled = gc.isenabled()
    gc.disable()  # lists of strings make no cycles; looking for some takes longer than the work
    try:
        return [tokenize(caption) for caption in captions]
    finally:
        if was_enabled:
            gc.enable()


def clear_memo() -> None:
    """Forget all remembered words; only measurements and tests need this."""
    for table in (_BEFORE_SPACE, _AT_END, _WORDS_BEFORE_SPACE, _WORDS_AT_END):
        table.clear()


def _without_punctuation(tokens: list[str]) -> list[str]:
    # The tools read back a line of text: they strip its end, where an address may have an exotic
    # space, and part it at spaces, which one rare rule (`face`) leaves inside a token.
    parts = " ".join(tokens).rstrip().split(" ")
    return [part for part in parts if part and part not in PUNCTUATION]


# The memo. A caption is cut at its spaces into chunks, and the tokens of a chunk are remembered
# when nothing beyond it can change them. Why that is exact: the lexer keeps no state from one
# token to the next, so a token depends on the characters from its start up to the last one looked
# at, which the lexer reports. If a token starts where a chunk does, the chunk's tokens end exactly
# where it does, and nothing beyond the space behind it was looked at, then the same tokens come
# out wherever the chunk stands before a space and a token starts at it. And one does start there:
# only the rule for runs of spaces begins with a space, and it ends where the next chunk begins,
# unless that begins with a space of another kind (such chunks are not kept). Where the lexer
# looked one character further ("2 d": perhaps half a fraction), that character is made part of
# the key; where it looked further still, nothing is kept. A caption's last chunk is always
# followed by the same two line feeds, so its tokens are kept without condition, separately.

_BEFORE_SPACE: dict[str, Tokens] = {}
_AT_END: dict[str, Tokens] = {}
_WORDS_BEFORE_SPACE: dict[str, Tokens] = {}
_WORDS_AT_END: dict[str, Tokens] = {}

_ENDING = "\n\n"
_SPLIT_WORDS = frozenset(["cannot", "gonna", "gotta", "lemme", "gimme", "wanna"])
_OTHER_SPACES = frozenset("\t\u00a0\u3000").union(map(chr, range(0x2000, 0x200B)))
_MOST_CHUNKS = 1 << 16
_LONGEST_CHUNK = 48


def _pieces(text: str) -> Iterator[Tokens]:
    """The tokens of a text, chunk by chunk."""
    units = to_units(text.replace("\n", " "))
    size = len(units)
    whole = units + _ENDING
    at = 0
    while at <= size:
        space = units.find(" ", at)
        stop = size if space < 0 else space
        memo = _AT_END if space < 0 else _BEFORE_SPACE
        chunk = units[at:stop]
        tokens = memo.get(chunk)
        if tokens is None and space >= 0:
            tokens = memo.get(whole[at : stop + 2])
        if tokens is None:
            tokens, at = _cut(whole, at, stop, is_last=space < 0)
        else:
            at = stop
        yield tokens
        if at == stop:
            at += 1  # the space
            while at < size and units[at] in _OTHER_SPACES:
                at += 1


def _cut(whole: str, start: int, stop: int, *, is_last: bool) -> tuple[Tokens, int]:
    """The tokens of the chunk `whole[start:stop]`, remembered if nothing else bears on them.

    Also says where the next token starts: at `stop`, or further on when a token spans spaces.
    """
    chunk = whole[start:stop]
    tokens, at, reach = _plain_word(chunk, stop) or _lexed(whole, start, stop)
    if at != stop or len(chunk) > _LONGEST_CHUNK or chunk[:1] in _OTHER_SPACES:
        return tokens, at
    if is_last:
        _remember(chunk, tokens, _AT_END, _WORDS_AT_END)
    elif reach <= stop + 1:
        _remember(chunk, tokens, _BEFORE_SPACE, _WORDS_BEFORE_SPACE)
    elif reach <= stop + 2:
        _remember(whole[start : stop + 2], tokens, _BEFORE_SPACE, {})
    return tokens, at


def _plain_word(chunk: str, stop: int) -> tuple[Tokens, int, int] | None:
    """What `_lexed` says of a chunk of ASCII letters, without the automaton.

    Nearly all chunks are such words, and a new one costs twenty times less this way. That the
    automaton agrees, for all of them, is proven state by state in the tests.
    """
    if not (chunk.isascii() and chunk.isalpha()):
        return None
    word = chunk.lower()
    return None if word in _SPLIT_WORDS else ((word,), stop, stop + 1)


def _lexed(whole: str, start: int, stop: int) -> tuple[Tokens, int, int]:
    """The tokens from `start` until `stop` is reached, where that is, and how far was looked."""
    cut = lexer().token
    found, at, furthest = [], start, start
    while at < stop:
        token, at, reach = cut(whole, at)
        furthest = max(furthest, reach)
        if token is not None:
            found.append(token)
    return tuple(found), at, furthest


def _remember(
    chunk: str, tokens: Tokens, memo: dict[str, Tokens], words: dict[str, Tokens]
) -> None:
    for table in (memo, words):
        if len(table) >= _MOST_CHUNKS:
            table.clear()
    memo[chunk] = tokens
    if not any(token[-1].isspace() for token in tokens):  # those need `_without_punctuation`
        words[chunk] = tuple(token for token in tokens if token not in PUNCTUATION)
