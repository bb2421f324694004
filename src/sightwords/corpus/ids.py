"""One spelling for an image's id, so that files from different tools meet.

COCO's 2014 and 2017 releases, results files and shards write the same image as `9`, `"9"`,
`"000000000009"`, `"000000000009.jpg"` and `"COCO_val2014_000000000009.jpg"`. The rule, in order:

1. an image file's ending (`.jpg`, `.png`, `.avif`, ...) is dropped;
2. `COCO_<split><year>_` in front of digits is dropped;
3. an id of digits alone loses its leading zeros.

Everything else stays as written: case, folders and inner zeros (`2008_000032`) are meaningful.
Two *different* ids of one file that become the same are ambiguous, and refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sightwords.corpus.folder import EXTENSIONS
from sightwords.errors import ScoreError

_IMAGE_SUFFIX = re.compile(rf"\.(?:{'|'.join(sorted(EXTENSIONS))})$", re.IGNORECASE)
_COCO_PREFIX = re.compile(r"^(?:.*/)?COCO_[a-z]+\d{4}_(?=\d+$)")
_DIGITS = re.compile(r"[0-9]+")


def canonical_id(raw: int | str) -> str:
    """The spelling under which results and references are matched.

    >>> [canonical_id(i) for i in (9, "9", "000000000009", "COCO_val2014_000000000009.jpg")]
    ['9', '9', '9', '9']
    >>> canonical_id("2008_000032.jpg"), canonical_id("1056338697_4f7d7ce270")
    ('2008_000032', '1056338697_4f7d7ce270')
    """
    text = _IMAGE_SUFFIX.sub("", str(raw).strip())
    text = _COCO_PREFIX.sub("", text)
    if _DIGITS.fullmatch(text):
        return text.lstrip("0") or "0"
    return text


def canonical_ids(raw_ids: Iterable[int | str], *, where: str) -> dict[str, str]:
    """Map each id as written to its canonical spelling, or refuse an ambiguous file.

    >>> canonical_ids(["000000000009", "25"], where="refs.json")
    {'000000000009': '9', '25': '25'}
    >>> canonical_ids(["9.jpg", "9.png"], where="refs.json")
    Traceback (most recent call last):
        ...
    sightwords.errors.ScoreError: refs.json: the ids '9.jpg' and '9.png' both mean image '9'; \
give each image one id
    """
    spelled: dict[str, str] = {}
    mapping: dict[str, str] = {}
    for raw in raw_ids:
        written = str(raw)
        key = canonical_id(raw)
        if spelled.setdefault(key, written) != written:
            raise ScoreError(
                f"{where}: the ids {spelled[key]!r} and {written!r} both mean image {key!r}; "
                "give each image one id"
            )
        mapping[written] = key
    return mapping
