"""Finished stages in a directory -> a bundle; a bundle -> a zip, and back."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightwords.bundle.manifest import (
    MANIFEST_NAME,
    NEEDED,
    PARTS,
    Manifest,
    largest_bytes,
    parse_manifest,
    refuse_kind,
)
from sightwords.bundle.parts import Bundle
from sightwords.bundle.store import files_of, open_bundle, unzip
from sightwords.errors import BundleError
from sightwords.files import atomic_path
from sightwords.sealed import SUMS_NAME, File, Sealed, folder_of, sum_of, unreadable

Place = str | os.PathLike[str]


def seal(
    directory: Place,
    *,
    name: str,
    licence: str,
    provenance: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write `bundle.json` over all files of a directory, after loading every stage once.

    It replaces the `sums.json` of each stage, whose files are compared with it first.
    """
    folder = Path(directory)
    for part in NEEDED:
        if not (folder / part).is_dir():
            raise BundleError(
                f"{folder}: has no directory {part}/; a bundle holds at least {', '.join(NEEDED)}"
            )
    sums = [part for part in PARTS if (folder / part / SUMS_NAME).is_file()]
    replaced = {f"{part}/{SUMS_NAME}" for part in sums}
    paths = [path for path in files_of(folder, str(folder)) if path not in replaced]
    for path in paths:
        refuse_kind(path, str(folder))
    files = {path: file_of(folder / path, str(folder)) for path in paths}
    for part in sums:
        _check_sums(folder / part, files)
    manifest = Manifest(
        name=name,
        licence=licence,
        provenance=provenance or {},
        scores=scores or {},
        files=files,
    )
    parse_manifest(manifest.to_json(), where=str(folder))  # refuses what could not be loaded
    Bundle(folder, manifest, str(folder)).check()
    manifest.save(folder)
    # Last: a kill before this leaves both, and the next `seal` compares the files again.
    for part in sums:
        (folder / part / SUMS_NAME).unlink()
    return manifest


def pack(directory: Place, archive: Place) -> Manifest:
    """A bundle directory -> a zip; the same bytes for the same files, whenever it is made."""
    with open_bundle(directory) as bundle, atomic_path(archive) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as stored:
            for path in (MANIFEST_NAME, *bundle.manifest.files):
                entry = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                stored.writestr(entry, _bytes_of(bundle, path))
        return bundle.manifest


def unpack(archive: Place, directory: Place) -> Manifest:
    """A zip -> a bundle directory, which must not be there yet; verified."""
    target = Path(directory)
    if target.exists():
        raise BundleError(f"{target}: exists already; name a new directory")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        unzip(Path(archive), partial)
        with open_bundle(partial) as bundle:
            bundle.verify()
            manifest = bundle.manifest
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _check_sums(stage: Path, files: Mapping[str, File]) -> None:
    """Compare the sums that are sealed now with the stage's `sums.json`."""
    from sightwords.words.calibration import Calibration

    folder = folder_of(stage)
    assert isinstance(folder, Sealed)
    if stage.name == "words":
        Calibration.load(folder)  # that of another network is not listed
    for name, expected in folder.files.items():
        found = files.get(f"{stage.name}/{name}")
        if found is None:
            raise unreadable(folder / name, FileNotFoundError())
        if found != expected:
            raise (folder / name).changed(found.difference(expected))


def file_of(path: Path, where: str) -> File:
    """SHA-256 sum and size of a file of a bundle."""
    try:
        return sum_of(path, limit=largest_bytes(path.name))
    except OSError as error:
        raise BundleError(
            f"{where}: {path.name} of the bundle cannot be read ({error.strerror}: {path}); "
            "fetch the bundle again"
        ) from error


def _bytes_of(bundle: Bundle, path: str) -> bytes:
    """A file as it was sealed; the manifest itself, which has no sum, as it was read."""
    if path == MANIFEST_NAME:
        return bundle.manifest.to_json().encode("utf-8")
    return (bundle.files / path).read_bytes()
