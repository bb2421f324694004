"""Check cases: pairs whose answer is known, so that who does not look is found out.

The right caption is one that a person wrote of the photograph, the wrong one a person wrote of
another, far apart. How far is for the caller to say: `Similarity` is DMSM's cosine (section 5.1)
where a bundle has one; `text_similarity` needs no model and compares captions with captions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sightwords.errors import StudyError
from sightwords.study.model import Pair
from sightwords.text.ptb import tokenize_all

FloatArray = npt.NDArray[np.float64]

Similarity = Callable[[Sequence[str], Sequence[str]], npt.NDArray[np.floating]]
"""(image ids, captions) -> (images, captions): how well each caption fits each image."""

FARTHEST = 0.1
"""A wrong caption is drawn from this share of the others, the least similar ones."""


def draw_checks(
    captions: Mapping[str, Sequence[str]],
    images: Sequence[str],
    *,
    count: int,
    similarity: Similarity,
    rng: np.random.Generator,
) -> tuple[Pair, ...]:
    """Check cases on `count` of `images`, each with a caption of another image, far apart.

    The right caption is the one of the image's own that fits it best by the same measure.
    """
    if not count:
        return ()
    able = [image for image in images if captions.get(image)]
    others = sorted(image for image in captions if captions[image])
    if len(able) < count or len(others) < 2:
        raise StudyError(
            f"{count} check cases need as many images with human captions and one more, found "
            f"{len(able)}; give --images with captions, or --checks 0 to do without"
        )
    chosen = [able[place] for place in rng.permutation(len(able))[:count]]
    sampled = [others[place] for place in rng.permutation(len(others))[:1000]]
    owners = [image for image in sampled for _ in captions[image][:1]]
    wrong = [" ".join(captions[image][0].split()) for image in sampled]
    scores = np.asarray(similarity(chosen, wrong), dtype=np.float64)  # (count, W)
    return tuple(
        Pair(image, _best_own(image, captions, similarity), wrong[place], is_check=True)
        for image, row in zip(chosen, scores, strict=True)
        for place in [_far(row, owners, image, rng)]
    )


def _best_own(image: str, captions: Mapping[str, Sequence[str]], similarity: Similarity) -> str:
    own = [" ".join(caption.split()) for caption in captions[image]]
    return own[int(np.argmax(similarity([image], own)[0]))]


def _far(row: FloatArray, owners: Sequence[str], image: str, rng: np.random.Generator) -> int:
    """One of the least similar captions, drawn: the very least would be the same few oddities."""
    foreign = np.array([place for place, owner in enumerate(owners) if owner != image])
    order = foreign[np.argsort(row[foreign], kind="stable")]
    limit = max(1, math.ceil(FARTHEST * len(order)))
    # Where many tie at the edge (cosine 0 of words), all of them are as far.
    far = order[: max(limit, int((row[order] <= row[order[limit - 1]]).sum()))]
    return int(rng.choice(far))


def text_similarity(captions: Mapping[str, Sequence[str]]) -> Similarity:
    """TF-IDF cosine between a caption and all captions of the image, taken as one text.

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
