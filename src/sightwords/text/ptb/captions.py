"""Captions -> tokens, exactly as the COCO caption tools cut them, without Java.

The COCO tools write captions to a file, one per line (a line feed inside a caption becomes a
space), run the Stanford PTB tokeniser of CoreNLP 3.4.1 over it with `-preserveLines -lowerCase`,
and drop from each line the tokens on their punctuation list. BLEU, ROUGE and CIDEr are computed
on what is left, so scores can only be compared when the tokens are the same.

`rules.py` holds the rules, `lexer.py` applies them; this module adds the COCO form and
the memo that makes it fast. Behaviour worth knowing:

- Brackets survive: the tools list `-LRB-`, but the tokeniser prints `-lrb-`.
- A token can hold a no-break space (`1 1/2`, a telephone number, a tag).
- Characters that the tokeniser does not know are dropped, emoji among them.
- One caption in, one token list out, always. The Java program also ends a line at the characters
  CR, VT, FF, LS and PS; a caption that holds one comes out as several lines, and the tools then
  give every later caption the tokens of another. Here such a caption's lines stay together.
- `tokenize` cuts a caption as a line that an empty line follows, so that its tokens depend on
  nothing else. In the Java program the next caption shows through in one case, the last in the
  file in two: a closing single initial (`vitamin C.`) gives `c.`, but `c` when the next line
  begins with a word such as `The`; and at the end of the file alone `:)` and `'90` are not
  recognised. `tokenize_file` copies that too, for scores equal to the tools' to the last digit.
- Known differences, none of them met in a caption: which of the two small sigmas stands for a
  capital one beside signs or foreign letters, and letters whose small form is newer than the
  running Java's or Python's tables.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from sightwords.text.ptb.lexer import lexer, to_units

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
    units = to_units(text.replace("\n", " "))
    return list(_lexed(units + _ENDING, 0, len(units))[0])


def tokenize(caption: str) -> list[str]:
    """Cut a caption as the COCO tools do: lower-case PTB tokens without punctuation.

    >>> tokenize("A dog's ball -- red, and on the U.S. flag!")
    ['a', 'dog', "'s", 'ball', 'red', 'and', 'on', 'the', 'u.s.', 'flag']
    """
    chunks = (caption.replace("\n", " ") + "\n").split(" ")
    try:
        return list(chain.from_iterable(map(_MEMO.__getitem__, chunks)))
    except KeyError:
        return _chunk_by_chunk(caption)


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


def tokenize_file(captions: Sequence[str]) -> list[list[str]]:
    """The tokens the COCO tools give these captions when they write them into one file.

    As `tokenize_all`, except where the file itself shows through: a closing initial before
    another caption, and the end of the last one.

    >>> tokenize_file(["a letter C.", "The dog"]), tokenize_file(["a letter C.", "dogs"])
    ([['a', 'letter', 'c'], ['the', 'dog']], [['a', 'letter', 'c.'], ['dogs']])
    """
    lists = tokenize_all(captions)
    last = len(captions) - 1
    for number, caption in enumerate(captions):
        if number == last:
            lists[number] = _cut_before(caption, "")
        elif _closes_with_initial(caption):
            lists[number] = _cut_before(caption, _next_line(captions, number + 1))
    return lists


def clear_memo() -> None:
    """Forget all remembered words, for measurements and tests."""
    for table in (_MEMO, _OPEN, _AHEAD):
        table.clear()


_ENDING = "\n\n"
"""What follows every caption."""


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


def _closes_with_initial(caption: str) -> bool:
    """Does it end in a single letter and a period: `Ave S.`, `the U.S.`?"""
    end = caption[-3:] if caption.endswith(".") else caption.rstrip()[-3:]
    return end[-1:] == "." and end[-2:-1].isalpha() and not end[:-2].isalpha()


def _next_line(captions: Sequence[str], number: int) -> str:
    """What stands in the file from the end of a caption to that of the next one with text."""
    lines = [""]
    for caption in captions[number:]:
        lines.append(caption.replace("\n", " "))
        if caption.strip():
            break
    is_end = number + len(lines) - 1 == len(captions)
    return "\n".join(lines) + ("" if is_end else "\n")


def _cut_before(caption: str, following: str) -> list[str]:
    """`tokenize` for a caption with other text behind it than `_ENDING`."""
    units = to_units(caption.replace("\n", " "))
    tokens = _lexed(units + to_units(following), 0, len(units))[0]
    line = " ".join(tokens).rstrip()
    return [part for part in line.split(" ") if part and part not in PUNCTUATION]


def _without_punctuation(tokens: Iterable[str]) -> Tokens:
    return tuple(token for token in tokens if token not in PUNCTUATION)


# The memo. A caption is cut at its spaces into chunks, and the words of a chunk are remembered
# when nothing beyond it can change them. Why that is exact: the lexer keeps no state from one
# token to the next, so a token depends on the characters from its start up to the last one looked
# at, which the lexer reports. If a token starts where a chunk does, the chunk's tokens end exactly
# where it does, and nothing beyond the space behind it was looked at, then the same tokens come
# out wherever the chunk stands before a space and a token starts at it. And one does start there:
# only the rule for runs of spaces begins with a space, and it ends where the next chunk begins,
# unless that begins with a space of another kind (such chunks are left open). A caption's last
# chunk carries a line feed, which no other has; two line feeds always follow it, so its tokens
# depend on nothing else.

_OTHER_SPACES = frozenset("\t\u00a0\u3000").union(map(chr, range(0x2000, 0x200B)))
_SPLIT_WORDS = frozenset(["cannot", "gonna", "gotta", "lemme", "gimme", "wanna"])
_MOST_KEYS = 1 << 17  # two corpora of captions have 70,000; at most some 30 MB
_LONGEST_KEY = 48


class _Memo(dict[str, Tokens]):
    """Chunk -> its words, found when first asked for; a KeyError when they depend on more."""

    def __missing__(self, chunk: str) -> Tokens:
        if chunk in _OPEN:
            raise KeyError(chunk)
        words = _plain_word(chunk) or _closed_chunk(chunk)
        if words is None:
            _remember(_OPEN, chunk, None)
            raise KeyError(chunk)
        _remember(self, chunk, words)
        return words


_MEMO = _Memo()
_OPEN: dict[str, None] = {}
"""Chunks known to depend on more."""
_AHEAD: dict[str, Tokens] = {}
"""Chunk, space and the next character -> words, where one character more decides: `2 d` is not
half a fraction or a telephone number."""

Value = TypeVar("Value")


def _remember(table: dict[str, Value], key: str, value: Value) -> None:
    if len(key) > _LONGEST_KEY:
        return
    if len(table) >= _MOST_KEYS:
        table.clear()
    table[key] = value


def _plain_word(chunk: str) -> Tokens | None:
    """What `_closed_chunk` says of a chunk of ASCII letters, without the automaton.

    Most chunks are such words, and a new one costs twenty times less this way. That the automaton
    agrees, for all of them, is shown state by state in the tests.
    """
    if not (chunk.isascii() and chunk.isalpha()):
        return None
    word = chunk.lower()
    return None if word in _SPLIT_WORDS else (word,)


def _closed_chunk(chunk: str) -> Tokens | None:
    """The words of a chunk, or None where they depend on what is beyond it."""
    if chunk[:1] in _OTHER_SPACES:
        return None
    units = to_units(chunk.removesuffix("\n"))
    is_last = chunk.endswith("\n")
    tokens, at, reach = _lexed(units + (_ENDING if is_last else " "), 0, len(units))
    is_open = at > len(units) or (reach > len(units) + 1 and not is_last)
    return None if is_open or _is_awkward(tokens) else _without_punctuation(tokens)


def _is_awkward(tokens: Tokens) -> bool:
    """Are these changed when the tools read back a line of text?

    They strip its end, where an address may have an exotic space, and part it at spaces, which
    one rare rule (`face`) leaves inside a token.
    """
    return any(" " in token or token[-1].isspace() for token in tokens)


def _chunk_by_chunk(caption: str) -> list[str]:
    """`tokenize` for a caption with chunks whose tokens depend on what follows them."""
    units = to_units(caption.replace("\n", " "))
    whole, size = units + _ENDING, len(units)
    words: list[str] = []
    at = 0
    while at <= size:
        space = units.find(" ", at)
        stop = size if space < 0 else space
        try:
            words += _MEMO[whole[at : stop + (space < 0)]]
            at = stop
        except KeyError:
            found, at = _open_chunk(whole, at, stop)
            if found is None:
                return _cut_before(caption, _ENDING)
            words += found
        if at == stop:
            at += 1  # the space
            while at < size and units[at] in _OTHER_SPACES:
                at += 1
    return words


def _open_chunk(whole: str, start: int, stop: int) -> tuple[Tokens | None, int]:
    """The words from `start` to `stop` or, where a token spans spaces, further; and where that is.

    None in place of the words when they are awkward.
    """
    ahead = whole[start : stop + 2]
    known = _AHEAD.get(ahead)
    if known is not None:
        return known, stop
    tokens, at, reach = _lexed(whole, start, stop)
    if _is_awkward(tokens):
        return None, at
    words = _without_punctuation(tokens)
    if at == stop and reach <= stop + 2:
        _remember(_AHEAD, ahead, words)
    return words, at
