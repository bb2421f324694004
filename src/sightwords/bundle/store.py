"""Where bundles come from: a directory, a zip or the Hugging Face hub -> a checked directory.

The directory must hold the files that `bundle.json` lists, in their sizes, and no others. Each file
is compared with its sum when it is read (`sealed`), or by `Bundle.verify`. A zip is unpacked into a
temporary directory that is gone when the stages are loaded. Sizes are bounded before anything is
read, unpacked or fetched.
"""

from __future__ import annotations

import glob
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import IO

from sightwords.bundle.manifest import (
    LARGEST_BUNDLE_BYTES,
    MANIFEST_NAME,
    MOST_FILES,
    Manifest,
    parse_manifest,
)
from sightwords.bundle.parts import DEFAULT_BUNDLE, Bundle
from sightwords.errors import BundleError, require
from sightwords.files import DAMAGED_ZIP
from sightwords.npz import ENTRY, refuse_bomb, refuse_entries
from sightwords.sealed import (
    LARGEST_MANIFEST_BYTES,
    File,
    open_regular,
    read_bytes,
    unreadable,
)

HUB_PREFIX = "hf://"
LEFT_BY_FILE_MANAGERS = frozenset((".DS_Store", "Thumbs.db", "desktop.ini"))
LEFT_BY_GIT = frozenset((".git", ".gitattributes", ".gitignore"))

Source = str | os.PathLike[str]


@contextmanager
def open_bundle(source: Source | None = None) -> Iterator[Bundle]:
    """Open a bundle, the one inside the package if none is named.

    `source` is a directory, a zip, or `hf://OWNER/NAME[@REVISION]`. The stages must be loaded
    inside the `with`; they hold no file open and outlive it. What they read is compared with its
    sum; `Bundle.verify` compares all files.
    """
    text = os.fspath(DEFAULT_BUNDLE if source is None else source)
    if text.startswith(HUB_PREFIX):
        yield _checked(_from_hub(text), text, strict=False)
    elif Path(text).is_dir():
        yield _checked(Path(text), text)
    elif Path(text).is_file():
        with tempfile.TemporaryDirectory(prefix="sightwords-") as folder:
            unzip(Path(text), Path(folder))
            yield _checked(Path(folder), text)
    else:
        raise BundleError(
            f"{printable(text)}: no such directory or file; give a bundle directory, a zip of "
            f"one, or {HUB_PREFIX}OWNER/NAME"
        )


def read_manifest(directory: Path, *, where: str | None = None) -> Manifest:
    """The manifest of a bundle directory; the files beside it are not looked at."""
    name = where or str(directory)
    try:
        text = read_bytes(directory / MANIFEST_NAME, limit=LARGEST_MANIFEST_BYTES)
    except FileNotFoundError as error:
        raise BundleError(
            f"{name}: holds no {MANIFEST_NAME}, so it is not a bundle; if all parts are there, "
            f"write one with: sightwords bundle seal {name}"
        ) from error
    except OSError as error:
        raise BundleError(
            f"{name}: its {MANIFEST_NAME} cannot be read ({error.strerror}); check the file"
        ) from error
    return parse_manifest(text, where=name)


def refuse_unlisted(directory: Path, manifest: Manifest, *, where: str) -> None:
    """Refuse what lies in a bundle's directory and has no sum, hidden files included."""
    for path in files_of(directory, where):
        if path not in manifest.files:
            raise BundleError(
                f"{where}: bundle {manifest.name!r} holds {path}, which its {MANIFEST_NAME} does "
                f"not list; delete it, or, if it belongs there, run: sightwords bundle seal {where}"
            )


def files_of(directory: Path, where: str) -> list[str]:
    """Every file below a directory but `bundle.json`, with slashes, sorted.

    Hidden files count. Links, pipes, sockets and devices are refused: what they lead to is not in
    the bundle. Files left by file managers and git are ignored: only listed files are ever loaded.
    """
    found: list[str] = []
    folders = [directory]
    while folders:
        folder = folders.pop()
        for entry in _entries(folder, where):
            inside = Path(entry.path).relative_to(directory).as_posix()
            if entry.name in LEFT_BY_FILE_MANAGERS or inside in LEFT_BY_GIT:
                continue
            if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
                what = "a link" if entry.is_symlink() else "not a regular file"
                raise BundleError(
                    f"{where}: {printable(inside)} is {what}; a bundle holds regular files only: "
                    "delete it, or put the file itself there"
                )
            if entry.is_dir():
                folders.append(Path(entry.path))
            else:
                found.append(inside)
            if len(found) + len(folders) > MOST_FILES:
                raise BundleError(
                    f"{where}: holds over {MOST_FILES:,} files; check that it is a bundle"
                )
    return sorted(path for path in found if path != MANIFEST_NAME)


def _entries(folder: Path, where: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise BundleError(
            f"{where}: {folder.name}/ cannot be read ({error.strerror}); check its permissions"
        ) from error


def printable(path: str) -> str:
    """A path for a message: as it is, or with what would disturb a terminal escaped."""
    return path if path.isprintable() else repr(path)


def unzip(archive: Path, folder: Path) -> None:
    """Unpack the files that the manifest inside a zip lists, no others and no larger."""
    try:
        refuse_entries(_count_entries(archive), most=MOST_FILES)
        with zipfile.ZipFile(archive) as stored:
            # Some zips hold other things beside; each listed file counts once.
            refuse_bomb(stored.infolist(), archive.stat().st_size, most=MOST_FILES)
            root = _root_of(stored, archive)
            text = _read(stored, root + MANIFEST_NAME, LARGEST_MANIFEST_BYTES, archive)
            manifest = parse_manifest(text, where=str(archive))
            (folder / MANIFEST_NAME).write_bytes(text)
            for path, file in manifest.files.items():
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                _unpack(stored, root + path, target, file.size_bytes, archive)
    except (*DAMAGED_ZIP, NotImplementedError, RuntimeError, struct.error) as error:
        raise BundleError(
            f"{archive}: is not a complete zip ({error}); fetch it again, or give a directory"
        ) from error


def _count_entries(archive: Path) -> int:
    """How often the mark of a member occurs in a zip, read piece by piece."""
    count, end = 0, b""
    try:
        with open_regular(archive, limit=LARGEST_BUNDLE_BYTES) as stream:
            while piece := stream.read(1 << 20):
                count += (end + piece).count(ENTRY)
                end = piece[-len(ENTRY) + 1 :]
    except OSError as error:
        raise BundleError(
            f"{archive}: cannot be read ({error.strerror}); check the file"
        ) from error
    return count


def _checked(directory: Path, where: str, *, strict: bool = True) -> Bundle:
    """`strict` is for directories that hold a bundle and nothing else; not for the hub's cache."""
    manifest = read_manifest(directory, where=where)
    if strict:
        refuse_unlisted(directory, manifest, where=where)
    bundle = Bundle(directory, manifest, where)
    for path, expected in manifest.files.items():
        try:
            size = (directory / path).stat().st_size
        except OSError as error:
            raise unreadable(bundle.files / path, error) from error
        refuse_other_size(bundle, path, size, expected)
    return bundle


def refuse_other_size(bundle: Bundle, path: str, size: int, expected: File) -> None:
    """Refuse a file of another size, before anything is read."""
    if size != expected.size_bytes:
        raise (bundle.files / path).changed(File("", size).difference(expected))


def _root_of(stored: zipfile.ZipFile, archive: Path) -> str:
    """The folder of the bundle inside the zip: the top, or one folder, as zip tools make it."""
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
    with _member(stored, name, archive) as stream:
        return stream.read(limit + 1)


def _unpack(stored: zipfile.ZipFile, name: str, target: Path, limit: int, archive: Path) -> None:
    """One member to disk, piece by piece, never more than one piece over `limit` bytes."""
    left = limit + 1
    with _member(stored, name, archive) as stream, target.open("xb") as file:
        while left > 0 and (piece := stream.read(min(left, 1 << 20))):
            file.write(piece)
            left -= len(piece)


def _member(stored: zipfile.ZipFile, name: str, archive: Path) -> IO[bytes]:
    try:
        return stored.open(name)
    except KeyError as error:
        raise BundleError(
            f"{archive}: lacks {name}, which its {MANIFEST_NAME} lists; fetch it again"
        ) from error


def _from_hub(address: str) -> Path:
    """Fetch `hf://OWNER/NAME[@REVISION]` into the hub's cache: the listed files only."""
    hub = require("huggingface_hub", extra="hf", purpose=f"loading {address}")
    name, _, revision = address.removeprefix(HUB_PREFIX).strip("/").partition("@")
    if name.count("/") != 1 or not address.isprintable():
        raise BundleError(
            f"{printable(address)}: expected {HUB_PREFIX}OWNER/NAME or .../NAME@REVISION"
        )
    options: Mapping[str, str] = {"revision": revision} if revision else {}
    sizes = _sizes_on_hub(hub, name, options)
    if sizes.get(MANIFEST_NAME, 0) > LARGEST_MANIFEST_BYTES:
        raise BundleError(
            f"{address}: its {MANIFEST_NAME} has {sizes[MANIFEST_NAME]:,} bytes; it may have "
            f"{LARGEST_MANIFEST_BYTES:,}"
        )
    try:
        first = hub.hf_hub_download(name, MANIFEST_NAME, **options)
        manifest = parse_manifest(read_bytes(first, limit=LARGEST_MANIFEST_BYTES), where=address)
        for path, file in manifest.files.items():
            size = sizes.get(path, file.size_bytes)
            refuse_other_size(Bundle(Path(), manifest, address), path, size, file)
        wanted = [MANIFEST_NAME, *map(glob.escape, manifest.files)]
        return Path(hub.snapshot_download(name, allow_patterns=wanted, **options))
    except BundleError:
        raise
    except Exception as error:  # the hub's errors, requests' and the file system's
        reason = shorten(str(error), 160, placeholder=" ...")
        raise BundleError(
            f"{address}: cannot be fetched ({type(error).__name__}: {reason}); check the name and "
            "the network, or download it and give the local path"
        ) from error


def _sizes_on_hub(hub: ModuleType, name: str, options: Mapping[str, str]) -> dict[str, int]:
    """Path -> bytes, as far as the hub knows; empty if it cannot be reached."""
    try:
        info = hub.HfApi().model_info(name, files_metadata=True, timeout=10, **options)
        return {file.rfilename: file.size for file in info.siblings if file.size is not None}
    except Exception:  # it is not needed for what is in the cache already
        return {}
