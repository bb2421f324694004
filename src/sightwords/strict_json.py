"""JSON that somebody else wrote, read strictly: whatever is wrong with it is a `ValueError`.

`loads` refuses what `json.loads` accepts or fails on in other ways: NaN and infinity, the same key
twice in one object, half a surrogate pair (text that cannot be printed or written), and lists that
are nested so deeply that Python's stack ends. The caller adds the file's name and chooses the error
class.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal or break a line; not allowed in texts that are printed."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")


def loads(text: str | bytes, *, finite: bool = True) -> Any:
    """The JSON value in a text; bytes must be UTF-8. Whatever is wrong is a ValueError.

    >>> loads('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> loads("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: nested too deeply
    >>> loads('{"a": NaN}')
    Traceback (most recent call last):
        ...
    ValueError: NaN is not a number
    >>> loads('{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    ValueError: the key 'a' occurs twice in one object
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    options: dict[str, Any] = {"parse_constant": _refuse_constant} if finite else {}
    try:
        value = json.loads(text, object_pairs_hook=_unique, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _SURROGATE.search(text) and not _HALF.search(text):  # unless the caller accepts halves
        _refuse_surrogates(value)
    return value


def reason_of(error: ValueError) -> str:
    """What is wrong, without the position: for texts of one line."""
    return str(getattr(error, "msg", error))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r:.60} occurs twice in one object")
    return found


def _refuse_surrogates(value: Any) -> None:
    r"""Pairs of escapes are one character; half a pair is none.

    >>> loads(r'"\ud83d\ude00"') == chr(0x1F600)
    True
    >>> loads(r'"\ud83d"')
    Traceback (most recent call last):
        ...
    ValueError: the text holds half a surrogate pair
    """
    if _HALF.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("the text holds half a surrogate pair")
