"""Language training: NCE against the exact gradient, threads, checkpoints, streams."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightwords.config import LanguageConfig
from sightwords.errors import ConfigError, CorpusError, VocabularyError
from sightwords.language.features import Attributes
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import (
    AttributeSets,
    Detections,
    Sentences,
    encode,
    joined,
)
from sightwords.train.language.maxent import Kernel, fit_language
from sightwords.train.language.noise_draws import draws, noise_rows, smoothed
from sightwords.train.language.perplexity import corpus_perplexity

pytest.importorskip("numba")

VOCABULARY = Vocabulary(("a", "dog", "cat", "runs", "sleeps"), (9, 5, 4, 3, 2), 30)
CONFIG = LanguageConfig(table_bits=12, epochs=8, learning_rate=0.5)


def corpus(count: int = 600, *, seed: int = 0) -> tuple[Sentences, AttributeSets, list[list[str]]]:
    """Dogs run and cats sleep, mostly; the detector sees dog or cat, mostly."""
    rng = np.random.default_rng(seed)
    sentences, rows, columns, probs = [], [], [], []
    for i in range(count):
        animal = "dog" if rng.random() < 0.5 else "cat"
        does = "runs" if (animal == "dog") == (rng.random() < 0.9) else "sleeps"
        sentences.append(["a", animal, does] if rng.random() < 0.8 else ["a", animal])
        seen = animal if rng.random() < 0.85 else "zebra"
        rows.append(i)
        columns.append(("dog", "cat", "zebra").index(seen))
        probs.append(0.9 if rng.random() < 0.5 else 0.4)
    sets = Detections(
        [str(i) for i in range(count)], ["dog", "cat", "zebra"],
        np.array(rows), np.array(columns), np.array(probs),
    ).attribute_sets(VOCABULARY)  # fmt: skip
    return encode(sentences, range(count), VOCABULARY), sets, sentences


def fit(data: Sentences, sets: AttributeSets, **options: object) -> MaxEnt:
    config = dataclasses.replace(CONFIG, **options)  # type: ignore[arg-type]
    return fit_language(lambda: [data], VOCABULARY, config, sets=sets)


def test_nce_comes_near_the_exact_gradient(learn_exactly: Kernel) -> None:
    data, sets, _ = corpus(2000)
    test, test_sets, _ = corpus(seed=1)
    nce = fit_language(lambda: [data], VOCABULARY, CONFIG, sets=sets)
    exact = fit_language(lambda: [data], VOCABULARY, CONFIG, sets=sets, kernel=learn_exactly)
    ours = corpus_perplexity(nce, test, test_sets).value
    best = corpus_perplexity(exact, test, test_sets).value
    assert ours < 1.03 * best
    assert best < 1.6  # a: nothing to guess; the animal: seen; what it does: mostly known


@pytest.mark.parametrize("samples", [0, 3, 6])
def test_scores_are_nearly_normalised_whatever_the_noise(samples: int) -> None:
    """NCE must know how often each word is drawn as noise, also from the attribute set: only then
    do probabilities add up to 1."""
    data, sets, _ = corpus(4000)
    model = fit(data, sets, attribute_samples=samples)
    after_a = model.histories(np.array([0, 1], np.int32))[1:]
    remaining, scores = np.zeros((1, model.size), np.bool_), np.zeros(model.size, np.float32)
    remaining[0, VOCABULARY.ids["dog"]] = True
    scores[VOCABULARY.ids["dog"]] = math.log(0.9)
    assert np.exp(model.score_next(after_a, remaining, scores)).sum() == pytest.approx(1, abs=0.1)


def test_detected_words_help_and_so_does_their_score() -> None:
    data, sets, _ = corpus(2000)
    blind = dataclasses.replace(data, images=np.full_like(data.images, -1))
    test, test_sets, _ = corpus(seed=1)
    blind_test = dataclasses.replace(test, images=np.full_like(test.images, -1))
    with_words = corpus_perplexity(fit(data, sets), test, test_sets).value
    without = corpus_perplexity(fit(blind, sets), blind_test, test_sets).value
    assert with_words < 0.9 * without  # the animal, one bit in 3.8 tokens, is mostly seen
    assert fit(data, sets, score_feature=False).score == 0


@pytest.mark.parametrize("options", [{}, {"distant_bigrams": True}, {"log_bilinear": True}])
def test_both_ways_to_measure_agree(options: dict[str, bool]) -> None:
    data, sets, sentences = corpus(200)
    model = fit(data, sets, **options)
    fast = corpus_perplexity(model, data, sets, threads=2)
    log_prob, tokens, unknown = 0.0, 0, 0
    for number, sentence in enumerate(sentences):
        row = sets.row(str(number))
        part = slice(sets.offsets[row], sets.offsets[row + 1])
        found = Attributes(sets.ids[part], sets.log_probs[part])
        log_prob += float(model.token_log_probs(sentence, found).sum())
        tokens += len(sentence) + 1
        unknown += sum(word not in model.vocabulary for word in sentence)
    assert fast.value == pytest.approx(math.exp(-log_prob / tokens), rel=1e-5)
    assert (fast.tokens, fast.unknown, fast.sentences) == (tokens, unknown, len(sentences))


def test_one_thread_is_reproducible_and_two_come_near() -> None:
    data, sets, _ = corpus()
    first, again = fit(data, sets), fit(data, sets)
    assert np.array_equal(first.table, again.table)
    assert not np.array_equal(first.table, fit(data, sets, seed=1).table)
    two = fit_language(lambda: [data], VOCABULARY, CONFIG, sets=sets, threads=2)
    one = corpus_perplexity(first, data, sets).value
    assert corpus_perplexity(two, data, sets).value == pytest.approx(one, rel=0.05)


class StoppedError(Exception):
    pass


def _stop_after(epoch: int) -> Callable[[object], None]:
    def progress(report: object) -> None:
        if report.epoch == epoch:  # type: ignore[attr-defined]
            raise StoppedError

    return progress


def test_a_stopped_run_resumes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data, sets, _ = corpus()
    whole = fit(data, sets, log_bilinear=True)
    config = dataclasses.replace(CONFIG, log_bilinear=True)
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(StoppedError):
        fit_language(
            lambda: [data], VOCABULARY, config,
            sets=sets, checkpoint=path, progress=_stop_after(3),
        )  # fmt: skip
    resumed = fit_language(lambda: [data], VOCABULARY, config, sets=sets, checkpoint=path)
    assert np.array_equal(whole.table, resumed.table)
    assert np.array_equal(whole.unigram, resumed.unigram)
    with pytest.raises(ConfigError, match="checkpoint"):
        fit_language(lambda: [data], VOCABULARY, CONFIG, sets=sets, checkpoint=path)
    path.write_bytes(b"no zip")  # a damaged checkpoint: from the beginning, with a message
    over = fit_language(lambda: [data], VOCABULARY, config, sets=sets, checkpoint=path)
    assert np.array_equal(whole.table, over.table)
    assert "checkpoint.npz: has no sum at its end" in caplog.text


def test_text_may_come_in_blocks() -> None:
    data, sets, _ = corpus()
    halves = [
        Sentences(data.tokens[:cut], data.offsets[:301], data.images[:300], data.weights[:300])
        if first
        else Sentences(
            data.tokens[cut:], data.offsets[300:] - cut, data.images[300:], data.weights[300:]
        )
        for first, cut in ((True, data.offsets[300]), (False, data.offsets[300]))
    ]
    assert np.array_equal(joined(halves).offsets, data.offsets)
    streamed = fit_language(lambda: iter(halves), VOCABULARY, CONFIG, sets=sets)
    whole = corpus_perplexity(fit(data, sets), data, sets).value
    assert corpus_perplexity(streamed, data, sets).value == pytest.approx(whole, rel=0.05)


def test_sentences_of_weight_0_change_nothing() -> None:
    data, sets, _ = corpus(100)
    silent = dataclasses.replace(data, weights=np.zeros_like(data.weights))
    model = fit(silent, sets)
    assert not model.table.any()


def test_followers_are_what_followed() -> None:
    data, sets, _ = corpus()
    model = fit(data, sets)
    assert model.followers(0).tolist() == [1, 2]
    assert model.followers(model.start_id).tolist() == [0]
    assert model.followers(3).tolist() == []  # runs is followed by the end alone


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("together", [1, 12, 16])
def test_noise_follows_the_counts(power: float, together: int) -> None:
    counts = np.concatenate([[0, 700, 200, 99], np.arange(30) * 40])
    shares = smoothed(counts, power=power)
    rows = draws(shares, together, np.random.default_rng(0), bits=12)
    assert rows.shape == (4096, together)
    drawn = np.bincount(rows.reshape(-1), minlength=len(counts)) / rows.size
    assert drawn == pytest.approx(shares, abs=4 / 4096)
    assert np.all(np.diff(rows, axis=1) >= 0)


def test_rows_of_noise_hold_every_sample() -> None:
    config = dataclasses.replace(CONFIG, attribute_samples=3)
    noise = noise_rows(smoothed(np.array([700, 200, 99, 0])), config)
    assert np.all(noise.times.sum(axis=1) == 12)
    assert noise.spare.shape == (len(noise.words), 3)
    assert np.array_equal(noise.drawn, (noise.times > 0).sum(axis=1))


def test_long_sentences_are_learned_in_pieces() -> None:
    words = ["a", "dog", "cat"] * 30
    data = encode([words] * 200, [-1] * 200, VOCABULARY)
    model = fit_language(lambda: [data], VOCABULARY, CONFIG)
    assert model.sentence_log_prob(words) / len(words) > math.log(0.9)
    assert model.sentence_log_prob(words[:40]) / 40 > math.log(0.7)  # its end comes early


def test_nothing_to_train_on() -> None:
    with pytest.raises(CorpusError, match="captions"):
        fit_language(list, VOCABULARY, CONFIG)


def test_the_objective_rises() -> None:
    data, sets, _ = corpus()
    seen: list[float] = []
    fit_language(
        lambda: [data], VOCABULARY, CONFIG,
        sets=sets, progress=lambda report: seen.append(report.objective),
    )  # fmt: skip
    assert len(seen) == CONFIG.epochs
    assert seen[-1] > seen[0] > 16 * math.log(0.5)


def test_training_starts_from_a_trained_model() -> None:
    data, sets, _ = corpus()
    model = fit(data, sets)
    few = encode([["a", "cat", "sleeps"]], [-1], VOCABULARY)  # words of another kind of caption
    slow = dataclasses.replace(CONFIG, epochs=1, first_square=1e12)
    same = fit_language(lambda: [few], VOCABULARY, slow, start=model)
    assert same.table == pytest.approx(model.table, abs=1e-4)
    assert (same.attribute, same.score) == pytest.approx((model.attribute, model.score))
    before = model.followers(0).tolist()
    assert set(before) <= set(same.followers(0).tolist())
    moved = fit_language(lambda: [few], VOCABULARY, CONFIG, start=model)
    sentence = ["a", "cat", "sleeps"]
    assert moved.sentence_log_prob(sentence) > model.sentence_log_prob(sentence)
    other = dataclasses.replace(VOCABULARY, words=("a", "dog", "cat", "runs", "sits"))
    with pytest.raises(VocabularyError, match="has 5 words"):
        fit_language(lambda: [few], other, CONFIG, start=model)
