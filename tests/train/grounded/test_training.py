"""The grounded model: what it may see, what its losses are, and that training is repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.config import GroundedConfig  # noqa: E402
from sightwords.errors import ConfigError, InputError  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.train.dmsm.image_features import ImageFeatures  # noqa: E402
from sightwords.train.grounded.data import (  # noqa: E402
    NOTHING,
    captions_of,
    images_of,
    inputs_of,
    words_of_lists,
)
from sightwords.train.grounded.export import new_grounded  # noqa: E402
from sightwords.train.grounded.lists import scored_lists  # noqa: E402
from sightwords.train.grounded.loss import (  # noqa: E402
    caption_loss,
    expected_loss,
    listwise_loss,
    look,
    sample_hypotheses,
    sentence_scores,
)
from sightwords.train.grounded.run import fit_grounded  # noqa: E402
from sightwords.train.grounded.training import train_captions, train_lists  # noqa: E402
from sightwords.train.rerank.lists import Lists, starts_of  # noqa: E402
from sightwords.types import Example  # noqa: E402

pytestmark = pytest.mark.torch

VOCABULARY = Vocabulary(("a", "dog", "cat", "runs", "sleeps"), (5, 4, 3, 2, 1), 15)
CONFIG = GroundedConfig(
    units=16, layers=2, heads=2, feed_forward=32, memory_layers=1, words=3, maximum_length=5,
    batch_size=2, risk_batch_size=2, hypotheses=2, epochs=2, risk_epochs=2, learning_rate=1e-2,
    risk_rate=1e-2,
)  # fmt: skip
UNKNOWN, END, START = 5, 6, 7
EVERYTHING = torch.tensor([[True, True]])


def _features(count: int = 3) -> ImageFeatures:
    values = np.random.default_rng(0).standard_normal((count, 2, 4)).astype(np.float16)
    return ImageFeatures(tuple(f"00{i}" for i in range(count)), values)


def _lists(count: int = 3) -> Lists:
    """Two sentences an image: "a dog runs" and "a cat"."""
    return Lists(
        ids=np.array([str(i) for i in range(count)]),
        splits=np.array(["train"] * count),
        words=(*VOCABULARY.words, "<unk>"),
        word_offsets=starts_of(np.full(count, 2)),
        word_ids=np.array([1, 2] * count, np.uint16),
        word_probs=np.array([0.9, 0.2] * count, np.float32),
        word_precisions=np.array([0.9, 0.2] * count, np.float32),
        offsets=starts_of(np.full(count, 2)),
        token_offsets=starts_of(np.array([3, 2] * count)),
        tokens=np.array([0, 1, 3, 0, 2] * count, np.uint16),
        log_probs=np.array([-1.0, -2.0] * count, np.float32),
        coverage=np.ones(count, np.uint8),
    )


def _images(count: int = 3) -> Any:
    return images_of(_features(count), words_of_lists(_lists(count)), CONFIG)


def _captions(images: Any) -> Any:
    examples = [
        Example("000", None, ("A dog runs.", "a dog", "a zebra sleeps"), "train", "toy"),
        Example("1", None, ("a cat sleeps",) * 6, "train", "toy"),
        Example("text", None, ("a cat runs",), "train", "toy"),
    ]
    return captions_of(examples, VOCABULARY, images.rows, CONFIG, no_image=images.no_image)


def _network(config: GroundedConfig = CONFIG) -> Any:
    network = new_grounded(config, VOCABULARY, (2, 4))
    for parameter in network.parameters():  # as initialised it hardly looks at anything
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return network.eval()


@pytest.fixture
def no_grad() -> Iterator[None]:
    """Nothing is to be learnt here."""
    with torch.no_grad():
        yield


def test_captions_become_rows_of_targets() -> None:
    images = _images()
    captions = _captions(images)
    # six captions of one image make two rows; text goes to the row of no image
    assert captions.images.tolist() == [0, 1, 1, images.no_image]
    assert captions.targets[0, 0].tolist() == [0, 1, 3, END, NOTHING, NOTHING]
    assert captions.targets[0, 2].tolist() == [0, UNKNOWN, 4, END, NOTHING, NOTHING]
    assert captions.targets[0, 3].tolist() == [NOTHING] * 6
    assert inputs_of(captions.targets[0, 0], START).tolist() == [START, 0, 1, 3, END, 0]


def test_a_long_caption_is_cut_without_an_end() -> None:
    examples = [Example("0", None, ("a a a a a a a a",), "train", "toy")]
    found = captions_of(examples, VOCABULARY, {"0": 0}, CONFIG, no_image=3)
    assert found.targets[0, 0].tolist() == [0] * 6


def test_images_show_their_words() -> None:
    images = _images()
    assert images.word_ids[0].tolist() == [1, 2, NOTHING]
    assert images.word_ids[images.no_image].tolist() == [NOTHING] * 3
    assert images.features.shape == (4, 2, 4)


def test_lists_become_targets_with_their_worth() -> None:
    lists = scored_lists(_lists(), np.arange(6.0), VOCABULARY, {"1": 1, "2": 2}, CONFIG,
                         hypotheses=3)  # fmt: skip
    assert lists.ids == ("1", "2")
    assert lists.rewards.tolist() == [[2, 3, 0], [4, 5, 0]]
    assert lists.valid.tolist() == [[True, True, False]] * 2
    assert lists.sentences.targets[0, 0].tolist() == [0, 1, 3, END, NOTHING, NOTHING]


@pytest.mark.parametrize(
    ("lists", "rewards", "rows", "message"),
    [
        (_lists(), np.zeros(5), {"1": 1}, "5 values for 6 sentences"),
        (_lists(), np.zeros(6), {"9": 1}, "features"),
        (replace(_lists(), words=("x",) * 6), np.zeros(6), {"1": 1}, "language model"),
    ],
)
def test_lists_that_do_not_fit_are_refused(
    lists: Any, rewards: Any, rows: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        scored_lists(lists, rewards, VOCABULARY, rows, CONFIG)


def test_no_captions_are_refused() -> None:
    with pytest.raises(InputError, match="no captions"):
        captions_of([], VOCABULARY, {}, CONFIG, no_image=0)


@pytest.mark.usefixtures("no_grad")
def test_later_words_change_nothing_before_them() -> None:
    network, images = _network(), _images()
    looked = look(network, images, torch.tensor([0]))
    sentences = torch.tensor([[[START, 0, 1, 3, 2]]])
    changed = sentences.clone()
    changed[..., 3:] = torch.tensor([4, 1])
    one, other = (network.read(s, looked.memory, looked.kept) for s in (sentences, changed))
    torch.testing.assert_close(one[:, :, :3], other[:, :, :3])
    assert (one[:, :, 3:] - other[:, :, 3:]).abs().max() > 1e-3


@pytest.mark.usefixtures("no_grad")
def test_image_and_words_matter_and_hidden_places_do_not() -> None:
    network, images = _network(), _images()
    targets = torch.tensor([[[0, 1, 3, END]]])
    score = sentence_scores(network, look(network, images, torch.tensor([0])), targets).log_probs

    def after(change: str, place: tuple[int, ...], value: float) -> float:
        tensor = getattr(images, change).clone()
        tensor[place] = value
        looked = look(network, replace(images, **{change: tensor}), torch.tensor([0]))
        found = sentence_scores(network, looked, targets).log_probs
        return float((found - score).abs().max())

    assert after("features", (0, 1, 2), 3.0) > 1e-3
    assert after("word_ids", (0, 1), 3) > 1e-3
    assert after("word_probs", (0, 0), 0.3) > 1e-3
    assert after("word_probs", (0, 2), 0.3) == 0  # there is no third word
    assert after("features", (1, 1, 2), 3.0) == 0  # another image's


@pytest.mark.usefixtures("no_grad")
def test_text_sees_no_image() -> None:
    network, images = _network(), _images()
    targets = torch.tensor([[[0, 1, 3, END]]])
    row = torch.tensor([images.no_image])
    loss = caption_loss(network, look(network, images, row), targets)
    images.features[images.no_image] = 5.0
    torch.testing.assert_close(caption_loss(network, look(network, images, row), targets), loss)


@pytest.mark.usefixtures("no_grad")
def test_a_sentence_scores_the_sum_of_its_words() -> None:
    network, images = _network(), _images()
    looked = look(network, images, torch.tensor([0, 1]))
    targets = torch.tensor([[[0, 1, END, NOTHING], [0, 2, 3, END]]] * 2)
    found = sentence_scores(network, looked, targets)
    for image in range(2):
        memory, kept = looked.memory[image : image + 1], looked.kept[image : image + 1]
        for row, ids in enumerate(([0, 1, END], [0, 2, 3, END])):
            hidden = network.read(torch.tensor([[[START, *ids[:-1]]]]), memory, kept)[0, 0]
            log_probs = network.logits(hidden).log_softmax(-1)
            expected = sum(log_probs[i, token] for i, token in enumerate(ids))
            torch.testing.assert_close(found.log_probs[image, row], expected)
            torch.testing.assert_close(found.values[image, row], network.values(hidden[-1]))
    assert found.lengths.tolist() == [[2, 3]] * 2


def test_expected_loss_by_hand() -> None:
    """Softmax of (log 3, 0) is (3/4, 1/4): reward 2 * 3/4 + 1 * 1/4; d/ds_1 = q1 q2 (r2 - r1)."""
    scores = torch.tensor([[np.log(3.0), 0.0]], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([[2.0, 1.0]], dtype=torch.float64)
    loss = expected_loss(scores, rewards, EVERYTHING)
    assert loss.item() == pytest.approx(-1.75)
    torch.autograd.backward(loss)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([-3 / 16, 3 / 16])


def test_listwise_loss_by_hand() -> None:
    """Targets softmax of (log 3, 0) at temperature 1; scores equal: -(3/4 + 1/4) log 1/2."""
    scores = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([[np.log(3.0), 0.0]], dtype=torch.float64)
    loss = listwise_loss(scores, rewards, EVERYTHING, temperature=1.0)
    assert loss.item() == pytest.approx(np.log(2))
    torch.autograd.backward(loss)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([0.5 - 0.75, 0.5 - 0.25])


@pytest.mark.parametrize("loss", [expected_loss, lambda *a: listwise_loss(*a, temperature=0.3)])
def test_gradients_of_losses(loss: Any) -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    rewards = torch.rand(3, 4, dtype=torch.float64)
    valid = torch.tensor([[True] * 4, [True, True, True, False], [True, True, False, False]])
    assert torch.autograd.gradcheck(lambda s: loss(s, rewards, valid), (scores,))
    loss(scores, rewards, valid).backward()
    assert scores.grad is not None
    assert scores.grad[~valid].tolist() == [0.0, 0.0, 0.0]


def test_samples_hold_the_best_and_nothing_twice() -> None:
    rewards = torch.tensor([[0.1, 0.9, 0.3, 5.0]] * 50)
    valid = torch.tensor([[True, True, True, False]] * 50)
    places = sample_hypotheses(rewards, valid, 2)
    assert (places == 1).any(dim=1).all()
    assert not (places == 3).any()
    assert len(set(map(tuple, places.tolist()))) == 2  # with the first, or with the third


def _trained(tmp_path: Path | None = None, seconds: float = float("inf"), **changes: Any) -> Any:
    config = replace(CONFIG, **changes)
    images = _images()
    captions = _captions(images)
    return train_captions(
        new_grounded(config, VOCABULARY, (2, 4)),
        images,
        captions,
        folder=tmp_path,
        budget_seconds=seconds,
    )


def _same(one: Any, other: Any) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_a_seed_gives_the_same_weights_every_time() -> None:
    assert _same(_trained(), _trained())
    assert not _same(_trained(), _trained(seed=1))


def test_a_resumed_run_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    images = _images()
    captions = _captions(images)
    path = tmp_path / "captions.checkpoint"

    class KilledError(Exception):
        pass

    def kill(report: Any, _: Any) -> None:
        if report.epoch == 2:
            raise KilledError

    network = new_grounded(CONFIG, VOCABULARY, (2, 4))
    with pytest.raises(KilledError):
        train_captions(
            network, images, captions, folder=tmp_path, checkpoint_seconds=0.0, on_epoch=kill
        )
    assert path.exists()
    assert _same(_trained(tmp_path), _trained())
    with pytest.raises(ConfigError, match=r"captions\.checkpoint"):
        _trained(tmp_path, dropout=0.2)


def test_a_resumed_run_has_the_budget_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count()
    monkeypatch.setattr("sightwords.train.fit.perf_counter", lambda: next(clock) / 100)
    config = replace(CONFIG, epochs=1_000_000, batch_size=1)  # several steps an epoch
    images = _images()
    captions = _captions(images)
    reports: list[Any] = []

    def train() -> Any:
        return train_captions(
            new_grounded(config, VOCABULARY, (2, 4)), images, captions, budget_seconds=1.0,
            folder=tmp_path, on_epoch=lambda report, _: reports.append(report),
        )  # fmt: skip

    finished = train()
    last = reports[-1]
    assert last.step > 10
    assert last.seconds >= 1.0
    again = train()  # as after a kill in the phase that follows
    assert reports[-1] is last
    assert _same(again, finished)


def test_no_time_no_steps() -> None:
    fresh = new_grounded(CONFIG, VOCABULARY, (2, 4))
    assert _same(_trained(seconds=1e-9), fresh)


@pytest.mark.parametrize("objective", ["risk", "listwise"])
def test_lists_teach_which_sentence_is_better(objective: Any) -> None:
    """In image 0 "a dog runs" is right, in the others "a cat": only the image tells."""
    config = replace(CONFIG, objective=objective, risk_epochs=60, dropout=0.0, image_dropout=0.0,
                     token_dropout=0.0, feature_noise=0.0, weight_average=0.5)  # fmt: skip
    images = _images()
    captions = _captions(images)
    rewards = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    lists = scored_lists(_lists(), rewards, VOCABULARY, images.rows, config, hypotheses=2)
    network = train_lists(new_grounded(config, VOCABULARY, (2, 4)), images, lists, captions)
    with torch.no_grad():
        looked = look(network, images, lists.sentences.images)
        scores = sentence_scores(network, looked, lists.sentences.targets).total(config)
    first = scores.argmax(dim=1, keepdim=True)
    assert lists.rewards.gather(1, first).tolist() == [[1.0]] * 3


def test_one_call_does_both_phases() -> None:
    phases: list[str] = []
    examples = [Example("0", None, ("a dog runs",), "train", "toy")]
    network = fit_grounded(
        _features(), examples, _lists(), np.ones(6), vocabulary=VOCABULARY, config=CONFIG,
        on_epoch=lambda report, _: phases.append(report.phase),
    )  # fmt: skip
    assert phases == ["captions", "captions", "lists", "lists"]
    assert not network.training


def test_lists_of_test_images_are_refused() -> None:
    lists = replace(_lists(), splits=np.array(["train", "coco-test", "train"]))
    with pytest.raises(InputError, match="lists of split 'coco-test'"):
        fit_grounded(_features(), [], lists, np.ones(6), vocabulary=VOCABULARY, config=CONFIG)
