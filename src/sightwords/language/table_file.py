"""A language model as a directory: `language.json`, `vocabulary.json` and `language.npz`.

Plain numbers and arrays, no pickles. The header names the hash and the size of the table, so that a
table is never read with another hash or another vocabulary.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, VocabularyError
from sightwords.files import atomic_path, write_text
from sightwords.json_reader import Reader
from sightwords.language.features import HASH_NAME
from sightwords.npz import load_npz
from sightwords.sealed import Sealed, folder_of, read_bytes
from sightwords.strict_json import loads
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary

FORMAT = "sightwords-language"
VERSION = 1
HEADER_NAME = "language.json"
ARRAYS_NAME = "language.npz"
VOCABULARY_NAME = "vocabulary.json"

Arrays = Mapping[str, npt.NDArray[Any]]

MOST_BITS = 30
LARGEST_ORDER = 8
LARGEST_WEIGHT = 1e6
"""Of the model, as a number; scores are sums of a few dozen of them."""
LARGEST_HEADER_BYTES = 1 << 20

_WEIGHTS, _PLACES = "f", "iu"
_ARRAYS = {
    "unigram": _WEIGHTS,
    "end": _WEIGHTS,
    "follower_offsets": _PLACES,
    "follower_ids": _PLACES,
}
"""Beside `table`; the kinds of their numbers, as NumPy calls them."""
_BILINEAR = {f"bilinear_{name}": _WEIGHTS for name in ("context", "position", "target")}


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
    directory: str | os.PathLike[str] | Sealed,
) -> tuple[Vocabulary, dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The vocabulary, the header's numbers and the arrays, checked against each other."""
    folder = folder_of(directory)
    header = _read_header(folder / HEADER_NAME)
    try:
        vocabulary = load_vocabulary(folder / VOCABULARY_NAME)
    except VocabularyError as error:
        raise BundleError(str(error)) from error
    arrays = _read_arrays(folder / ARRAYS_NAME)
    if header["words"] != len(vocabulary):
        raise BundleError(
            f"{folder / VOCABULARY_NAME}: {len(vocabulary)} words, {HEADER_NAME} has "
            f"{header['words']}; the files are of different models: copy all of one"
        )
    found = arrays["table"].shape
    if found != (1 << header["table_bits"],):
        raise BundleError(
            f"{folder / ARRAYS_NAME}: a table of shape {found}, {HEADER_NAME} has "
            f"2^{header['table_bits']} weights; the files are of different models: copy all of one"
        )
    _check_shapes(arrays, len(vocabulary), folder / ARRAYS_NAME)
    return vocabulary, header, arrays


def _check_shapes(arrays: Arrays, words: int, path: Path | Sealed) -> None:
    """Check shapes before anything is copied: an array of zeros is small only on disk."""
    expected = {
        "unigram": (2, words + 2),
        "end": (words + 2,),
        "follower_offsets": (words + 3,),
    }
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise BundleError(
                f"{path}: {name} has shape {arrays[name].shape}; expected {shape} for {words} words"
            )
    if arrays["follower_ids"].size > (words + 2) * words:
        raise BundleError(
            f"{path}: {arrays['follower_ids'].size} followers of {words} words; expected each "
            "word at most once after each other"
        )


def _read_header(path: Path | Sealed) -> dict[str, Any]:
    try:
        header = loads(read_bytes(path, limit=LARGEST_HEADER_BYTES))
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
            f"{path}: has version {header.get('version')!r:.60}, but this sightwords reads "
            f"{VERSION}; upgrade with: pip install --upgrade sightwords"
        )
    if header.get("hash") != HASH_NAME:
        raise BundleError(
            f"{path}: its weights were hashed by {header.get('hash')!r:.60}, this sightwords uses "
            f"{HASH_NAME!r}; train the model again, or use the release that wrote it"
        )
    return _numbers(Reader(str(path), header))


def _numbers(reader: Reader) -> dict[str, Any]:
    scale = reader.take("scale", float)
    if not 0 < scale <= LARGEST_WEIGHT:
        raise BundleError(f"{reader.where}: scale is {scale}; expected a number above 0")
    return {
        "order": reader.count("order", LARGEST_ORDER),
        "distant": reader.take("distant", bool),
        "table_bits": reader.count("table_bits", MOST_BITS),
        "scale": scale,
        **{
            name: reader.between(name, -LARGEST_WEIGHT, LARGEST_WEIGHT)
            for name in ("attribute", "score")
        },
        "words": reader.count("words"),
    }


def _read_arrays(path: Path | Sealed) -> dict[str, npt.NDArray[Any]]:
    try:
        arrays = load_npz(read_bytes(path))
    except FileNotFoundError as error:
        raise BundleError(f"{path}: no such file; copy the whole directory again") from error
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror}); copy it again") from error
    except ValueError as error:
        raise BundleError(f"{path}: is damaged ({error}); copy it again") from error
    wanted = _ARRAYS | (_BILINEAR if _BILINEAR.keys() & arrays.keys() else {})
    if missing := {"table", *wanted} - arrays.keys():
        raise BundleError(f"{path}: lacks the array {min(missing)!r}; copy it again")
    if unknown := arrays.keys() - {"table", *wanted}:
        raise BundleError(f"{path}: holds the unknown array {min(unknown)!r:.60}; copy it again")
    table = arrays["table"]
    if table.dtype not in (np.float32, np.int8):
        raise BundleError(f"{path}: table is of {table.dtype}; expected float32 or int8")
    for name, kinds in wanted.items():
        if arrays[name].dtype.kind not in kinds:
            expected = "floating-point" if kinds == _WEIGHTS else "whole"
            raise BundleError(
                f"{path}: {name} is of {arrays[name].dtype}; expected {expected} numbers"
            )
    for name in ("table", *wanted):
        _refuse_huge(arrays[name], f"{path}: {name}")
    return arrays


def _refuse_huge(array: npt.NDArray[Any], where: str) -> None:
    """NaN, infinity and weights that make sums overflow."""
    if array.dtype.kind != "f" or not array.size:
        return
    # A NaN is the least and the largest of its array, and within no bounds.
    if not (float(array.min()) >= -LARGEST_WEIGHT and float(array.max()) <= LARGEST_WEIGHT):
        raise BundleError(
            f"{where} holds NaN, infinity or weights beyond {LARGEST_WEIGHT:g}; copy it again"
        )
