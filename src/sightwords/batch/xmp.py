"""Captions as metadata: XMP sidecars, and XMP embedded in photographs (extra `xmp`).

    dc:description                      the caption
    dc:subject                          the detected words that it uses, added to those there
    Iptc4xmpCore:AltTextAccessibility   the caption as a sentence, for screen readers

Exiv2 does the writing, through pyexiv2: it changes these properties and leaves the pixels and all
other metadata as they are. Files are changed as copies that take the old one's place when whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightwords.errors import require
from sightwords.files import atomic_path
from sightwords.text.written import as_sentence

DESCRIPTION = "Xmp.dc.description"
SUBJECT = "Xmp.dc.subject"
ALT_TEXT = "Xmp.iptc.AltTextAccessibility"
IPTC_CAPTION = "Iptc.Application2.Caption"
_DEFAULT_LANGUAGE = 'lang="x-default"'

_EMPTY = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/">'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>'
    '</x:xmpmeta>\n<?xpacket end="w"?>\n'
)


def write_xmp(target: Path, caption: str, words: Sequence[str], *, keep: bool) -> str | None:
    """Write a sidecar, or change the one that is there; what is wrong, if anything is.

    `keep` forbids to replace a description that says something else.
    """
    return _write(target if target.exists() else None, target, caption, words, keep=keep)


def embed(
    photograph: Path,
    target: Path,
    caption: str,
    words: Sequence[str],
    *,
    keep: bool,
    anew: bool = False,
) -> str | None:
    """Write `target` as the photograph with its caption inside; both may be one file.

    A copy that is there already is changed itself, unless it is to be made `anew`.
    """
    given = target if target.exists() and not anew else photograph
    return _write(given, target.resolve(), caption, words, keep=keep)


def description_of(path: Path) -> str | None:
    """The description that a photograph or sidecar has already; None where it has none.

    An alt text counts as one, and so does an IPTC caption, which readers show only where XMP has
    none. EXIF's ImageDescription does not: cameras fill it in.
    """
    return next(iter(_descriptions(path)), None)


def _descriptions(path: Path) -> list[str]:
    try:
        with _opened(path) if _is_utf8(path) else _read(path) as file:
            xmp = file.read_xmp()
            iptc = file.read_iptc("latin-1")  # any bytes, UTF-8 or not
    except RuntimeError:  # Exiv2 knows no such format: nothing can be written into it either
        return []
    found = (xmp.get(DESCRIPTION), xmp.get(ALT_TEXT), iptc.get(IPTC_CAPTION))
    return [text for text in map(_text, found) if text is not None]


def _write(
    given: Path | None, target: Path, caption: str, words: Sequence[str], *, keep: bool
) -> str | None:
    before = _descriptions(given) if given else []
    if keep and any(description not in (caption, as_sentence(caption)) for description in before):
        return (
            f"{given}: has a description already and was left as it is; replace it with "
            "--overwrite always"
        )
    try:
        with atomic_path(target) as temporary:
            if given is None:
                temporary.write_text(_EMPTY, encoding="utf-8")
            else:
                shutil.copyfile(given, temporary)
            _modify(temporary, caption, words)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        return f"{given or target}: XMP cannot be written into it ({reason}); use --format xmp"
    return None


def _modify(path: Path, caption: str, words: Sequence[str]) -> None:
    if not _is_utf8(path):
        raise RuntimeError("it lies in a folder whose name is not UTF-8")
    with _opened(path) as file:
        before = file.read_xmp()
        described = {
            DESCRIPTION: _said(before.get(DESCRIPTION), caption),
            ALT_TEXT: _said(before.get(ALT_TEXT), as_sentence(caption)),
        }
        subject = before.get(SUBJECT) or []
        listed = [subject] if isinstance(subject, str) else subject
        file.modify_xmp({**described, SUBJECT: list(dict.fromkeys([*listed, *words]))})
    with _opened(path) as file:
        # dc:subject is a bag, unordered, in the standard; pyexiv2 writes all lists as sequences.
        bag = r"\1<rdf:Bag>\2</rdf:Bag>"
        packet = file.read_raw_xmp()
        mended = re.sub(r"(<dc:subject>\s*)<rdf:Seq>(.*?)</rdf:Seq>", bag, packet, flags=re.DOTALL)
        file.modify_raw_xmp(mended)


def _said(before: object, caption: str) -> dict[str, str]:
    """The caption as the default; what is there in other languages stays."""
    others = before if isinstance(before, dict) else {}
    return {
        _DEFAULT_LANGUAGE: caption,
        **{k: v for k, v in others.items() if k != _DEFAULT_LANGUAGE},
    }


def _text(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get(_DEFAULT_LANGUAGE) or next(iter(value.values()), None)
    return value if isinstance(value, str) and value.strip() else None


def require_exiv2() -> Any:
    """Pyexiv2, or the command that installs it."""
    return require("pyexiv2", extra="xmp", purpose="writing XMP")


def _opened(path: Path) -> Any:
    return _quiet().Image(str(path))


def _read(path: Path) -> Any:
    """The same, to read only: pyexiv2 opens no file by a name that is not UTF-8."""
    return _quiet().ImageData(path.read_bytes())


def _quiet() -> Any:
    pyexiv2 = require_exiv2()
    pyexiv2.set_log_level(4)  # what goes wrong is raised; nothing is printed
    return pyexiv2


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
