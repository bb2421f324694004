"""A part of a batch gets its rows of the random numbers of the whole batch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from sightwords.train.data.sampler import RowDropout, draws_for, normal_rows, rand_rows  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("draw", [rand_rows, normal_rows])
@pytest.mark.parametrize("parts", [2, 3, 6])
def test_parts_add_up_to_the_whole(draw: object, parts: int) -> None:
    assert callable(draw)
    with draws_for(0, 1, seed=5):
        whole = draw(12, 4), draw(12)
    for index in range(parts):
        with draws_for(index, parts, seed=5):
            mine = draw(12 // parts, 4), draw(12 // parts)
        for all_rows, rows in zip(whole, mine, strict=True):
            assert torch.equal(all_rows[index::parts], rows)


def test_dropout_keeps_the_mean_and_is_off_in_evaluation() -> None:
    layer, ones = RowDropout(0.25), torch.ones(400, 50)
    with draws_for(0, 1, seed=0):
        dropped = layer(ones)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert float(dropped.mean()) == pytest.approx(1, abs=0.02)
    assert layer.eval()(ones) is ones
    assert RowDropout(0.0)(ones) is ones


def test_parts_are_not_compiled_one_by_one() -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    layer, ones = torch.compile(RowDropout(0.5), backend=counter, dynamic=False), torch.ones(4, 3)
    for index in range(6):
        with draws_for(index, 6, seed=1):
            layer(ones)
    assert counter.frame_count == 1
