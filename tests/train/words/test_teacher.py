"""Pupils: what teachers say stands in for captions that nobody wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.errors import ConfigError, CorpusError, InputError  # noqa: E402
from sightwords.train.data.image_table import gathered  # noqa: E402
from sightwords.train.words.labels import unknown_where_few  # noqa: E402
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.train.words.teacher import Teachers, mixed  # noqa: E402
from sightwords.train.words.training import train_words  # noqa: E402
from sightwords.train.words.validation import score_images  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("tiny_net")]


def _new(config: WordsConfig) -> Any:
    return new_network(config, 4, weights=None, size_px=48)


def test_a_pupil_learns_from_images_without_captions(squares: Any, toy_config: WordsConfig) -> None:
    made, new = squares(300), squares(100, seed=1)
    teacher = train_words(_new(toy_config), made.table(), made.targets(), toy_config)
    nothing = unknown_where_few(np.zeros_like(made.targets()), [()] * 300)
    assert np.isnan(nothing).all()
    pupil = train_words(
        _new(toy_config), made.table(), nothing, toy_config, teachers=Teachers([teacher])
    )
    taught, untaught = (score_images(of, new.table()) for of in (pupil, _new(toy_config)))
    theirs = score_images(teacher, new.table())
    assert np.abs(taught - theirs).mean() < np.abs(untaught - theirs).mean() / 3
    assert np.corrcoef(taught.ravel(), theirs.ravel())[0, 1] > 0.95


def test_unknown_targets_need_a_teacher(squares: Any, toy_config: WordsConfig) -> None:
    made = squares(20)
    targets = made.targets()
    targets[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        train_words(_new(toy_config), made.table(), targets, toy_config)


def test_a_share_of_the_opinion_and_all_of_it_where_nothing_is_known() -> None:
    targets = torch.tensor([[1.0, 0.0, torch.nan]])
    found = mixed(targets, torch.tensor([[0.5, 0.5, 0.9]]), 0.6)
    torch.testing.assert_close(found, torch.tensor([[0.7, 0.3, 0.9]]))


def test_teachers_stay_as_they_are(toy_config: WordsConfig) -> None:
    teachers = Teachers([_new(toy_config), _new(toy_config)])
    assert not teachers.train().training
    assert not any(p.requires_grad for p in teachers.parameters())
    with pytest.raises(ConfigError, match="2 teachers"):
        Teachers([_new(toy_config), new_network(toy_config, 5, weights=None, size_px=48)])


def test_chosen_images_of_several_tables(squares: Any) -> None:
    one, two = squares(3).table(), squares(2, seed=1).table()
    two = replace(two, ids=("other-0", "other-1"))
    unwanted = one.ids[1]
    both = gathered([one, two], lambda name: name != unwanted)
    assert both.ids == (one.ids[0], one.ids[2], *two.ids)
    assert both.captions == (one.captions[0], one.captions[2], *two.captions)
    np.testing.assert_array_equal(both.pixels, [*one.pixels[[0, 2]], *two.pixels])
    np.testing.assert_array_equal(both.content, [*one.content[[0, 2]], *two.content])

    with pytest.raises(CorpusError, match="different sizes"):
        gathered([one, replace(two, resize="pad")], lambda name: True)
    with pytest.raises(CorpusError, match="no image tables"):
        gathered([], lambda name: True)
