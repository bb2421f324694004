"""The language model: training speed, distance to the exact gradient, perplexity, size on disk.

    python benchmarks/language.py speed DATA --held-out scores.npz
    python benchmarks/language.py exact DATA --held-out scores.npz --val scores-val.npz
    python benchmarks/language.py rows DATA --held-out scores.npz --val scores-val.npz
    python benchmarks/language.py size DATA --held-out scores.npz --val scores-val.npz
    python benchmarks/language.py text DATA --held-out scores.npz --val scores-val.npz

DATA holds coco-train.jsonl.gz and coco-val.jsonl.gz; for `text`, coco-extra-sentences.txt.gz and
flickr30k-text.jsonl.gz too. `--held-out`: word scores (ids, words,
scores) of coco-train images that the detector did not see; the other images' detections are drawn
from these (`train/language_noise.py`). `--train-words`: out-of-fold scores of all images, used
in place of drawn ones. `--val`: word scores of coco-val images; perplexity is of these.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.config import LanguageConfig
from sightwords.corpus import open_corpus
from sightwords.errors import require
from sightwords.evaluate.ids import canonical_id
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.language.features import count_collisions, places
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language import fit_language, noise_words, run_block, smoothed
from sightwords.train.language_data import (
    AttributeSets,
    Detections,
    Sentences,
    encode_blocks,
    joined,
    read_detections,
)
from sightwords.train.language_noise import simulate_scores
from sightwords.train.language_perplexity import corpus_perplexity
from sightwords.train.language_state import new_state
from sightwords.types import Example

BEST = LanguageConfig(attribute_samples=3, learning_rate=0.5)
"""The settings of the default model."""


@dataclasses.dataclass(frozen=True)
class Data:
    """Training and validation text with attribute sets."""

    vocabulary: Vocabulary
    train: Sentences
    sets: AttributeSets
    held_out: Sentences
    """The part of `train` with real detections."""
    val: Sentences | None
    val_sets: AttributeSets | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["speed", "exact", "rows", "size", "text"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--train-words", type=Path)
    parser.add_argument("--val", type=Path)
    parser.add_argument("--words", type=int, default=4000, help="vocabulary of the language model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", type=Path, help="size: keep the one-byte model here")
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    parts = {"speed": speed, "exact": exact, "rows": rows, "size": size, "text": text}
    parts[args.part](load(args), args)


def load(args: argparse.Namespace) -> Data:
    train = list(open_corpus(args.data / "coco-train.jsonl.gz"))
    captions = (caption for example in train for caption in example.captions)
    vocabulary = Vocabulary.of_captions(captions, size=args.words)
    if args.train_words:
        detections = read_detections(args.train_words, threshold=BEST.attribute_threshold)
        kind = "out of fold"
    else:
        detections, kind = drawn_detections(train, args.held_out), "drawn from held-out images"
    sets = detections.attribute_sets(vocabulary)
    held = set(read_detections(args.held_out).names)
    text = joined(encode_blocks(train, vocabulary, sets))
    own = [example for example in train if canonical_id(example.id) in held]
    print(
        f"{len(text)} captions, {len(text.tokens)} tokens, {len(vocabulary)} words, "
        f"{len(sets.ids) / len(sets):.1f} attributes an image, {kind}"
    )
    val, val_sets = None, None
    if args.val:
        val_sets = read_detections(args.val).attribute_sets(vocabulary)
        images = [
            example
            for example in open_corpus(args.data / "coco-val.jsonl.gz")
            if val_sets.row(example.id) >= 0
        ]
        val = joined(encode_blocks(images, vocabulary, val_sets))
        print(f"perplexity on {len(val)} captions of {len(images)} coco-val images")
    own_text = joined(encode_blocks(own, vocabulary, sets))
    return Data(vocabulary, text, sets, own_text, val, val_sets)


def drawn_detections(examples: list[Example], held_out: Path) -> Detections:
    """Real detections where there are some, drawn ones elsewhere."""
    table = read_word_scores(held_out)
    words = Vocabulary(tuple(table.words), tuple(range(len(table.words), 0, -1)), 10**9)
    mentions = words.mentions([example.captions for example in examples])
    names = [canonical_id(example.id) for example in examples]
    place = {name: i for i, name in enumerate(names)}
    known = [place[canonical_id(name)] for name in table.ids]
    real = table.scores.astype(np.float32)
    scores = simulate_scores(mentions, mentions[known], real)
    scores[known] = real
    found, columns = np.nonzero(scores >= BEST.attribute_threshold)
    return Detections(names, list(table.words), found, columns, scores[found, columns])


def fit(data: Data, config: LanguageConfig, *, threads: int, **options: Any) -> MaxEnt:
    sentences = options.pop("text", data.train)
    return fit_language(
        lambda: [sentences], data.vocabulary, config, sets=data.sets, threads=threads, **options
    )


def measured(data: Data, model: MaxEnt, threads: int) -> float:
    if data.val is None or data.val_sets is None:
        raise SystemExit("give --val")
    return corpus_perplexity(model, data.val, data.val_sets, threads=threads).value


def speed(data: Data, args: argparse.Namespace) -> None:
    """NCE beside plain torch and beside random access to a table of the same size."""
    counts = np.bincount(data.train.tokens, minlength=len(data.vocabulary) + 2)
    part = first_sentences(data.train, 60_000)
    features_a_token = 3 * (BEST.noise_samples + 1)
    noise = noise_words(counts, BEST)
    rates = {}
    for threads in sorted({1, args.threads}):
        state = new_state(np.log(smoothed(counts)).astype(np.float32), BEST)

        def once(epoch: int, state: Any = state, threads: int = threads) -> None:
            run_block(
                state,
                part,
                data.sets,
                BEST,
                noise=noise,
                rate=0.5,
                seed=(0, epoch),
                threads=threads,
            )

        seconds = best_of(once, 3)
        rates[threads] = len(part.tokens) / seconds
        roof = random_access(BEST.table_bits, threads)
        print(
            f"NCE, {threads} threads: {rates[threads] / 1e6:.2f} M tokens/s, "
            f"{rates[threads] * features_a_token / 1e6:.0f} M hashed weights/s; random access "
            f"{roof / 1e6:.0f} M/s: factor {roof / (rates[threads] * features_a_token):.1f}"
        )
    few = first_sentences(data.train, 3000)
    for name, autograd in (("embeddings and autograd", True), ("gradient by hand", False)):
        plain = torch_rate(data, few, noise, threads=args.threads, autograd=autograd)
        print(
            f"torch, {name}, {args.threads} threads: {plain / 1e3:.1f} k tokens/s: "
            f"NCE is {rates[args.threads] / plain:.0f} times as fast"
        )
    started = time.perf_counter()
    fit(data, BEST, threads=args.threads)
    print(f"all captions, {BEST.epochs} epochs: {time.perf_counter() - started:.0f} s")


def best_of(run: Callable[[int], None], times: int) -> float:
    found = []
    for epoch in range(times):
        started = time.perf_counter()
        run(epoch)
        found.append(time.perf_counter() - started)
    return min(found)


def first_sentences(text: Sentences, count: int) -> Sentences:
    return Sentences(
        text.tokens[: text.offsets[count]],
        text.offsets[: count + 1],
        text.images[:count],
        text.weights[:count],
    )


def random_access(bits: int, threads: int, accesses: int = 10_000_000) -> float:
    """Read, add and write at random places of a table of 2^bits cells: places a second."""
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
    data: Data, sentences: Sentences, noise: Any, *, threads: int, autograd: bool, batch: int = 2048
) -> float:
    """Tokens a second of NCE in batches of tensors.

    With `autograd`, the straightforward way: sparse embeddings, a loss, torch's own AdaGrad.
    Without, a tuned one: the gradient written down by hand, AdaGrad as two `index_add_`. Contexts
    are hashed and sets laid out beforehand, outside the time: only what torch does is measured.
    """
    torch = require("torch", extra="train", purpose="this benchmark")
    torch.set_num_threads(threads)
    outcomes, samples, mask = (
        len(data.vocabulary) + 2,
        BEST.noise_samples,
        (1 << BEST.table_bits) - 1,
    )
    starts, targets, sets, logs = (torch.from_numpy(x) for x in unrolled(data, sentences))
    counts = np.bincount(data.train.tokens, minlength=outcomes)
    log_q = torch.from_numpy(np.log(smoothed(counts))).float()
    log_kq = log_q + np.log(samples)
    draws = torch.from_numpy(noise[:-samples].copy()).long()
    labels = torch.zeros(batch, samples + 1)
    labels[:, 0] = 1
    table = torch.nn.Embedding.from_pretrained(
        torch.zeros(mask + 1, 1), freeze=not autograd, sparse=True
    )
    unigram = torch.nn.Embedding.from_pretrained(
        torch.cat([log_q, log_q])[:, None], freeze=not autograd, sparse=True
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
    found = places(
        np.array(history, dtype=np.int32), table_bits=BEST.table_bits, distant=False
    ).transpose(2, 0, 1)
    return (
        np.ascontiguousarray(found),
        text.tokens.astype(np.int64),
        np.array(remaining, dtype=np.int64),
        np.array(logs, dtype=np.float32),
    )


def exact(data: Data, args: argparse.Namespace) -> None:
    """NCE beside the exact gradient on the captions with real detections."""
    config = dataclasses.replace(BEST, table_bits=22)
    trials: list[tuple[str, bool, LanguageConfig]] = [
        ("exact gradient", True, dataclasses.replace(config, learning_rate=0.7, epochs=4)),
        ("NCE, 3 of 15 from the set", False, dataclasses.replace(config, learning_rate=0.7)),
        (
            "NCE, unigram noise",
            False,
            dataclasses.replace(config, learning_rate=0.7, attribute_samples=0),
        ),
    ]
    best = None
    for name, is_exact, settings in trials:
        started = time.perf_counter()
        model = fit(data, settings, threads=args.threads, exact=is_exact, text=data.held_out)
        seconds = time.perf_counter() - started
        found = measured(data, model, args.threads)
        best = best or found
        print(
            f"{name}: perplexity {found:.2f} ({100 * (found / best - 1):+.1f} %), "
            f"{settings.epochs} epochs of {len(data.held_out)} captions in {seconds:.0f} s",
            flush=True,
        )


def rows(data: Data, args: argparse.Namespace) -> None:
    """The paper's rows, and the two extensions it tried."""
    blind = np.full_like(data.train.images, -1)
    trials: dict[str, LanguageConfig] = {
        "Unconditioned": BEST,
        "Baseline": dataclasses.replace(BEST, score_feature=False),
        "+ Score": BEST,
        "+ Score, unigram noise alone": dataclasses.replace(BEST, attribute_samples=0),
        "+ Score + distant bigrams": dataclasses.replace(BEST, distant_bigrams=True),
        "+ Score + log-bilinear": dataclasses.replace(BEST, log_bilinear=True),
    }
    for name, config in trials.items():
        here = data
        if name == "Unconditioned" and data.val is not None:
            here = dataclasses.replace(
                data,
                train=dataclasses.replace(data.train, images=blind),
                val=dataclasses.replace(data.val, images=np.full_like(data.val.images, -1)),
            )
        started = time.perf_counter()
        model = fit(here, config, threads=args.threads)
        seconds = time.perf_counter() - started
        found = measured(here, model, args.threads)
        print(f"{name}: perplexity {found:.2f}, trained in {seconds:.0f} s", flush=True)


def text(data: Data, args: argparse.Namespace) -> None:
    """What sentences without detected words are worth, by their weight."""
    without = np.isin(data.train.images, np.unique(data.held_out.images), invert=True)
    extra = [args.data / "coco-extra-sentences.txt.gz", args.data / "flickr30k-text.jsonl.gz"]
    more = joined(encode_blocks(open_corpus(extra), data.vocabulary))
    trials = {"held-out captions alone": data.held_out}
    for weight in (0.1, 0.3, 1.0):
        name = f"held out, the other coco-train captions as text of weight {weight}"
        trials[name] = dataclasses.replace(
            data.train,
            images=np.where(without, -1, data.train.images).astype(np.int32),
            weights=np.where(without, weight, 1).astype(np.float32),
        )
    trials["all of coco-train, detections as said above"] = data.train
    for weight in (0.1, 0.3):
        name = f"all of coco-train, {len(more)} more sentences as text of weight {weight}"
        scaled = dataclasses.replace(more, weights=more.weights * np.float32(weight))
        trials[name] = joined([data.train, scaled])
    for name, sentences in trials.items():
        model = fit(data, BEST, threads=args.threads, text=sentences)
        print(f"{name}: perplexity {measured(data, model, args.threads):.2f}", flush=True)


def size(data: Data, args: argparse.Namespace) -> None:
    """Perplexity, collisions and megabytes by table size and bytes a weight."""
    histories, signs = observed(data)
    for bits in (22, 23, 24):
        model = fit(data, dataclasses.replace(BEST, table_bits=bits), threads=args.threads)
        crowd = count_collisions(histories, data.train.tokens, signs, table_bits=bits)
        print(f"2^{bits}: {crowd.features} features, {100 * crowd.share:.1f} % collide")
        for name, one in (("float32", model), ("int8", model.quantised())):
            with tempfile.TemporaryDirectory() as folder:
                one.save(folder)
                stored = sum(path.stat().st_size for path in Path(folder).iterdir())
            held = one.table.nbytes + one.unigram.nbytes + one.end.nbytes + one.follower_ids.nbytes
            print(
                f"  {name}: perplexity {measured(data, one, args.threads):.2f}, "
                f"{stored / 1e6:.1f} MB on disk, {held / 1e6:.1f} MB in memory",
                flush=True,
            )
        if args.save:
            model.quantised().save(args.save / f"bits{bits}")


def observed(data: Data) -> tuple[Any, Any]:
    """History and sign of every token of the training text."""
    text, start = data.train, len(data.vocabulary) + 2
    padded = np.concatenate([np.full(3, start, dtype=np.int32), text.tokens])
    place = np.arange(len(text.tokens)) - np.repeat(text.offsets[:-1], np.diff(text.offsets))
    columns = []
    for back in (3, 2, 1):
        before = padded[3 - back : 3 - back + len(text.tokens)]
        columns.append(np.where(place >= back, before, start))
    owner = np.repeat(text.images, np.diff(text.offsets)).astype(np.int64)
    width = len(data.vocabulary) + 2
    in_sets = np.repeat(np.arange(len(data.sets)), np.diff(data.sets.offsets)) * width
    signs = np.isin(owner * width + text.tokens, in_sets + data.sets.ids) & (owner >= 0)
    return np.stack(columns, axis=1).astype(np.int32), signs.astype(np.int8)


if __name__ == "__main__":
    main()
