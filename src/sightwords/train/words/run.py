"""From captioned images to a word detector (section 3.1): the steps of `sightwords train words`.

corpus -> table of images -> vocabulary and targets -> trained network -> detector directory
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from sightwords.config import Config, WordsConfig
from sightwords.errors import ConfigError, MissingExtraError
from sightwords.parallel import available_cores
from sightwords.text.pos import coarse_pos
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.batches import Stream
from sightwords.train.data.image_table import ImageTable
from sightwords.train.data.image_table import Progress as TableProgress
from sightwords.train.data.shard_loader.decoded_cache import DecodedCache
from sightwords.train.data.shard_loader.index import ShardIndex, shard_index
from sightwords.train.data.shard_loader.lanes import Lanes
from sightwords.train.data.shard_loader.loader import ShardLoader
from sightwords.train.data.sources import corpus_table
from sightwords.train.fit import Progress
from sightwords.train.processes import first_then_others, is_first, process_group
from sightwords.train.weights import read_weights, save_weights, weights_sum
from sightwords.train.words.backbones import RANDOM_WITHOUT_WEIGHTS, build_backbone
from sightwords.train.words.boxes.export import export_boxes
from sightwords.train.words.boxes.network import BoxNetwork
from sightwords.train.words.boxes.training import (
    Proposals,
    boxes_of,
    new_box_network,
    train_boxes,
)
from sightwords.train.words.export import Export, export_detector
from sightwords.train.words.labels import CAPTIONS, caption_targets, unknown_where_few
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.teacher import Teachers
from sightwords.train.words.training import train_words
from sightwords.words.artefact import InputSpec

log = logging.getLogger(__name__)

WEIGHTS_NAME = "weights.safetensors"
TAGGED_CAPTIONS = 25_000
"""Captions that are tagged: enough to tell each word's part of speech."""


def train_detector(
    sources: Sequence[str],
    config: Config,
    out: str | os.PathLike[str],
    *,
    weights: str | None = None,
    vocabulary: Vocabulary | None = None,
    device: str = "cpu",
    cache: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    hold_out: int = 0,
    stream: bool = False,
    keep: str | os.PathLike[str] | None = None,
    proposals: Proposals | None = None,
    compile_network: bool = False,
    table_progress: TableProgress | None = None,
    progress: Progress | None = None,
) -> tuple[WordNetwork, Vocabulary, Export | None]:
    """Train on the images of a corpus and write a detector directory, without calibration.

    Decoded images and checkpoints are kept in `cache` (default: `out`/training); the same call
    resumes a killed run. With `stream` the sources are shards, and decoded images are kept only in
    `keep`, a folder on a local disk, if it is given. `hold_out` images, chosen by their ids, are
    left for calibration. With `proposals`, boxes for the id of every image, the detector looks for
    words in boxes instead of a grid (section 6.3). Under torchrun only the first process writes,
    and returns an `Export`.
    """
    work = Path(cache) if cache is not None else Path(out) / "training"
    words = config.vocabulary.size if vocabulary is None else len(vocabulary)
    size_px = config.images.size_px
    _check_teachers(config.words)
    with process_group(device) as mine:
        # Built before the images are read, so that wrong settings are found at once.
        build = new_network if proposals is None else new_box_network
        spec = build(config.words, words, weights=weights, size_px=size_px).backbone.input
        images: ImageTable | ShardLoader
        if stream:
            index = first_then_others(
                lambda: shard_index(
                    sources,
                    work,
                    hold_out=hold_out,
                    workers=available_cores() if workers is None else workers,
                    progress=table_progress,
                )
            )
            vocabulary = vocabulary or index_vocabulary(index, size=words)
            lanes = streamed_lanes(index, vocabulary, config, spec, keep=keep)
            images = ShardLoader(lanes, device=mine, workers=workers)
        else:
            images = table = first_then_others(
                lambda: corpus_table(
                    sources,
                    work,
                    side_px=stored_px(spec, config.words),
                    resize=spec.resize,
                    workers=workers,
                    hold_out=hold_out,
                    progress=table_progress,
                )
            )
            vocabulary = vocabulary or caption_vocabulary(table, size=words)
        network = fit_detector(
            images,
            vocabulary,
            config.words,
            weights=weights,
            size_px=size_px,
            device=mine,
            folder=work,
            captions_per_image=config.vocabulary.captions_per_image,
            proposals=proposals,
            compile_network=compile_network,
            progress=progress,
        )
        if not is_first():
            return network, vocabulary, None
        save_weights(network, Path(out) / WEIGHTS_NAME)
        if isinstance(network, BoxNetwork):
            return network, vocabulary, export_boxes(network, vocabulary, config, out)
        return network, vocabulary, export_detector(network, vocabulary, config, out)


def new_network(
    config: WordsConfig, words: int, *, weights: str | None, size_px: int
) -> WordNetwork:
    """An untrained detector on a pretrained backbone."""
    if config.regions != "grid" or config.frozen:
        raise ConfigError(
            f"regions is {config.regions!r}, frozen is {config.frozen}; a network over a grid has "
            "regions = 'grid' and is fine-tuned: for boxes give --set run.proposals=FILE"
        )
    torch.manual_seed(config.seed)
    if weights is None and config.backbone in RANDOM_WITHOUT_WEIGHTS:
        log.warning("no pretrained weights given: %s starts from random weights", config.backbone)
    backbone = build_backbone(
        config.backbone,
        weights=weights,
        size_px=size_px,
        drop_path=config.drop_path,
        grid=config.grid,
    )
    network = WordNetwork(
        backbone,
        words,
        pooling=config.pooling,
        dropout=config.dropout,
        initial_bias=config.initial_bias,
    )
    network.start = weights_sum(weights)
    return network


def fit_detector(
    table: ImageTable | Stream,
    vocabulary: Vocabulary,
    config: WordsConfig,
    *,
    weights: str | None,
    size_px: int,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    captions_per_image: int = CAPTIONS,
    proposals: Proposals | None = None,
    compile_network: bool = False,
    teachers: Sequence[WordNetwork] = (),
    progress: Progress | None = None,
) -> WordNetwork:
    """Train a detector of the vocabulary's words on every image of a table, or of a stream.

    `teachers` are trained detectors of the same words, whose mean opinion takes `teacher_weight` of
    the targets, and all of what no caption of an image with few captions names.
    """
    _check_teachers(config, teachers)
    targets = None
    if isinstance(table, ImageTable):
        targets = caption_targets(
            table.captions,
            vocabulary,
            labels=config.labels,
            captions_per_image=captions_per_image,
        )
        if teachers:
            targets = unknown_where_few(targets, table.captions)
    if proposals is not None:
        if not isinstance(table, ImageTable) or targets is None:
            raise ConfigError("proposals need decoded images on disk; leave out stream")
        return train_boxes(
            new_box_network(config, len(vocabulary), weights=weights, size_px=size_px),
            table,
            boxes_of(proposals, table.ids, limit=config.proposals),
            targets,
            config,
            device=device,
            folder=folder,
            progress=progress,
        )
    return train_words(
        new_network(config, len(vocabulary), weights=weights, size_px=size_px),
        table,
        targets,
        config,
        device=device,
        folder=folder,
        compile_network=compile_network,
        teachers=Teachers(teachers) if teachers else None,
        progress=progress,
    )


def _check_teachers(config: WordsConfig, teachers: Sequence[WordNetwork] = ()) -> None:
    """Refuse a share for teachers where there are none."""
    if config.teacher_weight and not teachers:
        raise ConfigError(
            f"teacher_weight is {config.teacher_weight} in [words], but nothing teaches this "
            "detector; leave it out, or name [[teachers]] and [[pupils]] in a recipe of "
            "'sightwords train all'"
        )


def stored_px(spec: InputSpec, config: WordsConfig) -> int:
    """Side of the stored images: a little larger than the input where crops are cut from them.

    >>> from sightwords.images import TORCHVISION
    >>> spec = InputSpec(
    ...     resize="square", size_px=224, resample="bicubic", normalization=TORCHVISION
    ... )
    >>> stored_px(spec, WordsConfig()), stored_px(spec, WordsConfig(smallest_crop=0.5))
    (224, 256)
    """
    return spec.size_px if config.smallest_crop == 1 else spec.size_px * 8 // 7


def caption_vocabulary(table: ImageTable, *, size: int) -> Vocabulary:
    """The most frequent words of the captions, with parts of speech if the tagger is there."""
    captions = [caption for group in table.captions for caption in group]
    vocabulary = Vocabulary.of_captions(captions, size=size)
    return _tagged(vocabulary, captions[:: len(captions) // TAGGED_CAPTIONS + 1])


def index_vocabulary(index: ShardIndex, *, size: int) -> Vocabulary:
    """The same for the captions of shards."""
    return _tagged(Vocabulary.of_counts(index.words, size=size), index.sample)


def streamed_lanes(
    index: ShardIndex,
    vocabulary: Vocabulary,
    config: Config,
    spec: InputSpec,
    *,
    keep: str | os.PathLike[str] | None = None,
) -> Lanes:
    """Shards as the input of a network with these settings."""
    side_px = stored_px(spec, config.words)
    key = f"{index.key}|{spec.resize}"
    return Lanes(
        index,
        vocabulary,
        config.words,
        side_px=side_px,
        resize=spec.resize,
        captions_per_image=config.vocabulary.captions_per_image,
        cache=(
            DecodedCache(keep, key=key, images=len(index), side_px=side_px)
            if keep is not None
            else None
        ),
    )


def _tagged(vocabulary: Vocabulary, captions: Sequence[str]) -> Vocabulary:
    try:
        return vocabulary.with_pos(coarse_pos(vocabulary.words, tokenize_all(captions)))
    except MissingExtraError as error:
        log.warning("words have no part of speech: %s", error)
        return vocabulary


def load_weights(network: WordNetwork, path: str | os.PathLike[str]) -> WordNetwork:
    """Put saved weights into a network of the same kind."""
    network.load_state_dict(read_weights(path)[0])
    return network
