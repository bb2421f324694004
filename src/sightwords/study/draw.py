"""Draws the pairs of a study and its check cases, with a seed.

Pairs: photos are drawn, one pair per photo: the captions of both systems, or one system's caption
and one human caption.

Check cases: pairs with a known answer, which show who does not look. The right caption is a human
caption of the photo, the wrong one a human caption of another, very different photo. The caller
chooses the measure: DMSM's cosine (section 5.1) if the bundle has a DMSM, or `text_similarity`,
which needs no model.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import StudyError
from sightwords.study.model import Pair
from sightwords.text.ptb import tokenize_all

log = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float64]

Similarity = Callable[[Sequence[str], Sequence[str]], npt.NDArray[np.floating]]
"""(image ids, captions) -> (images, captions): how well each caption fits each image."""

LEAST_SIMILAR = 0.1
"""A wrong caption is drawn from this share of the captions, the least similar ones."""


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """The pairs of a study, and the references for metrics."""

    pairs: tuple[Pair, ...]
    references: Mapping[str, tuple[str, ...]]
    """Human captions of each image, without those in its pair."""


def draw_pairs(
    captions: Mapping[str, Sequence[str]],
    system: Mapping[str, str],
    against: Mapping[str, str] | None,
    *,
    count: int | None,
    rng: np.random.Generator,
) -> DrawnPairs:
    """Draw `count` images (None: all) and pair the captions of the two sides.

    `captions` are human captions by image id; `against` is another system, or None for one human
    caption of each image, also drawn. Images are in the order in which they were drawn.

    >>> drawn = draw_pairs({"1": ["A dog."]}, {"1": "a cat"}, None, count=1,
    ...                    rng=np.random.default_rng(0))
    >>> drawn.pairs, dict(drawn.references)
    ((Pair(image='1', first='a cat', second='A dog.', is_check=False),), {'1': ()})
    """
    usable = _usable(captions, system, against)
    wanted = len(usable) if count is None else count
    if wanted > len(usable):
        raise StudyError(
            f"{wanted} pairs requested, but only {len(usable)} images have a photo and captions of "
            "both sides; request fewer with --set pairs=N, or give more captions"
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
        log.warning("%d of %d pairs have two equal captions; they are kept", equal, len(pairs))
    return DrawnPairs(tuple(pairs), references)


def _usable(
    captions: Mapping[str, Sequence[str]],
    system: Mapping[str, str],
    against: Mapping[str, str] | None,
) -> list[str]:
    """Images with captions of both sides, sorted, so that the draw depends on the seed only."""
    usable = sorted(image for image in captions if system.get(image, "").strip())
    if against is None:
        usable = [image for image in usable if captions[image]]
    else:
        usable = [image for image in usable if against.get(image, "").strip()]
    if not usable:
        raise StudyError(
            "no image has a photo and captions of both sides; check that the files use the same "
            "image ids"
        )
    return usable


def _clean(caption: str) -> str:
    return " ".join(caption.split())


def _letters(caption: str) -> str:
    """The letters of a caption, to compare captions with different tokenisation."""
    return "".join(character for character in caption.casefold() if character.isalnum())


def draw_checks(
    captions: Mapping[str, Sequence[str]],
    images: Sequence[str],
    *,
    count: int,
    similarity: Similarity,
    rng: np.random.Generator,
) -> tuple[Pair, ...]:
    """Check cases on `count` of `images`, each with a dissimilar caption of another image.

    The right caption is the human caption of the image that fits it best by the same measure.
    """
    if not count:
        return ()
    able = [image for image in images if captions.get(image)]
    others = sorted(image for image in captions if captions[image])
    if len(able) < count or len(others) < 2:
        raise StudyError(
            f"{count} check cases need {max(count, 2)} images with human captions, but there are "
            f"{len(able)}; give --images with captions, or --set checks=0 for no check cases"
        )
    chosen = [able[place] for place in rng.permutation(len(able))[:count]]
    sampled = [others[place] for place in rng.permutation(len(others))[:1000]]
    owners = [image for image in sampled for _ in captions[image][:1]]
    wrong = [" ".join(captions[image][0].split()) for image in sampled]
    scores = np.asarray(similarity(chosen, wrong), dtype=np.float64)  # (count, W)
    return tuple(
        Pair(
            image,
            _best_own(image, captions, similarity),
            wrong[_dissimilar(row, owners, image, rng)],
            is_check=True,
        )
        for image, row in zip(chosen, scores, strict=True)
    )


def _best_own(image: str, captions: Mapping[str, Sequence[str]], similarity: Similarity) -> str:
    own = [" ".join(caption.split()) for caption in captions[image]]
    return own[int(np.argmax(similarity([image], own)[0]))]


def _dissimilar(
    row: FloatArray, owners: Sequence[str], image: str, rng: np.random.Generator
) -> int:
    """Draw one of the least similar captions; the very least are always the same few odd ones."""
    others = np.array([place for place, owner in enumerate(owners) if owner != image])
    order = others[np.argsort(row[others], kind="stable")]
    limit = max(1, math.ceil(LEAST_SIMILAR * len(order)))
    # If many tie at the limit (cosine 0 of words), all of them can be drawn.
    least = order[: max(limit, int((row[order] <= row[order[limit - 1]]).sum()))]
    return int(rng.choice(least))


def text_similarity(captions: Mapping[str, Sequence[str]]) -> Similarity:
    """TF-IDF cosine between a caption and all captions of the image as one text.

    >>> near = text_similarity({"1": ["a red bus"], "2": ["two dogs run"]})
    >>> near(["1"], ["a red car", "dogs"]).round(2).tolist()
    [[0.54, 0.0]]
    """
    words = {image: Counter(_words(said)) for image, said in captions.items()}
    frequency = Counter(word for counts in words.values() for word in counts)

    def weigh(counts: Mapping[str, int]) -> dict[str, float]:
        vector = {w: n * math.log(1 + len(words) / (1 + frequency[w])) for w, n in counts.items()}
        length = math.sqrt(sum(v * v for v in vector.values())) or 1.0
        return {w: v / length for w, v in vector.items()}

    def similarity(images: Sequence[str], candidates: Sequence[str]) -> FloatArray:
        columns = [weigh(Counter(_words([caption]))) for caption in candidates]
        rows = [weigh(words[image]) for image in images]
        return np.array(
            [[sum(v * row.get(w, 0.0) for w, v in c.items()) for c in columns] for row in rows]
        )

    return similarity


def _words(captions: Sequence[str]) -> list[str]:
    return [word for tokens in tokenize_all(list(captions)) for word in tokens]
