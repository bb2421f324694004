"""Making a study: what is taken in, what is left out, what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from sightwords.errors import StudyError
from sightwords.study.create import create_study, encode_photo
from sightwords.study.model import Design
from sightwords.study.store import read_pairs, read_photo
from sightwords.types import ImageRef


def test_photographs_are_upright_small_and_nameless(tmp_path: Path) -> None:
    picture = Image.new("RGB", (3000, 1500), "red")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    exif[0x010E] = "COCO_val2014_000000000009"
    picture.save(tmp_path / "a.jpg", exif=exif)
    jpeg = encode_photo(ImageRef(str(tmp_path / "a.jpg")))
    shown = Image.open(io.BytesIO(jpeg))
    assert shown.size == (512, 1024)
    assert b"COCO" not in jpeg
    assert not shown.getexif()


def test_an_unreadable_photograph_costs_no_pair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = []
    for number in range(8):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{number}.png")
        line = {"id": f"i{number}", "image": f"{number}.png", "captions": [f"caption {number}"]}
        lines.append(json.dumps(line))
    (tmp_path / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n but no more")
    source = tmp_path / "photographs.jsonl"
    source.write_text("\n".join(lines))
    store = create_study(
        str(tmp_path / "s.db"),
        Design("ours", pairs=7, checks_per_judge=0),
        images=source,
        system={f"i{n}": "x" for n in range(8)},
    )
    with store.read() as connection:
        images = {pair.image for pair in read_pairs(connection).values()}
        assert all(read_photo(connection, image) for image in images)
    assert images == {f"i{n}" for n in range(8)} - {"i3"}
    assert "1 unreadable images" in caplog.text
    store.close()


def test_two_systems_without_human_captions(tmp_path: Path) -> None:
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    for number in range(4):
        Image.new("RGB", (9, 9)).save(photographs / f"p{number}.PNG")
    systems = [{f"p{n}": f"{side} {n}" for n in range(4)} for side in ("a", "b")]
    options = {
        "images": photographs,
        "system": systems[0],
        "against": systems[1],
        "all_pairs": True,
    }
    with pytest.raises(StudyError, match="checks=0"):
        create_study(str(tmp_path / "s.db"), Design("a", "b"), **options)  # type: ignore[arg-type]
    store = create_study(
        str(tmp_path / "t.db"),
        Design("a", "b", checks_per_judge=0),
        **options,  # type: ignore[arg-type]
    )
    assert (store.design.pairs, store.design.judges) == (4, 1)
    store.close()


def test_check_cases_have_photographs_of_their_own(
    tmp_path: Path, source: Path, system: dict[str, str]
) -> None:
    store = create_study(
        str(tmp_path / "s.db"), Design("ours", pairs=30), images=source, system=system
    )
    with store.read() as connection:
        pairs = read_pairs(connection).values()
    judged = {pair.image for pair in pairs if not pair.is_check}
    checks = [pair for pair in pairs if pair.is_check]
    assert len(checks) == 20
    assert not judged & {pair.image for pair in checks}
    assert store.design.checks_by == "TF-IDF of captions"
    for check in checks:  # the wrong caption names another thing in another colour
        colour, thing = check.first.rstrip(".").split()[-1], check.first.split()[1]
        assert colour not in check.second
        assert thing not in check.second
    store.close()


def test_the_callers_similarity_is_asked(
    tmp_path: Path, source: Path, system: dict[str, str]
) -> None:
    asked: list[int] = []

    def similarity(images: Sequence[str], captions: Sequence[str]) -> npt.NDArray[np.float64]:
        asked.append(len(images) * len(captions))
        return np.array([[len(caption) for caption in captions] for _ in images], dtype=float)

    store = create_study(
        str(tmp_path / "s.db"),
        Design("ours", pairs=5, checks_by="DMSM of a test"),
        images=source,
        system=system,
        similarity=similarity,
    )
    assert sum(asked) > 0
    assert store.design.checks_by == "DMSM of a test"
    store.close()


def test_the_same_seed_makes_the_same_study(
    tmp_path: Path, source: Path, system: dict[str, str]
) -> None:
    found = []
    for seed, name in ((1, "a"), (1, "b"), (2, "c")):
        design = Design("ours", pairs=9, seed=seed)
        store = create_study(str(tmp_path / name), design, images=source, system=system)
        with store.read() as connection:
            found.append(read_pairs(connection))
        store.close()
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    "values",
    [{"pairs": 0}, {"judges_per_pair": 0}, {"checks_per_judge": -1}, {"origin": "robot"}],
)
def test_a_design_that_cannot_be(values: dict[str, object]) -> None:
    with pytest.raises(StudyError, match="expected"):
        Design("ours", **values)  # type: ignore[arg-type]
