"""The figures that the paper printed, to show beside our own; never used in place of them.

All values in per cent unless said otherwise. None: the paper gives no figure there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Values = Mapping[str, float | None]

PARTS_OF_SPEECH: Final = ("NN", "VB", "JJ", "DT", "PRP", "IN", "Others", "All")

WORD_COUNTS: Final = (616, 176, 119, 10, 11, 38, 30, 1000)
"""Table 3: words of each part of speech among the 1000."""


def _by_class(ap: tuple[float, ...] | None, phr: tuple[float, ...] | None) -> Values:
    values: dict[str, float | None] = {}
    for measure, row in (("ap", ap), ("phr", phr)):
        for place, pos in enumerate(PARTS_OF_SPEECH):
            values[f"{measure}_{pos.lower()}"] = row[place] if row else None
    return values


WORDS: Final[Mapping[str, Values]] = {
    "Chance": _by_class((2.0, 2.3, 2.5, 23.6, 4.7, 11.9, 7.7, 2.9), None),
    "Classification (AlexNet)": _by_class(
        (32.4, 16.7, 20.7, 31.6, 16.8, 21.4, 15.6, 27.1),
        (39.0, 27.7, 37.0, 37.3, 26.2, 31.5, 25.0, 35.9),
    ),
    "Classification (VGG)": _by_class(
        (37.0, 19.4, 22.5, 32.9, 19.4, 22.5, 16.9, 30.8),
        (45.3, 31.0, 37.1, 40.2, 29.6, 33.9, 25.5, 40.6),
    ),
    "MIL (AlexNet)": _by_class(
        (36.9, 18.0, 22.9, 31.7, 16.8, 21.4, 15.2, 30.4),
        (46.0, 29.4, 40.1, 37.9, 25.9, 31.5, 21.6, 40.8),
    ),
    "MIL (VGG)": _by_class(
        (41.4, 20.7, 24.9, 32.4, 19.1, 22.8, 16.3, 34.0),
        (51.6, 33.3, 44.3, 39.2, 29.4, 34.3, 23.9, 45.7),
    ),
    "Human Agreement": _by_class(None, (63.8, 35.0, 35.9, 43.1, 32.5, 34.3, 31.6, 52.8)),
}
"""Table 3: word detection on COCO."""


def _system(pplx: float | None, bleu: float, meteor: float, *human: float) -> Values:
    same, better, either = human or (None, None, None)
    return {
        "pplx": pplx,
        "bleu_4": bleu,
        "meteor": meteor,
        "same_as_human": same,
        "better_than_human": better,
        "same_or_better": either,
    }


SYSTEMS: Final[Mapping[str, Values]] = {
    "Unconditioned": _system(24.1, 1.2, 6.8),
    "Shuffled Human": _system(None, 1.7, 7.3),
    "Baseline": _system(20.9, 16.9, 18.9, 9.9, 2.4, 12.3),
    "Baseline+Score": _system(20.2, 20.1, 20.5, 16.9, 3.9, 20.8),
    "Baseline+Score+DMSM": _system(20.2, 21.1, 20.7, 18.7, 4.6, 23.3),
    "Baseline+Score+DMSM+ft": _system(19.2, 23.3, 22.2),
    "VGG+Score+ft": _system(18.1, 23.6, 22.8),
    "VGG+Score+DMSM+ft": _system(18.1, 25.7, 23.6, 26.2, 7.8, 34.0),
    "Human": _system(None, 19.3, 24.1),
}
"""Table 4: half of COCO val2014, 4 random references; pplx is a perplexity, not per cent."""

COCO: Final[Mapping[str, Values]] = {
    "VGG+Score+DMSM+ft": {
        "cider": 91.2,
        "bleu_4": 29.1,
        "bleu_1": 69.5,
        "rouge_l": 51.9,
        "meteor": 24.7,
    },
    "Human": {"cider": 85.4, "bleu_4": 21.7, "bleu_1": 66.3, "rouge_l": 48.4, "meteor": 25.2},
}
"""Table 5, first row: COCO test2014 on the evaluation server, 5 references."""

PASCAL: Final[Mapping[str, Values]] = {
    "Midge": {"bleu_4": 2.0, "meteor": 9.2},
    "VGG+Score+DMSM+ft": {"bleu_4": 17.6, "meteor": 19.2},
    "Human": {"bleu_4": None, "meteor": None},
}
"""Section 6.3: 847 images of PASCAL sentences. Baby Talk is left out there as too long to score."""
