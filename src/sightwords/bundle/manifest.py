"""`bundle.json`: what a bundle is, and the SHA-256 sum of every file in it.

A bundle directory holds

    bundle.json           this module
    words/                section 3: network, vocabulary, calibration
    language/             section 4: the maximum entropy language model
    rerank/               section 5: weights of MERT, and the confidence model
    dmsm/                 section 5.1, optional
    grounded/             a second language model that sees the image, optional
    config.resolved.toml  every setting that made it

Only JSON, TOML, ONNX, NumPy archives without objects, and text: nothing that can carry code. A
file of any other kind is refused, so no pickle is ever opened. The limits of a bundle are set here,
not by the bundle.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from sightwords._version import __version__
from sightwords.errors import BundleError
from sightwords.files import write_text
from sightwords.json_reader import LARGEST_BYTES as LARGEST_JSON_BYTES
from sightwords.sealed import BUNDLE_FORMAT, BUNDLE_NAME, LARGEST_BYTES, File
from sightwords.strict_json import CONTROL, loads

FORMAT = BUNDLE_FORMAT
MANIFEST_NAME = BUNDLE_NAME
VERSION = 1
"""The newest format this version reads, and the one it writes."""

PARTS = ("words", "language", "rerank", "dmsm", "grounded")
NEEDED = ("words", "language", "rerank")
ENDINGS = frozenset((".json", ".toml", ".onnx", ".npz", ".txt", ".md"))
"""Kinds of file a bundle may hold; none of them is executed or unpickled."""

LARGEST_BUNDLE_BYTES = 2 << 30
"""Of all files together; twice the largest file."""
LARGEST_TEXT_BYTES = 1 << 20
"""Of what people read: TOML, Markdown, licences."""
MOST_FILES = 1000
LONGEST_PATH = 200
LONGEST_TEXT = 500
"""Of a name or a licence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of `bundle.json`."""

    name: str
    licence: str
    files: Mapping[str, File]
    """Path inside the bundle, with slashes -> its sum and size; sorted by path."""
    sightwords: str = __version__
    """The version that wrote it."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from: data, commands, dates; free in form."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """Its scores by data set and metric; free in form."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The stages it holds, in the order of `PARTS`."""
        held = {PurePosixPath(path).parts[0] for path in self.files if "/" in path}
        return tuple(part for part in PARTS if part in held)

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(file.size_bytes for file in self.files.values())

    @property
    def fingerprint(self) -> str:
        """A sum over all sums: two bundles with the same fingerprint write the same captions."""
        lines = (f"{file.sha256}  {path}\n" for path, file in sorted(self.files.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of `bundle.json`."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    def save(self, directory: Path) -> None:
        """Write `bundle.json`."""
        write_text(directory / MANIFEST_NAME, self.to_json())


def parse_manifest(text: str | bytes, *, where: str) -> Manifest:
    """Read and check the content of a `bundle.json`; `where` names the bundle in errors."""
    try:
        document = loads(text)
    except ValueError as error:  # bad UTF-8 and bad JSON alike
        raise BundleError(
            f"{where}: its {MANIFEST_NAME} is not JSON ({error}); fetch the bundle again"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BundleError(
            f"{where}: its {MANIFEST_NAME} is not of format {FORMAT!r}; give a bundle that "
            "sightwords has written"
        )
    _refuse_other_versions(document, where)
    files = {
        _safe(path, where): _file(entry, path, where)
        for path, entry in sorted(_take(document, "files", dict, where).items())
    }
    manifest = Manifest(
        name=_take(document, "name", str, where),
        licence=_take(document, "licence", str, where),
        sightwords=_take(document, "sightwords", str, where),
        provenance=_take(document, "provenance", dict, where),
        scores=_take(document, "scores", dict, where),
        files=files,
    )
    refuse_sizes(files, where)
    missing = [part for part in NEEDED if part not in manifest.parts]
    if missing:
        raise BundleError(
            f"{where}: bundle {manifest.name!r} lists no files under {missing[0]}/; a bundle holds "
            f"at least {', '.join(NEEDED)}"
        )
    return manifest


def _refuse_other_versions(document: Mapping[str, Any], where: str) -> None:
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise BundleError(f"{where}: version is {version!r:.60}; expected a whole number from 1")
    if version > VERSION:
        raise BundleError(
            f"{where}: bundle {document.get('name')!r:.60} is of format {version}, written by "
            f"sightwords {document.get('sightwords')!s:.20}; this is sightwords {__version__}, "
            f"which reads up to format {VERSION}; upgrade with: pip install --upgrade sightwords"
        )


def _take(document: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = document.get(key)
    if type(value) is not kind:
        raise BundleError(
            f"{where}: its {MANIFEST_NAME} has {value!r:.60} under {key!r}; expected "
            f"{'an object' if kind is dict else 'text'}: fetch the bundle again"
        )
    if isinstance(value, str) and (CONTROL.search(value) or len(value) > LONGEST_TEXT):
        raise BundleError(
            f"{where}: its {MANIFEST_NAME} has {value!r:.60} under {key!r}; expected text of one "
            f"line, up to {LONGEST_TEXT} characters, without control characters"
        )
    return value


def _file(entry: Any, path: str, where: str) -> File:
    if (file := File.parse(entry)) is not None:
        return file
    raise BundleError(
        f"{where}: its {MANIFEST_NAME} has {entry!r:.80} for {path!r:.80}; expected a sha256 of 64 "
        "digits and a size_bytes: fetch the bundle again"
    )


def _safe(path: str, where: str) -> str:
    """A relative path that stays inside the bundle, of a kind a bundle may hold."""
    parts = path.split("/")
    odd = not path.isprintable() or len(path) > LONGEST_PATH or "\\" in path or ":" in path
    if odd or not all(parts) or {".", ".."} & set(parts):
        raise BundleError(
            f"{where}: its {MANIFEST_NAME} lists {path!r:.80}, which may lie outside the bundle; "
            "do not use this bundle"
        )
    refuse_kind(path, where)
    return path


def refuse_sizes(files: Mapping[str, File], where: str) -> None:
    """Refuse more or larger files than a real bundle has, and names that some systems mix up."""
    for path, file in files.items():
        if file.size_bytes > largest_bytes(path):
            raise BundleError(
                f"{where}: {path} has {file.size_bytes:,} bytes; a file of this kind may have "
                f"{largest_bytes(path):,}"
            )
    total = sum(file.size_bytes for file in files.values())
    if total > LARGEST_BUNDLE_BYTES or len(files) > MOST_FILES:
        raise BundleError(
            f"{where}: holds {len(files):,} files of {total:,} bytes; a bundle may hold "
            f"{MOST_FILES:,} of {LARGEST_BUNDLE_BYTES:,} bytes"
        )
    refuse_alike((MANIFEST_NAME, *files), where)


def refuse_alike(paths: Iterable[str], where: str) -> None:
    """Refuse names that some systems mix up, and a name that is both a file and a folder."""
    seen: dict[str, str] = {}
    for path in paths:
        alike = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        if (other := seen.setdefault(alike, path)) != path:
            raise BundleError(
                f"{where}: holds {other} and {path}, which are one file on some systems; rename one"
            )
    for alike, path in seen.items():
        for folder in PurePosixPath(alike).parents:
            if str(folder) in seen:
                raise BundleError(
                    f"{where}: holds {path} below {seen[str(folder)]}, which is a file; rename one"
                )


def largest_bytes(path: str) -> int:
    """What a file may have, by its kind.

    >>> largest_bytes("words/network.onnx") > largest_bytes("words/vocabulary.json")
    True
    """
    suffix = PurePosixPath(path).suffix
    if suffix in (".onnx", ".npz"):
        return LARGEST_BYTES
    return LARGEST_JSON_BYTES if suffix == ".json" else LARGEST_TEXT_BYTES


def refuse_kind(path: str, where: str) -> None:
    """Refuse a file that is not plain data.

    >>> refuse_kind("words/network.pt", "mine")
    Traceback (most recent call last):
        ...
    sightwords.errors.BundleError: mine: holds words/network.pt; a bundle holds plain data only \
(.json, .md, .npz, .onnx, .toml, .txt), never pickles: take it out
    """
    name = PurePosixPath(path)
    if name.suffix not in ENDINGS and name.name != "LICENSE":
        raise BundleError(
            f"{where}: holds {path}; a bundle holds plain data only "
            f"({', '.join(sorted(ENDINGS))}), never pickles: take it out"
        )
