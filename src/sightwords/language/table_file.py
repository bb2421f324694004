"""A language model as a directory: `language.json`, `vocabulary.json` and `language.npz`.

Plain numbers and arrays, no pickles. The hash is named, and the size of the table stated, so that
a table is never read under another hash or beside another vocabulary.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError
from sightwords.files import DAMAGED_ZIP, atomic_path, write_text
from sightwords.language.features import HASH_NAME
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary

FORMAT = "sightwords-language"
VERSION = 1
HEADER_NAME = "language.json"
ARRAYS_NAME = "language.npz"
VOCABULARY_NAME = "vocabulary.json"

Arrays = Mapping[str, npt.NDArray[Any]]

_NUMBERS: dict[str, type] = {
    "order": int,
    "distant": bool,
    "table_bits": int,
    "scale": float,
    "attribute": float,
    "score": float,
    "words": int,
}


def write_model(
    directory: str | os.PathLike[str],
    *,
    vocabulary: Vocabulary,
    numbers: Mapping[str, float],
    arrays: Arrays,
) -> None:
    """Write the files; the header last, so that a model without one is known to be unfinished."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HEADER_NAME).unlink(missing_ok=True)
    save_vocabulary(vocabulary, folder / VOCABULARY_NAME)
    with atomic_path(folder / ARRAYS_NAME) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
    header = {"format": FORMAT, "version": VERSION, "hash": HASH_NAME, **numbers}
    write_text(folder / HEADER_NAME, json.dumps(header, indent=2) + "\n")


def read_model(
    directory: str | os.PathLike[str],
) -> tuple[Vocabulary, dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The vocabulary, the header's numbers and the arrays, checked against each other."""
    folder = Path(directory)
    header = _read_header(folder / HEADER_NAME)
    vocabulary = load_vocabulary(folder / VOCABULARY_NAME)
    arrays = _read_arrays(folder / ARRAYS_NAME)
    if header["words"] != len(vocabulary):
        raise BundleError(
            f"{folder / VOCABULARY_NAME}: {len(vocabulary)} words, {HEADER_NAME} says "
            f"{header['words']}; the files are of different models: copy all of one"
        )
    found = arrays["table"].shape
    if found != (1 << header["table_bits"],):
        raise BundleError(
            f"{folder / ARRAYS_NAME}: a table of shape {found}, {HEADER_NAME} says "
            f"2^{header['table_bits']} weights; the files are of different models: copy all of one"
        )
    return vocabulary, header, arrays


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(
            f"{path}: cannot be read ({error.strerror}); a language model directory holds "
            f"{HEADER_NAME}, {ARRAYS_NAME} and {VOCABULARY_NAME}"
        ) from error
    except ValueError as error:
        raise BundleError(f"{path}: is not JSON ({error}); copy the file again") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise BundleError(f"{path}: is not the header of a language model; expected {FORMAT!r}")
    if header.get("version") != VERSION:
        raise BundleError(
            f"{path}: is of version {header.get('version')}, this sightwords reads {VERSION}; "
            "upgrade with: pip install --upgrade sightwords"
        )
    if header.get("hash") != HASH_NAME:
        raise BundleError(
            f"{path}: its weights were hashed by {header.get('hash')!r}, this sightwords uses "
            f"{HASH_NAME!r}; train the model again, or use the release that wrote it"
        )
    for name, kind in _NUMBERS.items():
        if type(header.get(name)) is not kind:
            raise BundleError(
                f"{path}: {name} is {header.get(name)!r}; expected a value of type {kind.__name__}"
            )
    return header


def _read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError as error:
        raise BundleError(f"{path}: no such file; copy the whole directory again") from error
    except (OSError, *DAMAGED_ZIP) as error:
        raise BundleError(f"{path}: is damaged ({error}); copy it again") from error
    missing = {"table", "unigram", "end", "follower_offsets", "follower_ids"} - set(arrays)
    if missing:
        raise BundleError(f"{path}: lacks the array {min(missing)!r}; copy it again")
    return arrays
