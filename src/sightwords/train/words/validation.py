"""How good is a network while it is still in torch? AP and PHR over a table (section 6.2)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch

from sightwords.metrics.word_ap import count_words, evaluate_words
from sightwords.metrics.word_table import WordMeans, summarise
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.augment import network_input
from sightwords.train.data.image_table import ImageTable
from sightwords.train.fit import precision
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import image_prob
from sightwords.types import FloatArray

log = logging.getLogger(__name__)


def validate(
    network: WordNetwork, table: ImageTable, vocabulary: Vocabulary, *, device: str = "cpu"
) -> WordMeans:
    """The column `All` of the paper's Table 3; images with a single caption are left out."""
    several = [row for row, captions in enumerate(table.captions) if len(captions) > 1]
    if len(several) < len(table):
        log.warning("%d images with a single caption left out", len(table) - len(several))
        table = table.select(several)
    return judge(score_images(network, table, device=device), table, vocabulary)[-1]


def judge(scores: FloatArray, table: ImageTable, vocabulary: Vocabulary) -> Sequence[WordMeans]:
    """All columns from scores (N, V) of a table whose images have two captions or more."""
    captions = [[tuple(tokens) for tokens in tokenize_all(group)] for group in table.captions]
    truth = count_words(captions, vocabulary.words)
    tags = vocabulary.pos or ("other",) * len(vocabulary)
    return summarise(evaluate_words(scores, truth, vocabulary.words, tags))


@torch.no_grad()
def score_images(
    network: WordNetwork, table: ImageTable, *, device: str = "cpu", batch_size: int = 128
) -> FloatArray:
    """(N, V) probability of each word in each image of a table."""
    network.eval().to(device)
    scores = []
    for start in range(0, len(table), batch_size):
        rows = slice(start, start + batch_size)
        pixels = torch.from_numpy(np.array(table.pixels[rows])).to(device)
        content = torch.from_numpy(table.content[rows]).to(device)
        images = network_input(pixels, content, network.backbone.input)
        with precision(torch.device(device)):
            output = network(images)
        scores.append(image_prob(output.bag_logits).cpu().numpy())
    return np.concatenate(scores)
