"""What the PTB tokeniser prints for the text that a rule matched."""

from __future__ import annotations

import re
from collections.abc import Callable

Action = Callable[[str], "tuple[str | None, int]"]
"""The matched text -> the token (None: no token) and how many of its characters are used up."""


def keep(match: str) -> tuple[str | None, int]:
    """The token is the text itself."""
    return match, len(match)


def drop(match: str) -> tuple[str | None, int]:
    """No token: spaces and what the tokeniser does not know."""
    return None, len(match)


def printed(token: str) -> Action:
    """Always the same token."""
    return lambda match: (token, len(match))


def cut(count: int) -> Action:
    """The last characters are left for the next token: `can` of `cannot`."""
    return lambda match: (match[:-count], len(match) - count)


def keep_and_end(match: str) -> tuple[str | None, int]:
    """An abbreviation at a sentence's end: its full stop serves a second time, as a token."""
    return match, len(match) - 1


def end_after_initials(match: str) -> tuple[str | None, int]:
    """`U.S.` keeps its stop and ends the sentence; a lone letter such as `I.` only ends it."""
    return (match[0], 1) if len(match) == 2 else keep_and_end(match)


def without_soft_hyphens(match: str) -> tuple[str | None, int]:
    """Soft hyphens only mark where a line may break; a token of nothing else becomes `-`."""
    return match.replace("\u00ad", "") or "-", len(match)


def joined(match: str) -> tuple[str | None, int]:
    """Spaces inside a token become no-break spaces, since spaces separate tokens."""
    return match.replace(" ", "\u00a0"), len(match)


def bracketed(match: str) -> tuple[str | None, int]:
    """Parentheses get the treebank's names."""
    return match.replace("(", "-LRB-").replace(")", "-RRB-"), len(match)


def joined_and_bracketed(match: str) -> tuple[str | None, int]:
    """Both, for telephone numbers."""
    return bracketed(match.replace(" ", "\u00a0"))[0], len(match)


def ampersand(match: str) -> tuple[str | None, int]:
    """The entity `&amp;` becomes the sign."""
    return _AMP.sub("&", match), len(match)


_AMP = re.compile("&amp;", re.IGNORECASE | re.ASCII)


def dashes(match: str) -> tuple[str | None, int]:
    """Three or four hyphens are a dash."""
    return ("--" if len(match) in (3, 4) else match), len(match)


def spelled(signs: dict[str, str]) -> Action:
    """Single characters replaced by their treebank spelling."""
    table = str.maketrans(signs)
    return lambda match: (match.translate(table), len(match))


def quotes(single: str) -> Action:
    """Quotation marks in TeX's manner; `single` is what a straight apostrophe turns into."""
    table = str.maketrans(
        {"'": single, '"': single * 2}
        | dict.fromkeys("\u0091\u2018\u201b\u2039", "`")
        | dict.fromkeys("\u0092\u2019\u203a", "'")
        | dict.fromkeys("\u0093\u201c\u00ab", "``")
        | dict.fromkeys("\u0094\u201d\u00bb", "''")
    )

    def action(match: str) -> tuple[str | None, int]:
        plain = match.replace("&apos;", "'").replace("&quot;", '"')
        return plain.translate(table), len(match)

    return action


opening, closing = quotes("`"), quotes("'")
currency = spelled({"¢": "cents", "£": "#"} | dict.fromkeys("\u0080\u00a4\u20a0\u20ac", "$"))
fraction = spelled({"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"})
