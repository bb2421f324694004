"""Word scores in: how likely a detector finds each word in each image.

Two forms:

- NPZ (`numpy.savez`) with `ids` (N,), `words` (V,) and `scores` (N, V), all of plain types: a
  pickled array is refused, because loading one runs code. Higher scores mean likelier words, on
  any scale.
- JSONL, gzipped or not, `{"id": "9", "words": {"dog": 0.9}}`; a word that a line leaves out has
  score 0 there, so scores are 0 or more.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.corpus.ids import canonical_id, canonical_ids
from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_records, record_id
from sightwords.files import atomic_path
from sightwords.npz import load_npz
from sightwords.sealed import read_bytes

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WordScoreTable:
    """A detector's scores over a set of images."""

    ids: tuple[str, ...]
    """Canonical image ids."""
    words: tuple[str, ...]
    scores: Scores
    """(N, V) in the order of `ids` and `words`."""

    def select(self, ids: Sequence[str], words: Sequence[str]) -> Scores:
        """(len(ids), len(words)); a word the detector does not know scores 0 everywhere.

        >>> table = WordScoreTable(("1", "2"), ("dog",), np.array([[0.9], [0.1]]))
        >>> table.select(["2"], ["dog", "cat"]).tolist()
        [[0.1, 0.0]]
        """
        row = {key: place for place, key in enumerate(self.ids)}
        column = {word: place for place, word in enumerate(self.words)}
        chosen = np.zeros((len(ids), len(words)))
        known = [place for place, word in enumerate(words) if word in column]
        source = [column[words[place]] for place in known]
        chosen[:, known] = self.scores[np.ix_([row[key] for key in ids], source)]
        return chosen


def read_word_scores(path: str | Path) -> WordScoreTable:
    """Read either form, told apart by content."""
    is_npz = "\0" not in str(path) and zipfile.is_zipfile(path)
    return _read_npz(path) if is_npz else _read_jsonl(path)


def write_word_scores(path: str | Path, table: WordScoreTable) -> None:
    """Write the NPZ form, whole or not at all, without pickles."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(
            stream,
            ids=np.array(table.ids, dtype=np.str_),
            words=np.array(table.words, dtype=np.str_),
            scores=table.scores.astype(np.float32),
        )


def _read_npz(path: str | Path) -> WordScoreTable:
    try:
        arrays = load_npz(read_bytes(path), kinds="biufU")
        ids, words, scores = (arrays[key] for key in ("ids", "words", "scores"))
    except KeyError as error:
        raise ScoreError(f"{path}: no array {error}; expected ids, words and scores") from error
    except (OSError, ValueError) as error:
        raise ScoreError(
            f"{path}: cannot be read as NPZ ({error}); write it with numpy.savez from plain "
            "arrays (strings as dtype str, not object)"
        ) from error
    if ids.ndim != 1 or words.ndim != 1 or scores.shape != (ids.size, words.size):
        raise ScoreError(
            f"{path}: shapes ids {ids.shape}, words {words.shape}, scores {scores.shape}; "
            "expected (N,), (V,) and (N, V)"
        )
    if ids.dtype.kind not in "iuU" or words.dtype.kind != "U" or scores.dtype.kind not in "fiu":
        raise ScoreError(
            f"{path}: types ids {ids.dtype}, words {words.dtype}, scores {scores.dtype}; "
            "expected integers or strings, strings, and numbers"
        )
    return _checked(ids.tolist(), words.tolist(), scores.astype(np.float64), where=str(path))


def _read_jsonl(path: str | Path) -> WordScoreTable:
    by_image: dict[str, Mapping[str, float]] = {}
    for place, record in read_records(path):
        where = f"{path}, {place}"
        key = canonical_id(record_id(record, where=where))
        if key in by_image:
            raise ScoreError(
                f"{where}: image {key!r} is already in the file; write one line per image"
            )
        found = record.get("words")
        if not isinstance(found, dict) or not all(_is_score(value) for value in found.values()):
            raise ScoreError(
                f"{where}: 'words' must be an object of scores, 0 or more, such as "
                '{"dog": 0.9}; for other scales write NPZ'
            )
        by_image[key] = found
    words = sorted({word for found in by_image.values() for word in found})
    column = {word: place for place, word in enumerate(words)}
    scores = np.zeros((len(by_image), len(words)))
    for row, found in enumerate(by_image.values()):
        for word, value in found.items():
            scores[row, column[word]] = value
    return _checked(list(by_image), words, scores, where=str(path))


def _is_score(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _checked(
    ids: list[int | str] | list[str], words: list[str], scores: Scores, *, where: str
) -> WordScoreTable:
    if not scores.size:
        raise ScoreError(f"{where}: no scores in it; expected at least one image and one word")
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        row, column = bad[0]
        raise ScoreError(
            f"{where}: the score of {words[column]!r} in image {ids[row]!r} is "
            f"{scores[row, column]}; {len(bad)} of {scores.size} scores are not finite"
        )
    canonical = canonical_ids(ids, where=where)
    for kind, names in (("image", [canonical[str(i)] for i in ids]), ("word", words)):
        repeated = next((name for name, times in Counter(names).items() if times > 1), None)
        if repeated is not None:
            raise ScoreError(f"{where}: the {kind} {repeated!r} is there more than once")
    return WordScoreTable(tuple(canonical[str(i)] for i in ids), tuple(words), scores)
