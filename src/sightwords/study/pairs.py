"""Which captions are compared: images drawn with a seed, one pair an image.

human captions by image + captions of A + captions of B or one human's -> Pair, Pair, ...
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sightwords.errors import StudyError
from sightwords.study.model import Pair

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """The pairs of a study and what is left for metrics to compare with."""

    pairs: tuple[Pair, ...]
    references: Mapping[str, tuple[str, ...]]
    """Human captions of each image, without any that stands in its pair."""


def draw_pairs(
    captions: Mapping[str, Sequence[str]],
    system: Mapping[str, str],
    against: Mapping[str, str] | None,
    *,
    count: int | None,
    rng: np.random.Generator,
) -> DrawnPairs:
    """Draw `count` images (all when None) and pair the captions of the two sides.

    `captions` are people's, by image id; `against` is another system, or None for one human
    caption of the image, drawn as well. Images come in the order of their drawing.

    >>> drawn = draw_pairs({"1": ["A dog."]}, {"1": "a cat"}, None, count=1,
    ...                    rng=np.random.default_rng(0))
    >>> drawn.pairs, dict(drawn.references)
    ((Pair(image='1', first='a cat', second='A dog.', is_check=False),), {'1': ()})
    """
    usable = _usable(captions, system, against)
    wanted = len(usable) if count is None else count
    if wanted > len(usable):
        raise StudyError(
            f"{wanted} pairs asked for, but only {len(usable)} images have a photograph and a "
            "caption of each side; ask for fewer with --pairs, or give more captions"
        )
    pairs, references = [], {}
    for place in rng.permutation(len(usable))[:wanted]:
        image = usable[place]
        said = list(captions.get(image, ()))
        other = against[image] if against is not None else said.pop(int(rng.integers(len(said))))
        pair = Pair(image, _clean(system[image]), _clean(other))
        pairs.append(pair)
        shown = {_letters(pair.first), _letters(pair.second)}
        references[image] = tuple(text for text in said if _letters(text) not in shown)
    equal = sum(_letters(pair.first) == _letters(pair.second) for pair in pairs)
    if equal:
        log.warning("%d of %d pairs show the same caption twice; they are kept", equal, len(pairs))
    return DrawnPairs(tuple(pairs), references)


def _usable(
    captions: Mapping[str, Sequence[str]],
    system: Mapping[str, str],
    against: Mapping[str, str] | None,
) -> list[str]:
    """Images that both sides have captioned, sorted, so that the draw depends on the seed alone."""
    usable = sorted(image for image in captions if system.get(image, "").strip())
    if against is None:
        usable = [image for image in usable if captions[image]]
    else:
        usable = [image for image in usable if against.get(image, "").strip()]
    if not usable:
        raise StudyError(
            "no image has a photograph and a caption of each side; check that the files use the "
            "same image ids"
        )
    return usable


def _clean(caption: str) -> str:
    return " ".join(caption.split())


def _letters(caption: str) -> str:
    """What two spellings of one caption share, whoever tokenised them."""
    return "".join(character for character in caption.casefold() if character.isalnum())
