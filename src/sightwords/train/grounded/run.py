"""Features, words, captions and M-best lists -> a trained grounded model, in one call.

Stage: re-ranking (section 5), beyond the paper.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from sightwords.config import GroundedConfig
from sightwords.errors import InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.grounded.data import (
    WordSet,
    captions_of,
    images_of,
    words_of_lists,
)
from sightwords.train.grounded.export import new_grounded
from sightwords.train.grounded.lists import scored_lists
from sightwords.train.grounded.network import GroundedNetwork
from sightwords.train.grounded.training import OnEpoch, train_captions, train_lists
from sightwords.train.rerank.lists import Lists
from sightwords.types import Example


def fit_grounded(
    features: ImageFeatures,
    examples: Iterable[Example],
    lists: Lists,
    rewards: npt.NDArray[np.floating],
    *,
    vocabulary: Vocabulary,
    config: GroundedConfig,
    words: Mapping[str, WordSet] | None = None,
    device: str = "cpu",
    caption_seconds: float = math.inf,
    list_seconds: float = math.inf,
    folder: str | os.PathLike[str] | None = None,
    on_epoch: OnEpoch | None = None,
) -> GroundedNetwork:
    """Train on captions, then on lists. Returns the averaged weights, on the CPU.

    `examples` are captioned training images and, optionally, text. `rewards` is the CIDEr of each
    sentence of `lists` (`list_metrics.measure`). The lists hold the detected words of their images;
    `words` adds those of others. Lists of test images are refused. With `folder` checkpoints are
    kept there: the same call resumes where it stopped.
    """
    forbidden = sorted({s for s in lists.splits.tolist() if "test" in s})
    if forbidden:
        raise InputError(
            f"lists of split {forbidden[0]!r}: test images must not train the grounded model; "
            "give lists of training images"
        )
    images = images_of(features, {**words_of_lists(lists), **(words or {})}, config)
    captions = captions_of(examples, vocabulary, images.rows, config, no_image=images.no_image)
    scored = scored_lists(lists, rewards, vocabulary, images.rows, config)
    images, captions, scored = images.to(device), captions.to(device), scored.to(device)
    network = new_grounded(config, vocabulary, images.shape).to(device)
    network = train_captions(
        network,
        images,
        captions,
        budget_seconds=caption_seconds,
        folder=folder,
        on_epoch=on_epoch,
    )
    network = train_lists(
        network,
        images,
        scored,
        captions,
        budget_seconds=list_seconds,
        folder=folder,
        on_epoch=on_epoch,
    )
    return network.cpu().eval()
