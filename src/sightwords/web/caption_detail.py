"""What the page draws for one caption: its pieces, its candidate words, and their heat maps.

The heat maps come from the same code as the figures of `--explain`, at most 48 pixels wide and
high; the page colours and enlarges them.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from sightwords.explain import content_words
from sightwords.images import fit_size
from sightwords.pipeline import Trace
from sightwords.rerank.chooser import sentence_text
from sightwords.types import DetectedWord, RegionScores
from sightwords.words.detector import Detector
from sightwords.words.heatmap import best_region, spread
from sightwords.words.maps import word_maps

MAP_SIDE_PX = 48


def caption_detail(trace: Trace, detector: Detector) -> dict[str, Any]:
    """The JSON of `detail=true`."""
    closed = detector.vocabulary.closed_class
    content = content_words(trace.caption, closed_class=closed)
    words = _every_word(trace, detector, content)
    size = fit_size(*trace.image.size, MAP_SIDE_PX)
    indices = {word: i for i, word in enumerate(detector.vocabulary.words)}
    return {
        "size_px": list(trace.image.size),
        "pieces": _pieces(trace, set(content)),
        "words": [
            {**word_record(word), **_map(trace.regions, indices[word.word], size)} for word in words
        ],
        "map_size_px": list(size),
        "shown_precision": round(trace.words.threshold, 5),
    }


def _every_word(trace: Trace, detector: Detector, content: list[str]) -> list[DetectedWord]:
    """Words offered to the language model, and other known words of the caption."""
    offered = {word.word: word for word in trace.words.words}
    indices = {word: i for i, word in enumerate(detector.vocabulary.words)}
    others = [indices[word] for word in content if word in indices and word not in offered]
    return [*offered.values(), *detector.describe(trace.scores, trace.regions, others).words]


def _pieces(trace: Trace, content: set[str]) -> list[dict[str, Any]]:
    """The parts of the caption's text; those that are content words have `word`."""
    tokens, said = trace.caption.n_best[0].hypothesis.tokens, trace.caption.text
    pieces, before = [], 0
    for count, token in enumerate(tokens, start=1):
        end = len(sentence_text(tokens[:count]))  # as in the text, capitals aside
        pieces.append({"text": said[before:end], "word": token if token in content else None})
        before = end
    return pieces


def word_record(word: DetectedWord) -> dict[str, Any]:
    """A detected word as JSON."""
    box = word.box
    return {
        "word": word.word,
        "prob": round(word.prob, 5),
        "precision": round(word.precision, 5),
        "box": None if box is None else [round(v, 4) for v in (box.x0, box.y0, box.x1, box.y1)],
    }


def _map(regions: RegionScores, place: int, size: tuple[int, int]) -> dict[str, Any]:
    """Rows of bytes in base64, 255 at the peak; `peak` is the probability of the best region."""
    if regions.corners is None:
        return {"map": None, "peak": None}
    found = word_maps(regions, [place])
    values = spread(found.maps[..., 0], found.corners, size)
    levels = np.round(255 * values / max(float(values.max()), 1e-30)).astype(np.uint8)
    peak = round(best_region(regions, place), 5)
    return {"map": base64.b64encode(levels.tobytes()).decode("ascii"), "peak": peak}
