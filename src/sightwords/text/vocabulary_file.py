"""A vocabulary as a file: UTF-8 JSON, one word per line, the same bytes for the same vocabulary."""

from __future__ import annotations

import json
import os
from typing import Any

from sightwords.errors import VocabularyError
from sightwords.files import write_text
from sightwords.json_reader import LARGEST_BYTES
from sightwords.sealed import Sealed, read_bytes
from sightwords.strict_json import CONTROL, loads
from sightwords.text.ptb import TOKENIZER
from sightwords.text.vocabulary import CLOSED_CLASS, Vocabulary

FORMAT = "sightwords-vocabulary"
VERSION = 1
LONGEST_WORD = 1000


def save_vocabulary(vocabulary: Vocabulary, path: str | os.PathLike[str]) -> None:
    """Write the vocabulary; an existing file is replaced whole or not at all."""
    write_text(path, to_json(vocabulary))


def load_vocabulary(path: str | os.PathLike[str] | Sealed) -> Vocabulary:
    """Read what `save_vocabulary` wrote."""
    try:
        text = read_bytes(path, limit=LARGEST_BYTES).decode("utf-8")
    except OSError as error:
        raise VocabularyError(
            f"{path}: cannot be read ({error.strerror}); check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{path}: not UTF-8 text; give a vocabulary file") from error
    return from_json(text, name=str(path))


def to_json(vocabulary: Vocabulary) -> str:
    """The file's text.

    >>> print(to_json(Vocabulary(("a", "dog"), (2, 1), 3, ("DT", "NN"))), end="")
    {
      "format": "sightwords-vocabulary",
      "version": 1,
      "tokenizer": "ptb-coco",
      "total_tokens": 3,
      "words": [
        ["a", 2, "DT"],
        ["dog", 1, "NN"]
      ]
    }
    """
    rows: list[list[object]] = [
        [word, count] for word, count in zip(vocabulary.words, vocabulary.counts, strict=True)
    ]
    for row, tag in zip(rows, vocabulary.pos or (), strict=False):
        row.append(tag)
    lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return (
        f'{{\n  "format": "{FORMAT}",\n  "version": {VERSION},\n  "tokenizer": "{TOKENIZER}",\n'
        f'  "total_tokens": {vocabulary.total_tokens},\n{_language(vocabulary)}'
        f'  "words": [\n{lines}\n  ]\n}}\n'
    )


def _language(vocabulary: Vocabulary) -> str:
    """What differs from lower-case English, one key per line."""
    keys: dict[str, object] = {}
    if vocabulary.closed_class != CLOSED_CLASS:
        keys["closed_class"] = vocabulary.closed_class
    if vocabulary.written:
        keys["written"] = dict(sorted(vocabulary.written.items()))
    return "".join(
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},\n"
        for key, value in keys.items()
    )


def from_json(text: str, *, name: str = "<text>") -> Vocabulary:
    """The vocabulary in a file's text; `name` is what messages call the file."""
    try:
        content = loads(text)
    except ValueError as error:
        raise VocabularyError(f"{name}: not JSON ({error}); give a vocabulary file") from error
    _check_header(content, name)
    rows = content.get("words")
    total = content.get("total_tokens")
    if not isinstance(rows, list) or not _is_count(total):
        raise VocabularyError(
            f"{name}: no list 'words' or no number 'total_tokens'; build the vocabulary again"
        )
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    if not widths <= {2} and not widths <= {3}:
        raise VocabularyError(
            f"{name}: words of mixed or unknown shape; expected [word, count] or "
            "[word, count, part of speech], the same for all"
        )
    for row in rows:
        tagged = len(row) == 2 or isinstance(row[2], str)
        if not (isinstance(row[0], str) and _is_count(row[1]) and tagged):
            raise VocabularyError(
                f"{name}: {row!r:.80}; expected [word, count] or [word, count, tag]"
            )
    pos = tuple(row[2] for row in rows) if widths == {3} else None
    closed, written = content.get("closed_class", CLOSED_CLASS), content.get("written", {})
    if (
        not isinstance(closed, list | tuple)
        or not isinstance(written, dict)
        or not all(isinstance(word, str) for word in (*closed, *written.values()))
    ):
        raise VocabularyError(
            f"{name}: 'closed_class' is not a list of words, or 'written' not an object of words; "
            "build the vocabulary again"
        )
    _refuse_control([*(row[0] for row in rows), *closed, *written, *written.values()], name)
    try:
        return Vocabulary(
            tuple(r[0] for r in rows), tuple(r[1] for r in rows), total, pos, tuple(closed), written
        )
    except VocabularyError as error:
        raise VocabularyError(f"{name}: {error}") from error


def _check_header(content: Any, name: str) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise VocabularyError(
            f"{name}: not a vocabulary file (no format {FORMAT!r}); give one that sightwords wrote"
        )
    for key, expected in (("version", VERSION), ("tokenizer", TOKENIZER)):
        if content.get(key) != expected:
            raise VocabularyError(
                f"{name}: {key} {content.get(key)!r:.60}, but sightwords reads {expected!r}; "
                "build the vocabulary again, or use the version that wrote it"
            )


def _refuse_control(words: list[str], name: str) -> None:
    """Words are printed and written everywhere: no line ends or control characters."""
    for word in words:
        if len(word) > LONGEST_WORD or CONTROL.search(word):
            raise VocabularyError(
                f"{name}: {word!r:.60} is not a word; expected up to {LONGEST_WORD} letters "
                "without control characters"
            )


def _is_count(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 62
