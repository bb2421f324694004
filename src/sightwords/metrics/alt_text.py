"""Whether captions are written as alt text should be (WCAG's advice on text alternatives).

`Comparison` -> one `Score` per rule, each the share of captions that break it, better when lower:

    alt_length    longer than 125 characters, where some screen readers cut
    alt_opening   begins with "photo of", "image of" or the like: a screen reader says that itself
    alt_ending    does not end with a full stop, so that a screen reader runs on
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from sightwords._version import __version__
from sightwords.errors import ScoreError
from sightwords.metrics.score import Score

MOST_CHARACTERS = 125
_OPENING = re.compile(
    r"\s*(an? |the |this is |here is )*(\w+ )?(photo(graph)?|image|picture|pic|snapshot|shot) of\b",
    re.IGNORECASE,
)
_ENDING = re.compile(r"[.!?][\"')\]]?\s*$")


def alt_text(captions: Mapping[str, str]) -> tuple[Score, ...]:
    """Check every caption, as it is written.

    >>> scores = alt_text({"1": "A dog on a beach.", "2": "a photo of a dog"})
    >>> {score.metric: score.value for score in scores}
    {'alt_length': 0.0, 'alt_opening': 0.5, 'alt_ending': 0.5}
    """
    if not captions:
        raise ScoreError("no captions to check; give at least one")
    found = {
        "alt_length": [len(text.strip()) > MOST_CHARACTERS for text in captions.values()],
        "alt_opening": [bool(_OPENING.match(text)) for text in captions.values()],
        "alt_ending": [not _ENDING.search(text) for text in captions.values()],
    }
    return tuple(
        Score(
            metric,
            float(np.mean(broken)),
            np.array(broken, dtype=np.float64),
            f"{metric}|characters:{MOST_CHARACTERS}|images:{len(captions)}|version:{__version__}",
        )
        for metric, broken in found.items()
    )
