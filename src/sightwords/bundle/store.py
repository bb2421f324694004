"""Where bundles come from: a directory, a zip or the Hugging Face hub -> a checked directory.

Every file is read and summed once, here; the stages that are loaded from it need not do it again.
A zip is unpacked into a temporary directory that is gone when the stages are loaded.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

from sightwords.bundle.manifest import MANIFEST_NAME, PARTS, File, Manifest, parse_manifest
from sightwords.bundle.parts import DEFAULT_BUNDLE, Bundle
from sightwords.errors import BundleError, require
from sightwords.files import DAMAGED_ZIP

HUB_PREFIX = "hf://"
MANIFEST_LIMIT_BYTES = 16 << 20

Source = str | os.PathLike[str]


@contextmanager
def open_bundle(source: Source | None = None) -> Iterator[Bundle]:
    """Open and verify a bundle, the one inside the package if none is named.

    `source` is a directory, a zip, or `hf://OWNER/NAME[@REVISION]`. The stages must be loaded
    inside the `with`; they hold no file open and outlive it.
    """
    text = os.fspath(DEFAULT_BUNDLE if source is None else source)
    if text.startswith(HUB_PREFIX):
        yield _checked(_from_hub(text), text)
    elif Path(text).is_dir():
        yield _checked(Path(text), text)
    elif Path(text).is_file():
        with tempfile.TemporaryDirectory(prefix="sightwords-") as folder:
            unzip(Path(text), Path(folder))
            yield _checked(Path(folder), text)
    else:
        raise BundleError(
            f"{text}: no such directory or file; give a bundle directory, a zip of one, or "
            f"{HUB_PREFIX}OWNER/NAME"
        )


def read_manifest(directory: Path, *, where: str | None = None) -> Manifest:
    """The manifest of a bundle directory; the files beside it are not looked at."""
    name = where or str(directory)
    try:
        text = (directory / MANIFEST_NAME).read_bytes()
    except FileNotFoundError as error:
        raise BundleError(
            f"{name}: holds no {MANIFEST_NAME}, so it is no bundle; if all parts are there, write "
            f"one with: sightwords bundle seal {name}"
        ) from error
    except OSError as error:
        raise BundleError(
            f"{name}: its {MANIFEST_NAME} cannot be read ({error.strerror}); check its permissions"
        ) from error
    return parse_manifest(text, where=name)


def verify(directory: Path, manifest: Manifest, *, where: str) -> None:
    """Compare every file with its sum; refuse files of a stage that the manifest does not list."""
    for path in files_of(directory):
        if path not in manifest.files and path.split("/")[0] in PARTS:
            raise BundleError(
                f"{where}: bundle {manifest.name!r} holds {path}, which its {MANIFEST_NAME} does "
                f"not list; take it out, or, if it is yours, run: sightwords bundle seal {where}"
            )
    # hashlib lets go of Python's lock, so the large files are summed side by side.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = pool.map(lambda path: sum_of(directory / path, where), manifest.files)
        for (path, expected), file in zip(manifest.files.items(), found, strict=True):
            if file != expected:
                raise _changed(path, file, expected, manifest, where)


def files_of(directory: Path) -> list[str]:
    """Every file below a directory but hidden ones, with slashes, sorted; no `bundle.json`."""
    found = []
    for path in directory.rglob("*"):
        inside = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            found.append(inside.as_posix())
    return sorted(path for path in found if path != MANIFEST_NAME)


def sum_of(path: Path, where: str) -> File:
    """SHA-256 sum and size of a file."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise BundleError(
            f"{where}: {path.name} of the bundle cannot be read ({error.strerror}: {path}); "
            "fetch the bundle again"
        ) from error
    return File(digest.hexdigest(), size)


def unzip(archive: Path, folder: Path) -> None:
    """Unpack the files that the manifest inside a zip lists, no others and no larger."""
    try:
        with zipfile.ZipFile(archive) as stored:
            root = _root_of(stored, archive)
            text = _read(stored, root + MANIFEST_NAME, MANIFEST_LIMIT_BYTES, archive)
            manifest = parse_manifest(text, where=str(archive))
            (folder / MANIFEST_NAME).write_bytes(text)
            for path, file in manifest.files.items():
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(_read(stored, root + path, file.size_bytes, archive))
    except (*DAMAGED_ZIP, NotImplementedError, RuntimeError) as error:
        raise BundleError(
            f"{archive}: is not a whole zip ({error}); fetch it again, or give a directory"
        ) from error


def _checked(directory: Path, where: str) -> Bundle:
    manifest = read_manifest(directory, where=where)
    verify(directory, manifest, where=where)
    return Bundle(directory, manifest, where)


def _changed(path: str, found: File, expected: File, manifest: Manifest, where: str) -> BundleError:
    what = (
        f"is {found.size_bytes} bytes long, {MANIFEST_NAME} says {expected.size_bytes}"
        if found.size_bytes != expected.size_bytes
        else f"has the SHA-256 sum {found.sha256[:12]}..., {MANIFEST_NAME} says "
        f"{expected.sha256[:12]}..."
    )
    return BundleError(
        f"{where}: bundle {manifest.name!r} is damaged or was changed: {path} {what}; fetch the "
        f"bundle again, or, if the change is yours, run: sightwords bundle seal {where}"
    )


def _root_of(stored: zipfile.ZipFile, archive: Path) -> str:
    """The folder inside the zip that the bundle stands in: none, or one, as zip tools make it."""
    names = [name for name in stored.namelist() if name.split("/")[-1] == MANIFEST_NAME]
    shallow = [name for name in names if name.count("/") <= 1]
    if len(shallow) != 1:
        raise BundleError(
            f"{archive}: holds {len(shallow)} files {MANIFEST_NAME} at its top; expected one: make "
            "it with: sightwords bundle pack DIRECTORY FILE.zip"
        )
    return shallow[0].removesuffix(MANIFEST_NAME)


def _read(stored: zipfile.ZipFile, name: str, limit: int, archive: Path) -> bytes:
    """One member, never more than a little over `limit` bytes, whatever the zip claims."""
    try:
        with stored.open(name) as stream:
            return stream.read(limit + 1)
    except KeyError as error:
        raise BundleError(
            f"{archive}: lacks {name}, which its {MANIFEST_NAME} lists; fetch it again"
        ) from error


def _from_hub(address: str) -> Path:
    """Fetch `hf://OWNER/NAME[@REVISION]` into the hub's cache: the listed files only."""
    hub = require("huggingface_hub", extra="hf", purpose=f"loading {address}")
    name, _, revision = address.removeprefix(HUB_PREFIX).strip("/").partition("@")
    if name.count("/") != 1:
        raise BundleError(f"{address}: expected {HUB_PREFIX}OWNER/NAME or .../NAME@REVISION")
    options: Mapping[str, str] = {"revision": revision} if revision else {}
    try:
        first = hub.hf_hub_download(name, MANIFEST_NAME, **options)
        manifest = parse_manifest(Path(first).read_bytes(), where=address)
        wanted = [MANIFEST_NAME, *manifest.files]
        return Path(hub.snapshot_download(name, allow_patterns=wanted, **options))
    except BundleError:
        raise
    except Exception as error:  # the hub's errors, requests' and the file system's
        reason = shorten(str(error), 160, placeholder=" ...")
        raise BundleError(
            f"{address}: cannot be fetched ({type(error).__name__}: {reason}); check the name and "
            "the network, or download it and give the local path"
        ) from error
