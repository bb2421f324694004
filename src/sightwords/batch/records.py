"""A caption as JSON: what `sightwords caption --json` and `sightwords batch` write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sightwords.types import Box, Caption, CaptionWord, RankedHypothesis

Record = dict[str, Any]


def caption_record(caption: Caption, *, n_best: int = 0, words: bool = True) -> Record:
    """Caption, confidence, the detected words, and the best sentences with their scores.

    Numbers are rounded to five digits: the rest is noise, and files stay small.
    """
    record: Record = {"caption": caption.text, "confidence": _known(caption.confidence)}
    if words:
        record["words"] = [word_record(word) for word in caption.words]
    if n_best:
        record["n_best"] = [_sentence_record(ranked) for ranked in caption.n_best[:n_best]]
        record["weights"] = _rounded(caption.weights)
    return record


def word_record(word: CaptionWord) -> Record:
    """One detected word; `box` is x0, y0, x1, y1 in fractions of the upright image."""
    detected = word.detected
    return {
        "word": detected.word,
        "prob": round(detected.prob, 5),
        "precision": round(detected.precision, 5),
        "box": _corners(detected.box),
        "used": word.used,
    }


def _known(confidence: float) -> float | None:
    """None where the bundle has no confidence model: JSON knows no NaN."""
    return None if math.isnan(confidence) else round(confidence, 5)


def _sentence_record(ranked: RankedHypothesis) -> Record:
    return {
        "caption": " ".join(ranked.hypothesis.tokens),
        "score": round(ranked.score, 5),
        "features": _rounded(ranked.features),
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in values.items()}


def _corners(box: Box | None) -> list[float] | None:
    if box is None:
        return None
    return [round(value, 4) for value in (box.x0, box.y0, box.x1, box.y1)]


def is_record(value: object) -> bool:
    """Whether something out of a file is a caption's record, or that of an error.

    >>> is_record({"id": "a", "caption": "a dog"}), is_record({"id": 1, "caption": "a dog"})
    (True, False)
    """
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return False
    if "error" in value:
        return isinstance(value["error"], str)
    confidence = value.get("confidence")
    return (
        isinstance(value.get("caption"), str)
        and (confidence is None or isinstance(confidence, int | float))
        and all(map(_is_word, _items(value.get("words", []))))
    )


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [None]


def _is_word(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("word"), str) and "used" in value
