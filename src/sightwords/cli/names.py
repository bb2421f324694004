"""Photographs' names on stdout: Linux lets a name be any bytes, and hold a line break."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping


def let_any_name_out() -> None:
    """Names that are no text go out as the bytes that came in."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def json_line(record: Mapping[str, object], name: str) -> str:
    r"""A record as JSON in UTF-8; where the name is no text, its bytes are escaped.

    >>> json_line({"image": "é.jpg"}, "é.jpg"), json_line({"image": "\udce9"}, "\udce9")
    ('{"image": "é.jpg"}', '{"image": "\\udce9"}')
    """
    odd = any("\ud800" <= letter <= "\udfff" for letter in name)
    return json.dumps(record, ensure_ascii=odd)
