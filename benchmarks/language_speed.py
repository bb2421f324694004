"""Speed of language training, beside random access to memory and beside torch.

    python -m benchmarks.language_speed DATA --words top-words.npz

DATA holds coco-train.jsonl.gz. Measures NCE on one thread and on several, random access to a table
of the same size, torch with embeddings and autograd, with sparse gradients, and with the gradient
written by hand, and a whole training on all captions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.language_data import Data, add_arguments, first_sentences, fit, load

from sightwords.errors import require
from sightwords.language.features import context_starts
from sightwords.train.language.data import Sentences
from sightwords.train.language.maxent import run_block
from sightwords.train.language.noise_draws import noise_rows, smoothed
from sightwords.train.language.state import new_state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    speed(load(args), args)


def speed(data: Data, args: argparse.Namespace) -> None:
    """NCE beside plain torch and beside random access to a table of the same size."""
    config = data.config
    counts = np.bincount(data.train.tokens, minlength=len(data.vocabulary) + 2)
    part = first_sentences(data.train, 60_000)
    features_a_token = 3 * (config.noise_samples + 1)
    shares = smoothed(counts, power=config.noise_power)
    noise = noise_rows(shares, config)
    rates = {}
    for threads in sorted({1, args.threads}):
        state = new_state(np.log(shares).astype(np.float32), config)

        def once(epoch: int, state: Any = state, threads: int = threads) -> None:
            run_block(
                state,
                part,
                data.sets,
                config,
                noise=noise,
                rate=0.5,
                seed=(0, epoch),
                threads=threads,
            )

        seconds = best_of(once, 3)
        rates[threads] = len(part.tokens) / seconds
        roof = random_access(config.table_bits, threads)
        print(
            f"NCE, {threads} threads: {rates[threads] / 1e6:.2f} M tokens/s, "
            f"{rates[threads] * features_a_token / 1e6:.0f} M hashed weights/s; random access "
            f"{roof / 1e6:.0f} M/s: factor {roof / (rates[threads] * features_a_token):.1f}"
        )
    few = first_sentences(data.train, 3000)
    ways: dict[str, tuple[bool, bool]] = {
        "nn.Embedding and autograd": (True, False),
        "the same with sparse gradients": (True, True),
        "gradient by hand": (False, True),
    }
    for name, (autograd, sparse) in ways.items():
        plain = torch_rate(
            data, few, shares, threads=args.threads, autograd=autograd, sparse=sparse
        )
        print(
            f"torch, {name}, {args.threads} threads: {plain / 1e3:.1f} k tokens/s: "
            f"NCE is {rates[args.threads] / plain:.0f} times as fast"
        )
    started = time.perf_counter()
    fit(data, config, threads=args.threads)
    print(f"all captions, {config.epochs} epochs: {time.perf_counter() - started:.0f} s")


def best_of(run: Callable[[int], None], times: int) -> float:
    found = []
    for epoch in range(times):
        started = time.perf_counter()
        run(epoch)
        found.append(time.perf_counter() - started)
    return min(found)


def random_access(bits: int, threads: int, accesses: int = 10_000_000) -> float:
    """Read, add and write at random places of a table of 2^bits cells: places per second."""
    from concurrent.futures import ThreadPoolExecutor

    numba = require("numba", extra="fast", purpose="this benchmark")
    cells = np.ones((1 << bits, 2), dtype=np.float32)

    def touch(cells: Any, count: int, state: Any) -> None:
        for _ in range(count):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            cells[np.int64((state >> np.uint64(24)) & np.uint64(len(cells) - 1)), 0] += np.float32(
                1
            )

    compiled = numba.njit(nogil=True)(touch)
    compiled(cells, 10, np.uint64(1))

    def once(epoch: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            seeds = [np.uint64(88172645463325252 + 977 * i + epoch) for i in range(threads)]
            list(pool.map(lambda seed: compiled(cells, accesses, seed), seeds))

    return threads * accesses / best_of(once, 3)


def torch_rate(
    data: Data,
    sentences: Sentences,
    shares: Any,
    *,
    threads: int,
    autograd: bool,
    sparse: bool,
    batch: int = 2048,
) -> float:
    """Tokens per second of NCE in batches of tensors.

    autograd: embeddings, a loss, torch's own AdaGrad, with `sparse` gradients or without.
    Otherwise: the gradient by hand, AdaGrad as two `index_add_`. Contexts are hashed and word sets
    laid out before the clock starts, so that only torch is measured.
    """
    torch = require("torch", extra="train", purpose="this benchmark")
    torch.set_num_threads(threads)
    outcomes, samples, mask = (
        len(data.vocabulary) + 2,
        data.config.noise_samples,
        (1 << data.config.table_bits) - 1,
    )
    starts, targets, sets, logs = (torch.from_numpy(x) for x in unrolled(data, sentences))
    log_q = torch.from_numpy(np.log(shares)).float()
    log_kq = log_q + np.log(samples)
    draws = torch.from_numpy(np.random.default_rng(0).choice(outcomes, 1 << 20, p=shares))
    labels = torch.zeros(batch, samples + 1)
    labels[:, 0] = 1
    table = torch.nn.Embedding.from_pretrained(
        torch.zeros(mask + 1, 1), freeze=not autograd, sparse=sparse
    )
    unigram = torch.nn.Embedding.from_pretrained(
        torch.cat([log_q, log_q])[:, None], freeze=not autograd, sparse=sparse
    )
    scalars = torch.zeros(2, requires_grad=autograd)
    squares = [torch.ones(mask + 1), torch.ones(2 * outcomes)]
    optimizer = None
    if autograd:
        optimizer = torch.optim.Adagrad(
            [table.weight, unigram.weight, scalars], lr=0.5, initial_accumulator_value=1.0
        )

    def step(weights: Any, sums: Any, slots: Any, gradient: Any) -> None:
        sums.index_add_(0, slots, gradient * gradient)
        weights[:, 0].index_add_(0, slots, 0.5 * gradient / sums[slots].sqrt())

    def learn(rows: slice) -> None:
        picked = draws[torch.randint(len(draws), (batch, samples))]
        words = torch.cat([targets[rows, None], picked], dim=1)  # (batch, 16)
        same = words[:, :, None] == sets[rows, None, :]
        held = same.any(dim=2)
        single = held.long() * outcomes + words
        here = torch.where(held[:, None], starts[rows, 1, :, None], starts[rows, 0, :, None])
        slots = (here + words[:, None]) & mask  # (batch, 3, 16)
        seen = (same * logs[rows, None, :]).sum(dim=2)
        total = table(slots)[..., 0].sum(dim=1) + unigram(single)[..., 0]
        odds = total + held * scalars[0] + seen * scalars[1] - log_kq[words]
        if optimizer is not None:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                odds, labels, reduction="sum"
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return
        gradient = labels - torch.sigmoid(odds)
        each = gradient[:, None].expand(-1, 3, -1).flatten()
        step(table.weight, squares[0], slots.flatten(), each)
        step(unigram.weight, squares[1], single.flatten(), gradient.flatten())
        scalars.add_(torch.stack([(gradient * held).sum(), (gradient * seen).sum()]) * 1e-4)

    batches = [slice(i, i + batch) for i in range(0, len(targets) - batch + 1, batch)]
    for rows in batches[:2]:
        learn(rows)
    started = time.perf_counter()
    for rows in batches:
        learn(rows)
    return len(batches) * batch / (time.perf_counter() - started)


def unrolled(data: Data, text: Sentences) -> tuple[Any, ...]:
    """Every token's context places (N, 2, 3), word, remaining set (N, A) and its scores."""
    history, remaining, logs = [], [], []
    width = int(np.diff(data.sets.offsets).max())
    for s in range(len(text)):
        ids = text.tokens[text.offsets[s] : text.offsets[s + 1]]
        padded = [*[len(data.vocabulary) + 2] * 3, *ids.tolist()]
        part = slice(*data.sets.offsets[text.images[s] : text.images[s] + 2])
        words, scores = data.sets.ids[part].copy(), data.sets.log_probs[part]
        for t, word in enumerate(ids):
            history.append(padded[t : t + 3])
            gap = width - len(words)
            remaining.append(np.pad(words, (0, gap), constant_values=-1))
            logs.append(np.pad(scores, (0, gap)))
            words = np.where(words == word, -1, words)
    found = context_starts(
        np.array(history, dtype=np.int32), table_bits=data.config.table_bits, distant=False
    ).transpose(2, 0, 1)
    return (
        np.ascontiguousarray(found),
        text.tokens.astype(np.int64),
        np.array(remaining, dtype=np.int64),
        np.array(logs, dtype=np.float32),
    )


if __name__ == "__main__":
    main()
