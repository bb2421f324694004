"""The table of decoded images: order, bad images, unfinished and damaged tables."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightwords.errors import CorpusError
from sightwords.train.data.image_table import INDEX_NAME, PIXELS_NAME, build_table, open_table
from sightwords.train.data.sources import (
    corpus_table,
    held_out_examples,
    source_key,
    training_examples,
)
from sightwords.types import Example, ImageRef


def test_rows_keep_the_order_and_the_pixels_of_the_corpus(squares: Any, tmp_path: Path) -> None:
    made = squares(70)
    table = build_table(made.examples(tmp_path / "in"), tmp_path / "t", side_px=48, workers=3)
    assert table.ids == tuple(f"{i:03d}" for i in range(70))
    np.testing.assert_array_equal(table.pixels, made.pixels)
    assert table.captions == tuple(tuple(c) for c in made.captions)
    some = table.select([5, 2])
    assert some.ids == ("005", "002")
    np.testing.assert_array_equal(some.pixels, made.pixels[[5, 2]])


def test_a_bad_image_is_named_and_left_out(
    squares: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    examples = squares(3).examples(tmp_path / "in")
    (tmp_path / "in" / "001.png").write_bytes(b"not an image")
    text = Example("text", None, ("a",), "train", "squares")
    with caplog.at_level(logging.WARNING):
        table = build_table([*examples, text], tmp_path / "t", side_px=48)
    assert table.ids == ("000", "002")
    assert "left out 001" in caplog.text
    assert "001.png" in caplog.text


def test_no_image_at_all_is_an_error(tmp_path: Path) -> None:
    bad = Example("1", ImageRef(str(tmp_path / "absent.jpg")), ("a",), "train", "")
    with pytest.raises(CorpusError, match="no image"):
        build_table([bad], tmp_path / "t", side_px=48)


def test_paper_layout_pads_right_and_below(tmp_path: Path) -> None:
    Image.new("RGB", (40, 20), (200, 0, 0)).save(tmp_path / "wide.png")
    example = Example("wide", ImageRef(str(tmp_path / "wide.png")), ("a",), "train", "")
    table = build_table([example], tmp_path / "t", side_px=32, resize="paper")
    assert table.content.tolist() == [[32, 16]]
    assert (table.pixels[0, :16] == (200, 0, 0)).all()
    assert (table.pixels[0, 16:] == 0).all()


def test_an_unfinished_table_is_refused(squares: Any, tmp_path: Path) -> None:
    examples = squares(4).examples(tmp_path / "in")
    build_table(examples, tmp_path / "t", side_px=48)

    def stops() -> Any:
        yield examples[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # over a finished table: its index must not survive
        build_table(stops(), tmp_path / "t", side_px=48)
    with pytest.raises(CorpusError, match="table"):
        open_table(tmp_path / "t")


@pytest.mark.parametrize("damage", ["cut", "longer", "index"])
def test_a_damaged_table_is_refused(squares: Any, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "t"
    build_table(squares(4).examples(tmp_path / "in"), folder, side_px=48)
    if damage == "index":
        (folder / INDEX_NAME).write_text('{"ids": [', encoding="utf-8")
    else:
        pixels = (folder / PIXELS_NAME).read_bytes()
        (folder / PIXELS_NAME).write_bytes(pixels[:-9] if damage == "cut" else pixels + b"x")
    with pytest.raises(CorpusError, match="damaged"):
        open_table(folder)


def test_a_corpus_is_decoded_once_until_its_files_change(squares: Any, tmp_path: Path) -> None:
    manifest = str(squares(6).manifest(tmp_path))
    seen: list[int] = []

    def table() -> Any:
        return corpus_table(
            [manifest], tmp_path / "c", side_px=48, resize="square", progress=seen.append
        )

    assert len(table()) == 6
    table()
    assert seen == [1, 2, 3, 4, 5, 6]
    key = source_key([manifest])
    Path(manifest).write_text("image,caption\n000.png,a dog\n", encoding="utf-8")
    assert source_key([manifest]) != key
    assert len(table()) == 1


def test_held_out_images_and_training_images_make_up_the_corpus(
    squares: Any, tmp_path: Path
) -> None:
    sources = [str(squares(10).manifest(tmp_path))]
    training = {e.id for e in training_examples(sources, hold_out=4)}
    held_out = {e.id for e in held_out_examples(sources, hold_out=4)}
    assert (len(training), len(held_out)) == (6, 4)
    assert not training & held_out
    assert {e.id for e in held_out_examples(sources, hold_out=0)} == training | held_out
