"""The bottom rows of the paper's figures: the photo with one heat map per content word.

image, Caption, RegionScores -> one picture

The first panel is the photo with its caption. Then follows one panel per content word, in the order
of the sentence, with the word's heat map (`words.heatmap`). Words that the detector does not know
have no map; the first panel names them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Sequence

from PIL import Image, ImageDraw, ImageFont

from sightwords.errors import InputError
from sightwords.images import fit_size
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.types import Caption, DetectedWord, RegionScores
from sightwords.words.heatmap import word_heatmap
from sightwords.words.noisy_or import pool

PANEL_PX = 400
"""Longer side of the photo in each panel."""
COLUMNS = 4
GAP_PX = 12


def explain(
    image: Image.Image,
    caption: Caption,
    regions: RegionScores,
    vocabulary: Sequence[str],
    *,
    closed_class: Collection[str] = CLOSED_CLASS,
) -> Image.Image:
    """Draw the figure; `vocabulary` names the last axis of the regions' probabilities."""
    if regions.corners is None:
        raise InputError("these region scores have no corners; take them from a Detector")
    places = {word: place for place, word in enumerate(vocabulary)}
    detected = {word.detected.word: word.detected for word in caption.words}
    probs = pool(regions).image_probs
    words = content_words(caption, closed_class=closed_class)
    unknown = [word for word in words if word not in places]
    # Once for all panels: a phone's photo takes a tenth of a second each time.
    small = image.resize(fit_size(*image.size, PANEL_PX), Image.Resampling.BICUBIC)
    panels = [_caption_panel(small, caption, unknown)]
    for word in words:
        if word not in places:
            continue
        found = detected.get(word)
        panels.append(
            word_heatmap(
                small,
                regions,
                places[word],
                _label(word, found, float(probs[places[word]])),
                box=found.box if found else None,
                longer_side_px=PANEL_PX,
            )
        )
    return _page(panels)


def content_words(caption: Caption, *, closed_class: Collection[str] = CLOSED_CLASS) -> list[str]:
    """Words of the chosen sentence outside the closed class, in its order, each once."""
    tokens = caption.n_best[0].hypothesis.tokens if caption.n_best else caption.text.split()
    return [word for word in dict.fromkeys(tokens) if word not in closed_class]


def _label(word: str, found: DetectedWord | None, prob: float) -> str:
    if found is None:  # too unlikely to be detected: the language model added it
        return f"{word}: {prob:.2f}, not detected"
    return f"{word}: {found.prob:.2f}, precision {found.precision:.2f}"


def _caption_panel(small: Image.Image, caption: Caption, unknown: list[str]) -> Image.Image:
    width = max(small.width, 240)
    font, note_font = ImageFont.load_default(18), ImageFont.load_default(13)
    lines = textwrap.wrap(caption.text, max(16, width // 9))
    notes = [] if math.isnan(caption.confidence) else [f"confidence {caption.confidence:.2f}"]
    if unknown:
        notes += textwrap.wrap(f"not the detector's words: {', '.join(unknown)}", width // 7)
    page = Image.new("RGB", (width, small.height + 12 + 22 * len(lines) + 17 * len(notes)), "white")
    page.paste(small, ((width - small.width) // 2, 0))
    draw = ImageDraw.Draw(page)
    top = small.height + 6
    for line in lines:
        draw.text((8, top), line, fill="black", font=font)
        top += 22
    for note in notes:
        draw.text((8, top), note, fill="black", font=note_font)
        top += 17
    return page


def _page(panels: Sequence[Image.Image]) -> Image.Image:
    """Panels in rows of `COLUMNS`, each as high as its highest."""
    rows = [panels[i : i + COLUMNS] for i in range(0, len(panels), COLUMNS)]
    cell = max(panel.width for panel in panels) + GAP_PX
    heights = [max(panel.height for panel in row) + GAP_PX for row in rows]
    page = Image.new("RGB", (cell * max(map(len, rows)) + GAP_PX, sum(heights) + GAP_PX), "white")
    top = GAP_PX
    for row, height in zip(rows, heights, strict=True):
        for column, panel in enumerate(row):
            page.paste(panel, (GAP_PX + column * cell, top))
        top += height
    return page
