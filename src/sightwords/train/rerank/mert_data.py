"""M-best lists -> the features of every sentence, as re-ranking will compute them.

Lists (+ similarities and grounded scores of their sentences) -> (H, F), one row a hypothesis
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.rerank.features import Candidates, sentence_features
from sightwords.train.rerank.lists import Lists, offered_words
from sightwords.types import FloatArray

Given = Mapping[str, npt.NDArray[np.float32]]


def image_candidates(lists: Lists) -> Iterator[Candidates]:
    """Each image's list as `rerank.features` takes it."""
    closed = np.array([word in lists.closed_class for word in lists.words], dtype=np.bool_)
    for image in range(len(lists)):
        low, high = int(lists.offsets[image]), int(lists.offsets[image + 1])
        first, last = int(lists.token_offsets[low]), int(lists.token_offsets[high])
        words = slice(lists.word_offsets[image], lists.word_offsets[image + 1])
        probs = lists.word_probs[words]
        yield Candidates(
            tokens=lists.tokens[first:last].astype(np.int64),
            starts=lists.token_offsets[low : high + 1] - first,
            log_probs=lists.log_probs[low:high],
            words=lists.word_ids[words].astype(np.int64),
            probs=probs,
            precisions=lists.word_precisions[words],
            offered=offered_words(probs, lists.minimum_prob),
            closed=closed,
        )


def list_features(
    lists: Lists,
    names: Sequence[str],
    given: Given | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> FloatArray:
    """(H, F) in the order of `names`; `given` holds (H,) values of networks, by name."""
    columns = dict(given or {})
    for name, values in columns.items():
        if len(values) != lists.hypotheses:
            raise InputError(
                f"{len(values)} values of {name!r} for {lists.hypotheses} sentences; they belong "
                "to other lists: score these lists again"
            )
    found = np.empty((lists.hypotheses, len(names)), dtype=np.float32)
    for image, candidates in enumerate(image_candidates(lists)):
        part = slice(int(lists.offsets[image]), int(lists.offsets[image + 1]))
        mine = {name: values[part] for name, values in columns.items()}
        found[part] = sentence_features(candidates, names, mine)
        if progress:
            progress(image + 1, len(lists))
    return found


def refuse_test_images(lists: Lists) -> None:
    """Tuning on test images would make every later score a lie."""
    refuse_test_splits(lists.ids.tolist(), lists.splits.tolist())


def refuse_test_splits(ids: Sequence[str], splits: Sequence[str]) -> None:
    """The same, for the ids and splits of images.

    >>> refuse_test_splits(["9"], ["test"])
    Traceback (most recent call last):
        ...
    sightwords.errors.InputError: 1 of 1 tuning images are test images, the first '9' (split \
'test'); tune on validation images
    """
    tests = [place for place, split in enumerate(splits) if "test" in split.lower()]
    if tests:
        raise InputError(
            f"{len(tests)} of {len(ids)} tuning images are test images, the first "
            f"{ids[tests[0]]!r} (split {splits[tests[0]]!r}); tune on validation images"
        )
