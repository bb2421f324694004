"""Learning rates of detector training (section 3.1): by step, by layer, by kind of parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from sightwords.config import WordsConfig
from sightwords.train.words.network import WordNetwork


def rate_factor(step: int, steps: int, config: WordsConfig) -> float:
    """Share of the full learning rate at a step.

    >>> paper = WordsConfig()
    >>> [rate_factor(s, 240, paper) for s in (0, 79, 80, 160)]
    [1.0, 1.0, 0.1, 0.01]
    """
    if config.schedule == "step" and step >= config.warmup * steps:
        return float(10.0 ** -(3 * step // steps))
    return warm_cosine(step, steps, config.warmup)


def warm_cosine(step: int, steps: int, warmup: float) -> float:
    """Share of the full rate: up in a straight line for `warmup` of the steps, then a half cosine.

    >>> [round(warm_cosine(step, 100, 0.1), 2) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    warm = warmup * steps
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1.0, steps - warm)))


def build_optimizer(network: WordNetwork, config: WordsConfig) -> torch.optim.Optimizer:
    """SGD with momentum (the paper) or AdamW, with a rate for each group of parameters."""
    groups = list(parameter_groups(network, config))
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum)
    fused = next(network.parameters()).is_cuda
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=fused)


def parameter_groups(network: WordNetwork, config: WordsConfig) -> Iterator[dict[str, Any]]:
    """One group a layer and kind, from the input upwards; frozen parameters are in none.

    The last layer is what starts from nothing: it learns `head_rate` times faster. Under SGD
    biases learn twice as fast and do not decay, as in the authors' solver.
    """
    layers = network.groups()
    for depth, parameters in enumerate(layers):
        is_new = depth == len(layers) - 1
        decay = config.layer_decay ** (len(layers) - 2 - depth)
        rate = config.learning_rate * (config.head_rate if is_new else decay)
        for vectors in (False, True):
            chosen = [p for p in parameters if p.requires_grad and (p.ndim < 2) == vectors]
            doubled = 2.0 if vectors and config.optimizer == "sgd" else 1.0
            if chosen:
                yield {
                    "params": chosen,
                    "lr": rate * doubled,
                    "weight_decay": 0.0 if vectors else config.weight_decay,
                }
