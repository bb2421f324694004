"""Training of the similarity model: loss by hand, gradients, learning, resuming."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from sightwords.config import DmsmConfig
from sightwords.errors import ConfigError, CorpusError, InputError
from sightwords.train.dmsm.data import DmsmData, dmsm_data, with_lists
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.dmsm.loss import dmsm_loss, list_loss, negatives
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.dmsm.training import DmsmFit, train_dmsm
from sightwords.train.dmsm.vectors import evaluate_network, list_agreement
from sightwords.train.rerank.lists import Lists

COLOURS = ("red", "green", "blue")
THINGS = ("wall", "car", "dog", "hat")
TINY = DmsmConfig(
    objective="both_ways", negatives=0, hidden_units=12, semantic_units=6, token_units=4,
    word_units=5, own_words=3, epochs=6, batch_size=30, learning_rate=0.01,
)  # fmt: skip
PAPER = DmsmConfig(hidden_units=12, semantic_units=6, negatives=5, batch_size=30, epochs=6,
                   learning_rate=0.01)  # fmt: skip


def _coloured(count: int = 60, *, seed: int = 0) -> tuple[ImageFeatures, dict[str, list[str]]]:
    """Two tokens: one tells the colour, one the thing."""
    rng = np.random.default_rng(seed)
    colour, thing = rng.integers(3, size=count), rng.integers(4, size=count)
    features = 0.1 * rng.standard_normal((count, 2, 4))
    features[np.arange(count), 0, colour] += 1
    features[np.arange(count), 1, thing] += 1
    ids = tuple(str(i) for i in range(count))
    captions = {
        name: [f"a {COLOURS[c]} {THINGS[t]}", f"the {THINGS[t]} is {COLOURS[c]}"]
        for name, c, t in zip(ids, colour, thing, strict=True)
    }
    return ImageFeatures(ids, features.astype(np.float16)), captions


@pytest.fixture(scope="module")
def data() -> DmsmData:
    return dmsm_data(*_coloured(), TINY)


def _loss(cosines: Any, owners: list[int], **settings: Any) -> float:
    keys = ("gamma", "log_norm", "extra")
    options = {k: settings.pop(k) for k in keys if k in settings}
    config = DmsmConfig(**{"negatives": 0, **settings})
    tensor = torch.tensor(cosines, dtype=torch.float64)
    return float(
        dmsm_loss(tensor, torch.tensor(owners), config=config, **{"gamma": 10.0, **options})
    )


def test_the_posterior_by_hand() -> None:
    """Eq. 5 and 6: cosines .5 | .3 and .1 | .4, gamma 10 -> log(1 + e^-2), log(1 + e^-3)."""
    expected = (math.log1p(math.exp(-2)) + math.log1p(math.exp(-3))) / 2
    assert _loss([[0.5, 0.3], [0.1, 0.4]], [0, 1]) == pytest.approx(expected)


def test_both_ways_by_hand() -> None:
    """Columns beside rows: .5 against .1, .4 against .3."""
    rows = math.log1p(math.exp(-2)) + math.log1p(math.exp(-3))
    columns = math.log1p(math.exp(-4)) + math.log1p(math.exp(-1))
    found = _loss([[0.5, 0.3], [0.1, 0.4]], [0, 1], objective="both_ways")
    assert found == pytest.approx((rows + columns) / 4)


def test_noise_contrastive_estimation_by_hand() -> None:
    """Each cosine by itself: the matching ones true, the others noise; log of the norm taken."""

    def logistic(x: float) -> float:
        return math.log1p(math.exp(-x))

    expected = (logistic(5 - 1) + logistic(-(3 - 1)) + logistic(4 - 1) + logistic(-(1 - 1))) / 2
    found = _loss([[0.5, 0.3], [0.1, 0.4]], [0, 1], objective="nce", log_norm=1.0)
    assert found == pytest.approx(expected)


def test_captions_of_the_same_image_do_not_count() -> None:
    assert _loss([[0.5, 0.9, 0.3], [0.9, 0.5, 0.3], [0.1, 0.1, 0.4]], [0, 0, 1]) == pytest.approx(
        (2 * math.log1p(math.exp(-2)) + math.log1p(2 * math.exp(-3))) / 3
    )


@pytest.mark.parametrize("objective", ["posterior", "nce"])
def test_sentences_of_the_list_are_non_matching(objective: str) -> None:
    """One image has one more at .4, the other none (NaN)."""
    cosines, extra = [[0.5, 0.3], [0.1, 0.4]], torch.tensor([[0.4], [torch.nan]])
    found = _loss(cosines, [0, 1], objective=objective, extra=extra)
    if objective == "posterior":
        expected = (math.log(1 + math.exp(-2) + math.exp(-1)) + math.log1p(math.exp(-3))) / 2
    else:
        expected = _loss(cosines, [0, 1], objective="nce") + math.log1p(math.exp(4)) / 2
    assert found == pytest.approx(expected)


def test_so_many_negatives_are_drawn_of_other_images() -> None:
    torch.manual_seed(0)
    owners = torch.tensor([0, 0, 1, 2, 3, 4, 5])
    counts = torch.zeros(7, 7)
    for _ in range(300):
        chosen = negatives(owners, 3)
        assert chosen.sum(1).tolist() == [3] * 7
        counts += chosen
    assert not counts[owners[:, None] == owners[None]].any()
    others = counts[2][torch.arange(7) != 2] / 300
    np.testing.assert_allclose(others, 0.5, atol=0.12)  # 3 of 6


@pytest.mark.parametrize("config", [TINY, PAPER, replace(TINY, objective="nce", own_words=0)])
def test_gradients_are_finite_differences(data: DmsmData, config: DmsmConfig) -> None:
    """Of the whole way from weights to loss, in double precision, a few weights of each tensor."""
    loop = DmsmFit(dmsm_data(*_coloured(), replace(config, learned_gamma=True)),
                    replace(config, learned_gamma=True, negatives=0), device="cpu")  # fmt: skip
    loop.network.double()
    captions = np.arange(0, 24, 2)

    def loss() -> Any:
        owners, features, sentences, _ = loop.rows.take(captions)
        # The encoders end in float32; the doubles are looked at before that.
        images = _double(loop.network.image, features.double())
        texts = _double_text(loop, sentences[:, 0])
        return dmsm_loss(
            images @ texts.T, owners, config=loop.config, gamma=loop.network.gamma,
            log_norm=loop.network.log_norm,
        )  # fmt: skip

    loop.network.zero_grad()
    loss().backward()
    rng = np.random.default_rng(0)
    for name, weight in loop.network.named_parameters():
        if not weight.requires_grad:
            continue
        assert weight.grad is not None
        flat, slope = weight.data.view(-1), weight.grad.view(-1)
        for place in rng.integers(len(flat), size=3):
            before, step = flat[place].item(), 1e-5
            values = []
            for moved in (before + step, before - step):
                flat[place] = moved
                values.append(float(loss().detach()))
            flat[place] = before
            found = (values[0] - values[1]) / (2 * step)
            assert found == pytest.approx(float(slope[place]), rel=1e-4, abs=1e-7), name


def _double(encoder: Any, features: Any) -> Any:
    """`ImageEncoder.forward` without its last step to float32, written out once more."""
    hidden = (features - encoder.mean) * encoder.scale
    if encoder.token is not None:
        hidden = torch.tanh(encoder.token(hidden))
    hidden = hidden.flatten(1)
    for layer in encoder.layers:
        hidden = torch.tanh(layer(hidden))
    return hidden / hidden.norm(dim=1, keepdim=True)


def _double_text(loop: DmsmFit, sentences: Any) -> Any:
    """`TextEncoder.forward` likewise, as a convolution over the vectors of words side by side."""
    text, rows = loop.network.text, loop.rows
    table = torch.nn.functional.pad(text.trigrams, (0, 0, 1, 0))
    vectors = table[rows.trigrams.long()].sum(1)
    if text.own is not None:
        vectors = vectors + torch.nn.functional.pad(text.own, (0, 0, 1, 0))[rows.own.long()]
    parts = vectors if text.projection is None else text.projection(vectors)
    parts = parts.view(len(vectors), text.window, text.hidden)
    found = []
    for row in sentences.tolist():
        tokens = [0, *(t for t in row if t), 0]
        sums = [
            parts[a, 0] + parts[b, 1] + parts[c, 2] + text.bias
            for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False)
        ]
        found.append(torch.tanh(torch.stack(sums)).max(0).values)
    hidden = torch.tanh(text.semantic(torch.stack(found)))
    return hidden / hidden.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("config", [TINY, PAPER])
def test_the_networks_are_those_written_out(data: DmsmData, config: DmsmConfig) -> None:
    loop = DmsmFit(dmsm_data(*_coloured(), config), config, device="cpu")
    loop.network.eval()
    _, features, sentences, _ = loop.rows.take(np.arange(20))
    with torch.no_grad():
        torch.testing.assert_close(
            loop.network.image(features), _double(loop.network.image, features.float())
        )
        texts = loop.network.text(*loop.rows.words(sentences))
        torch.testing.assert_close(texts[:, 0], _double_text(loop, sentences[:, 0]))


@pytest.mark.parametrize(
    "config",
    [
        replace(TINY, learned_gamma=True, weight_average=0.9, epochs=15),
        replace(PAPER, epochs=15),
        replace(TINY, objective="nce", epochs=30),
        replace(TINY, dropout=0.1, word_dropout=0.1, token_dropout=0.1, feature_noise=0.1,
                epochs=20),
    ],
    ids=["default", "paper", "nce", "disturbed"],
)  # fmt: skip
def test_it_learns_colours_and_things(config: DmsmConfig) -> None:
    features, captions = _coloured(120)
    network = train_dmsm(dmsm_data(features, captions, config), config)
    unseen, theirs = _coloured(60, seed=1)
    kinds: dict[str, str] = {}
    for name in unseen.ids:
        kinds.setdefault(theirs[name][0], name)  # one image of each kind, so that one is right
    found = evaluate_network(network, unseen.select(list(kinds.values())), theirs)
    assert found.images == 12
    assert found.image_to_text.at_1 > 0.8
    assert found.text_to_image.at_1 > 0.8


def test_a_resumed_run_ends_with_the_same_weights(data: DmsmData, tmp_path: Path) -> None:
    config = replace(TINY, dropout=0.2, weight_average=0.9, learned_gamma=True)
    whole = train_dmsm(data, config)
    loop = DmsmFit(data, config, device="cpu")
    for _ in range(7):
        loop.advance()
    loop.save(tmp_path / "dmsm-checkpoint.pt")
    resumed = train_dmsm(data, config, folder=tmp_path)
    for (name, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_checkpoint_of_another_run_is_refused(data: DmsmData, tmp_path: Path) -> None:
    DmsmFit(data, TINY, device="cpu").save(tmp_path / "dmsm-checkpoint.pt")
    with pytest.raises(ConfigError, match=r"dmsm-checkpoint\.pt"):
        train_dmsm(data, replace(TINY, seed=1), folder=tmp_path)


def test_mirrored_features_are_drawn_half_of_the_time(data: DmsmData) -> None:
    features = ImageFeatures(data.features.ids, data.features.features, -data.features.features)
    loop = DmsmFit(replace(data, features=features), TINY, device="cpu")
    torch.manual_seed(0)
    _, found, _, _ = loop.rows.take(np.arange(100))
    owners = data.images[:100]
    plain = (found.numpy() == data.features.features[owners]).all(axis=(1, 2))
    assert 30 < plain.sum() < 70


def _lists(ids: list[str], sentences: list[list[str]]) -> Lists:
    words = tuple(sorted({w for group in sentences for s in group for w in s.split()}))
    flat = [[words.index(w) for w in s.split()] for group in sentences for s in group]
    starts = np.cumsum([0, *map(len, flat)])
    return Lists(
        ids=np.array(ids),
        splits=np.array(["train"] * len(ids)),
        words=words,
        word_offsets=np.zeros(len(ids) + 1, np.int64),
        word_ids=np.zeros(0, np.uint16),
        word_probs=np.zeros(0, np.float32),
        word_precisions=np.zeros(0, np.float32),
        offsets=np.cumsum([0, *map(len, sentences)]),
        token_offsets=starts,
        tokens=np.array([t for s in flat for t in s], np.uint16),
        log_probs=np.zeros(len(flat), np.float32),
        coverage=np.zeros(len(ids), np.uint8),
    )


def test_sentences_of_lists_are_kept_with_their_worth(data: DmsmData) -> None:
    lists = _lists(["3", "5"], [["a red zebra", "a cat", "a dog"], ["a hat", "hats"]])
    found = with_lists(data, lists, np.array([0.1, 0.2, 0.9, 0.3, 0.3], np.float32))
    assert found.listed is not None
    assert found.worth is not None
    assert found.words[: len(data.words)] == data.words
    read = {
        " ".join(found.words[t] for t in tokens if t): round(float(worth), 3)
        for tokens, worth in zip(found.listed[3], found.worth[3], strict=True)
        if tokens.any()
    }
    assert read == {"a red zebra": -0.3, "a cat": -0.2, "a dog": 0.5}  # less the mean of .4
    assert np.isnan(found.worth[[0, 1, 2, 4]]).all()
    assert np.isfinite(found.worth[[3, 5]]).all()  # lists of fewer than 32 repeat
    with pytest.raises(InputError, match="4 values for 5 sentences"):
        with_lists(data, lists, np.zeros(4, np.float32))


@pytest.mark.parametrize("objective", ["posterior", "nce"])
@pytest.mark.parametrize("kind", ["poor", "worth"])
def test_lists_teach(data: DmsmData, kind: Any, objective: Any) -> None:
    """Half of the images have lists of two: a caption, and its words backwards, worth nothing."""
    ids = [str(i) for i in range(30)]
    captions = [_coloured()[1][name][0] for name in ids]
    backwards = [" ".join(reversed(caption.split())) for caption in captions]
    lists = _lists(ids, [list(pair) for pair in zip(captions, backwards, strict=True)])
    worth = np.tile(np.array([1, 0], np.float32), 30)
    config = replace(TINY, list_objective=kind, objective=objective, learned_gamma=True, epochs=12)
    without = train_dmsm(data, config)
    config = replace(config, list_sentences=3)
    network = train_dmsm(with_lists(data, lists, worth), config)
    half = data.features.select(ids)
    before, after = (list_agreement(n, half, lists, worth).best for n in (without, network))
    assert after > before
    assert after > (0.6 if (kind, objective) == ("poor", "nce") else 0.9)  # the mildest of them
    with pytest.raises(InputError, match="no M-best lists"):
        DmsmFit(data, config, device="cpu")


def test_the_loss_of_a_list_by_hand() -> None:
    """Worth 1 and 0 at temperature 1 against cosines .5 and .3 at gamma 10; one row has none."""
    wanted = math.e / (math.e + 1)
    found = 1 / (1 + math.exp(-2))
    expected = -wanted * math.log(found) - (1 - wanted) * math.log(1 - found)
    cosines = torch.tensor([[0.5, 0.3, 0.9], [0.1, 0.2, 0.3]], requires_grad=True)
    worth = torch.tensor([[1.0, 0.0, torch.nan], [torch.nan] * 3])
    gamma = torch.tensor(10.0, requires_grad=True)
    loss = list_loss(cosines, worth, gamma=gamma, temperature=1.0)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    assert cosines.grad is not None
    assert gamma.grad is not None
    assert bool(torch.isfinite(gamma.grad))
    assert cosines.grad[0, 0] != 0
    assert not cosines.grad[1].any()
    assert float(cosines.grad[0, 2]) == 0
    empty = list_loss(cosines, torch.full((2, 3), torch.nan), gamma=1.0, temperature=1.0)
    assert float(empty.detach()) == 0


def test_data_that_cannot_teach_is_refused() -> None:
    features, captions = _coloured(3)
    with pytest.raises(CorpusError, match="none of the 3 images"):
        dmsm_data(features, {"77": ["a dog"]}, TINY)
    with pytest.raises(CorpusError, match="no words"):
        dmsm_data(features, {"1": ["..."]}, TINY)
    one = dmsm_data(features.select(["1"]), captions, TINY)
    with pytest.raises(InputError, match="one image"):
        train_dmsm(one, TINY)


def test_captions_without_words_and_long_ones(caplog: pytest.LogCaptureFixture) -> None:
    features, captions = _coloured(3)
    captions["1"] = ["...", "dog " * 50]
    del captions["2"]
    found = dmsm_data(features, captions, TINY)
    assert found.features.ids == ("0", "1")
    assert found.images.tolist() == [0, 0, 1]
    assert found.tokens.shape == (3, 30)
    assert "1 images without captions" in caplog.text


def test_features_are_standardised(data: DmsmData) -> None:
    network: DmsmNetwork = DmsmFit(data, TINY, device="cpu").network
    flat = data.features.features.astype(np.float32).reshape(-1, 4)
    standard = (flat - network.image.mean.numpy()) * network.image.scale.numpy()
    np.testing.assert_allclose(standard.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(standard.std(0), 1, atol=1e-3)
