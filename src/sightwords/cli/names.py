"""Photographs' names on stdout: Linux lets a name be any bytes, and hold a line break."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping


def let_any_name_out() -> None:
    """Names that are no text go out as the bytes that came in."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def on_one_line(name: str) -> str:
    r"""A name for a line of its own: line breaks and other control characters are escaped.

    >>> on_one_line("my cat.jpg"), on_one_line("my\ncat.jpg")
    ('my cat.jpg', 'my\\ncat.jpg')
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda c: repr(c.group())[1:-1], name)


def json_line(record: Mapping[str, object], name: str) -> str:
    r"""A record as JSON in UTF-8; where the name is no text, its bytes are escaped.

    >>> json_line({"image": "é.jpg"}, "é.jpg"), json_line({"image": "\udce9"}, "\udce9")
    ('{"image": "é.jpg"}', '{"image": "\\udce9"}')
    """
    odd = any("\ud800" <= letter <= "\udfff" for letter in name)
    return json.dumps(record, ensure_ascii=odd)
