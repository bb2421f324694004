"""From captioned images and their proposals to a detector over boxes (section 6.3).

corpus + proposal file -> table, boxes, targets -> trained `BoxNetwork` -> detector directory

The twin of `train/words/run.py`, which scans a grid.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sightwords.config import Config
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.image_table import ImageTable
from sightwords.train.data.image_table import Progress as TableProgress
from sightwords.train.data.sources import corpus_table
from sightwords.train.fit import Progress
from sightwords.train.weights import save_weights
from sightwords.train.words.boxes.export import export_boxes
from sightwords.train.words.boxes.network import BoxNetwork
from sightwords.train.words.boxes.training import (
    boxes_of,
    new_box_network,
    score_boxes,
    train_boxes,
)
from sightwords.train.words.export import Export
from sightwords.train.words.labels import caption_targets
from sightwords.train.words.run import WEIGHTS_NAME, caption_vocabulary
from sightwords.train.words.validation import judge
from sightwords.types import Box

Proposals = Mapping[str, Sequence[Box]]


def train_box_detector(
    sources: Sequence[str],
    proposals: Proposals,
    config: Config,
    out: str | os.PathLike[str],
    *,
    weights: str | None = None,
    vocabulary: Vocabulary | None = None,
    device: str = "cpu",
    cache: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    hold_out: int = 0,
    table_progress: TableProgress | None = None,
    progress: Progress | None = None,
) -> tuple[BoxNetwork, Vocabulary, Export]:
    """Train on the images of a corpus and write a detector directory, without calibration.

    `proposals` has boxes for the id of every image. Decoded images and checkpoints are kept in
    `cache`, as in `train.words.run.train_detector`.
    """
    work = Path(cache) if cache is not None else Path(out) / "training"
    count = config.vocabulary.size if vocabulary is None else len(vocabulary)
    # Built before the images are decoded, so that wrong settings are found at once.
    network = new_box_network(config.words, count, weights=weights, size_px=config.images.size_px)
    spec = network.backbone.input
    table = corpus_table(
        sources,
        work,
        side_px=spec.size_px,
        resize=spec.resize,
        workers=workers,
        hold_out=hold_out,
        progress=table_progress,
    )
    boxes = boxes_of(proposals, table.ids, limit=config.words.proposals)
    vocabulary = vocabulary or caption_vocabulary(table, size=count)
    if len(vocabulary) != count:  # fewer words in the captions than were asked for
        network = new_box_network(
            config.words, len(vocabulary), weights=weights, size_px=config.images.size_px
        )
    targets = caption_targets(
        table.captions,
        vocabulary,
        labels=config.words.labels,
        captions_per_image=config.vocabulary.captions_per_image,
    )
    train_boxes(
        network,
        table,
        boxes,
        targets,
        config.words,
        device=device,
        folder=work,
        progress=progress,
    )
    save_weights(network, Path(out) / WEIGHTS_NAME)
    return network, vocabulary, export_boxes(network, vocabulary, config, out)


def validate_boxes(
    network: BoxNetwork,
    table: ImageTable,
    proposals: Proposals,
    vocabulary: Vocabulary,
    *,
    limit: int,
    device: str = "cpu",
) -> tuple[float, float]:
    """AP and PHR of all words; images with a single caption are left out."""
    table = table.select([row for row, said in enumerate(table.captions) if len(said) > 1])
    boxes = boxes_of(proposals, table.ids, limit=limit)
    means = judge(score_boxes(network, table, boxes, device=device), table, vocabulary)[-1]
    return means.ap, means.phr
