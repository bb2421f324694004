"""M-best lists with the CIDEr of each sentence, as tensors for the grounded model (section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.config import GroundedConfig
from sightwords.errors import InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.grounded.data import NOTHING, Sentences
from sightwords.train.rerank.lists import Lists


@dataclass(frozen=True)
class ScoredLists:
    """M-best lists with rewards; all tensors are (G, M) but `sentences`."""

    ids: tuple[str, ...]
    sentences: Sentences
    rewards: Tensor
    """CIDEr-D, 1 for an average caption."""
    valid: Tensor
    """False where a list has fewer than M sentences."""

    def __len__(self) -> int:
        return len(self.sentences)

    def to(self, device: str | torch.device) -> ScoredLists:
        """The same on another device."""
        return ScoredLists(
            self.ids,
            self.sentences.to(device),
            self.rewards.to(device),
            self.valid.to(device),
        )


def scored_lists(
    lists: Lists,
    rewards: npt.NDArray[np.floating],
    vocabulary: Vocabulary,
    rows: Mapping[str, int],
    config: GroundedConfig,
    *,
    hypotheses: int = 64,
) -> ScoredLists:
    """The first `hypotheses` of every list whose image has features; `rewards` is (H,)."""
    if lists.words[: len(vocabulary)] != vocabulary.words:
        raise InputError(
            "the lists have other words than the vocabulary; make them with its language model"
        )
    if len(rewards) != lists.hypotheses:
        raise InputError(f"{len(rewards)} values for {lists.hypotheses} sentences; give one each")
    kept = np.array([i for i, name in enumerate(lists.ids.tolist()) if name in rows], np.int64)
    if not len(kept):
        raise InputError("no image of the lists has features; compute those of the same corpus")
    end, places = len(vocabulary) + 1, config.maximum_length + 1
    shape = (len(kept), hypotheses)
    targets = np.full((*shape, places), NOTHING, dtype=np.int16)
    values = np.zeros(shape, np.float32)
    valid = np.zeros(shape, np.bool_)
    counts = np.minimum(np.diff(lists.offsets)[kept], hypotheses)
    row = np.repeat(np.arange(len(kept)), counts)
    rank = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    hypothesis = lists.offsets[kept][row] + rank
    values[row, rank], valid[row, rank] = rewards[hypothesis], True
    length = np.minimum(lists.lengths[hypothesis], places)
    which = np.repeat(np.arange(len(row)), length)
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    token = lists.tokens[lists.token_offsets[hypothesis][which] + place]
    targets[row[which], rank[which], place] = token.astype(np.int16)
    ends = np.flatnonzero(length < places)
    targets[row[ends], rank[ends], length[ends]] = end
    images = torch.tensor([rows[lists.ids[i]] for i in kept.tolist()])
    return ScoredLists(
        tuple(lists.ids[kept].tolist()),
        Sentences(images, torch.from_numpy(targets)),
        torch.from_numpy(values),
        torch.from_numpy(valid),
    )
