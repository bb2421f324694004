from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.corpus import Kind, open_corpus
from sightwords.corpus.convert import EncodedImage, convert, safe_key
from sightwords.corpus.sources import read_bytes
from sightwords.errors import CorpusError, ImageError
from sightwords.types import ImageRef

Make = Callable[..., bytes]
SETTINGS: dict[str, Any] = {"format": "keep"}


def keep(image: ImageRef) -> EncodedImage:
    data = read_bytes(image)
    if data.startswith(b"bad"):
        raise ImageError(f"{image}: not an image")
    return EncodedImage("png", data, (8, 6))


def run(source: Path, out: Path, *, limit: int = 20_000, encode: Any = keep, **options: Any) -> Any:
    corpus = open_corpus(source, **options)
    shards = list(
        convert(corpus, out, name="s", encode=encode, shard_bytes=limit, settings=SETTINGS)
    )
    return corpus, shards


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.fixture
def source(tmp_path: Path, picture: Make) -> Path:
    """Ten images of the user's own."""
    rows = ["image,caption,split"]
    for number in range(10):
        (tmp_path / f"{number}.png").write_bytes(picture(size=(60, 40), shade=number))
        rows += [f"{number}.png,Caption {number}.,val", f"{number}.png,Another.,val"]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_shards_hold_what_went_in(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _, shards = run(source, out)
    assert sum(shard.examples for shard in shards) == 10
    assert len(shards) > 1
    assert all(shard.path.stat().st_size <= 20_000 for shard in shards)
    before, after = list(open_corpus(source)), list(open_corpus(out))
    assert [(e.id, e.captions, e.split, e.dataset) for e in after] == [
        (e.id, e.captions, e.split, e.dataset) for e in before
    ]
    assert [read_bytes(e.image) for e in after if e.image] == [
        read_bytes(e.image) for e in before if e.image
    ]
    with tarfile.open(shards[0].path) as tar:
        members = tar.getmembers()
        assert {(m.mtime, m.uid, m.uname, m.mode) for m in members} == {(0, 0, "", 0o644)}
        file = tar.extractfile("0.json")
        assert file is not None
        meta = json.loads(file.read())
    assert meta == {
        "key": "0",
        "id": "0",
        "captions": ["Caption 0.", "Another."],
        "dataset": "mine",
        "split": "val",
        "original_size": [8, 6],
    }
    index = json.loads((out / "s-index.json").read_text(encoding="utf-8"))
    assert index["complete"]
    assert [shard["name"] for shard in index["shards"]] == [shard.path.name for shard in shards]


def test_a_stopped_run_is_taken_up_and_ends_in_the_same_bytes(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "whole")
    expected = contents(tmp_path / "whole")

    for stop_after in range(1, 10):
        calls = iter(range(10))

        def dies(image: ImageRef, calls: Any = calls, stop: int = stop_after) -> EncodedImage:
            if next(calls) == stop:
                raise KeyboardInterrupt
            return keep(image)

        out = tmp_path / f"stopped-{stop_after}"
        with pytest.raises(KeyboardInterrupt):
            corpus = open_corpus(source)
            list(
                convert(
                    corpus, out, name="s", encode=dies, shard_bytes=20_000, settings=SETTINGS,
                    workers=1,
                )
            )  # fmt: skip
        left = contents(out)
        assert all(expected[name] == data for name, data in left.items() if name.endswith(".tar"))
        assert not json.loads(left["s-index.json"])["complete"]
        run(source, out)
        assert contents(out) == expected, stop_after


def test_running_again_does_nothing_and_a_lost_shard_is_written_again(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    _, first = run(source, out)
    expected = contents(out)

    def never(image: ImageRef) -> EncodedImage:
        raise AssertionError("encoded again")

    _, again = run(source, out, encode=never)
    assert [shard.resumed for shard in again] == [True] * len(first)
    (out / "s-00001.tar").unlink()
    run(source, out)
    assert contents(out) == expected


def test_other_settings_and_foreign_shards_are_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(source, out)
    corpus = open_corpus(source)
    with pytest.raises(CorpusError, match=r"s-index\.json.*--out"):
        list(convert(corpus, out, name="s", encode=keep, shard_bytes=1, settings={"format": "x"}))
    (out / "s-index.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"s-index\.json"):
        run(source, out)
    (out / "s-index.json").unlink()
    with pytest.raises(CorpusError, match=r"s-index\.json"):
        run(source, out)


def test_bad_images_are_named_and_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "3.png").write_bytes(b"bad")
    (tmp_path / "5.png").unlink()
    corpus, shards = run(source, tmp_path / "out")
    assert sum(shard.examples for shard in shards) == 8
    assert corpus.problems.counts == {Kind.UNREADABLE_IMAGE: 1, Kind.MISSING_IMAGE: 1}
    [problem] = corpus.problems.first(Kind.UNREADABLE_IMAGE)
    assert (problem.where, problem.found) == (str(tmp_path / "3.png"), "not an image")
    with pytest.raises(CorpusError, match=r"[35]\.png"):
        run(source, tmp_path / "strict", strict=True)
    assert not json.loads((tmp_path / "strict" / "s-index.json").read_text())["complete"]


def test_text_cannot_become_shards(tmp_path: Path) -> None:
    (tmp_path / "lm.txt").write_text("A dog.\n", encoding="utf-8")
    corpus, shards = run(tmp_path / "lm.txt", tmp_path / "out")
    assert shards == []
    assert corpus.problems.counts == {Kind.MISSING_IMAGE: 1}


IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(
    lambda text: text == text.strip() and text != ""
)
CAPTION = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(str.strip)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(IDS, st.lists(CAPTION, min_size=1, max_size=3), min_size=1, max_size=6))
def test_any_id_and_caption_survives_the_round_trip(records: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = []
        for number, (image_id, captions) in enumerate(records.items()):
            (folder / f"{number}.png").write_bytes(b"%d" % number)
            row = {"id": image_id, "image": f"{number}.png", "captions": captions, "split": "x"}
            rows.append(json.dumps(row) + "\n")
        (folder / "m.jsonl").write_text("".join(rows), encoding="utf-8")
        run(folder / "m.jsonl", folder / "out", limit=1)  # a shard for each
        read = {
            e.id: (e.captions, e.image.data if e.image else b"")
            for e in open_corpus(folder / "out")
        }
    assert read == {
        image_id: (tuple(c.strip() for c in captions), b"%d" % number)
        for number, (image_id, captions) in enumerate(records.items())
    }


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.text(st.characters(codec="utf-8")))
def test_keys_are_safe_and_one_to_one(one: str, other: str) -> None:
    key = safe_key(one)
    assert len(key) <= 80
    assert not set("./\\ \n\0") & set(key)
    assert (safe_key(other) == key) == (one == other)
