"""One strict reader for JSON, and errors of ours for paths and texts that make no sense."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import sightwords
from sightwords.bundle import open_bundle, pack, seal, unpack
from sightwords.config import load_config
from sightwords.corpus import open_corpus
from sightwords.errors import ConfigError, SightwordsError
from sightwords.evaluate.references import read_references
from sightwords.evaluate.results import read_results
from sightwords.evaluate.rows import read_human_row, read_row
from sightwords.evaluate.server import read_image_list
from sightwords.evaluate.word_scores import read_word_scores
from sightwords.language.maxent import MaxEnt
from sightwords.rerank.confidence import Confidence
from sightwords.rerank.dmsm import Dmsm
from sightwords.rerank.grounded import Grounded
from sightwords.rerank.linear import Ranker
from sightwords.runtime import Network
from sightwords.sealed import read_bytes
from sightwords.settings import read_toml
from sightwords.strict_json import loads
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.words.artefact import DetectorSpec
from sightwords.words.calibration import Calibration
from sightwords.words.detector import Detector

DEEP = "[" * 100_000

Read = Callable[[Any], object]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DEEP, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("NaN", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a'"),
        (r'"\udc00"', "half a surrogate pair"),
        ("9" * 5000, "integer string conversion"),
        (b"\xff", "invalid start byte"),
        ("[1,", "Expecting value"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_whatever_is_wrong_is_a_value_error(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        loads(text)


def test_what_is_right_is_read() -> None:
    assert loads(b'\xef\xbb\xbf{"a": [1, 2.5, null, "\\ud83d\\ude00"]}') == {
        "a": [1, 2.5, None, "\N{GRINNING FACE}"]
    }
    assert loads("[Infinity]", finite=False) == [float("inf")]


def _all(read: Callable[[Any], Any]) -> Read:
    return lambda path: list(read(path))


def _study(name: str) -> Read:
    """A reader of votes; where the study's extra is installed."""

    def read(path: object) -> object:
        pytest.importorskip("sqlalchemy")
        from sightwords.study.platforms.label_studio import read_label_studio
        from sightwords.study.platforms.mturk import read_turk
        from sightwords.study.platforms.seats import Imported
        from sightwords.study.platforms.votes_file import read_votes

        if name == "votes":
            return list(read_votes(str(path)))
        reader = read_turk if name == "turk" else read_label_studio
        return list(reader(str(path), Imported()))

    return read


FILES: dict[str, tuple[str, Read]] = {
    "vocabulary": ("v.json", load_vocabulary),
    "results": ("r.json", read_results),
    "result lines": ("r.jsonl", lambda path: _lines(path, read_results)),
    "row": ("row.json", lambda path: read_row(Path(path))),
    "human row": ("h.json", read_human_row),
    "image list": ("i.json", read_image_list),
    "word scores": ("w.jsonl", lambda path: _lines(path, read_word_scores)),
    "references": ("refs.json", read_references),
    "corpus": ("c.json", _all(open_corpus)),
    "corpus lines": ("c.jsonl", _all(open_corpus)),
    "votes": ("votes.jsonl", lambda path: _lines(path, _study("votes"))),
    "turk": ("turk.jsonl", _study("turk")),
    "label studio": ("tasks.json", _study("label studio")),
}


def _lines(path: Any, read: Read) -> object:
    """As JSONL the text must begin with an object."""
    if Path(str(path)).exists():
        Path(path).write_text('{"a":' * 100_000, encoding="utf-8")
    return read(path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_nested_for_ever_is_refused_by_name(tmp_path: Path, name: str) -> None:
    file, read = FILES[name]
    path = tmp_path / file
    path.write_text(DEEP, encoding="utf-8")
    with pytest.raises(SightwordsError, match=file) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ['{"image":' * 100_000, DEEP], ids=["objects", "lists"])
def test_a_line_nested_for_ever_costs_one_record(tmp_path: Path, line: str) -> None:
    good = '{"image": "a.jpg", "caption": "a dog"}\n'
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "c.jsonl").write_text(good + line + "\n" + good.replace("a.", "b."))
    corpus = open_corpus(tmp_path / "c.jsonl")
    assert len(list(corpus)) == 2


def test_coco_nested_for_ever_keeps_what_is_before(tmp_path: Path) -> None:
    text = ('{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": '
            '[{"id": 1, "image_id": 1, "caption": "a dog"}], "more": [' + DEEP)  # fmt: skip
    (tmp_path / "c.json").write_text(text)
    assert [example.captions for example in open_corpus(tmp_path / "c.json")] == [("a dog",)]


def test_toml_nested_for_ever_and_huge(tmp_path: Path) -> None:
    for text, says in (("x = " + DEEP, "nested too deeply"), ("#" * (2 << 20), "larger than")):
        (tmp_path / "c.toml").write_text(text)
        with pytest.raises(ConfigError, match=says):
            load_config(tmp_path / "c.toml")


LOADERS: dict[str, Read] = {
    "load": sightwords.load,
    "open_bundle": lambda path: open_bundle(path).__enter__(),
    "seal": lambda path: seal(path, name="x", licence="CC0-1.0"),
    "pack": lambda path: pack(path, "/tmp/never.zip"),
    "unpack": lambda path: unpack(path, "/tmp/never"),
    "Network": Network,
    "Detector": Detector.load,
    "DetectorSpec": DetectorSpec.load,
    "Calibration": Calibration.load,
    "MaxEnt": MaxEnt.load,
    "Ranker": Ranker.load,
    "Confidence": Confidence.load,
    "Dmsm": Dmsm.load,
    "Grounded": Grounded.load,
    "toml": read_toml,
    "npz": lambda path: read_word_scores(f"{path}.npz"),
    **{name: read for name, (_, read) in FILES.items()},
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_null_character_in_a_path_is_an_error_of_ours(name: str) -> None:
    with pytest.raises(SightwordsError) as caught:
        LOADERS[name]("photos\0.zip")
    assert "photos" in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said: list[str] = []

    def read() -> None:
        try:
            read_bytes(tmp_path / "pipe")
        except OSError as error:
            said.append(str(error.strerror))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert said == ["not a regular file"]
