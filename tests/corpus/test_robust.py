"""Whatever the bytes: sound examples, or a CorpusError, and nothing else."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightwords.corpus import Kind, open_corpus
from sightwords.corpus.problems import REMEDIES
from sightwords.corpus.sources import expand
from sightwords.errors import CorpusError

Make = Callable[..., bytes]

COCO = json.dumps(
    {"images": [{"id": 1}, {"id": 2}], "annotations": [{"image_id": 1, "caption": "x"}]}
)
KARPATHY = json.dumps(
    {"images": [{"filename": "a.jpg", "split": "val", "sentences": [{"raw": "x"}]}], "dataset": "d"}
)
FILES = {
    "captions_val2014.json": COCO.encode(),
    "dataset_coco.json": KARPATHY.encode(),
    "Flickr8k.token.txt": b"a.jpg#0\tA dog .\nb.jpg#0\tA cat .\n",
    "m.csv": b'id,caption\n1,"A ""dog""."\n2,A cat.\n',
    "m.jsonl": b'{"id": "1", "captions": ["A dog."]}\n{"id": 2, "caption": "A cat."}\n',
    "m.jsonl.gz": gzip.compress(b'{"id": "1", "captions": ["A dog."]}\n' * 3, mtime=0),
    "lm.txt": b"A dog.\nA cat.\n",
    "index.html": b'<table><tr><td><img src="a.jpg"></td><td>A dog.</td></tr></table>',
}


def mutated(draw: Any, data: bytes) -> bytes:
    """Some bytes changed, put in, or left out."""
    buffer = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(buffer)))
        length = draw(st.integers(0, 20))
        buffer[at : at + length] = draw(st.binary(max_size=20))
    return bytes(buffer)


@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_bytes_crash_a_reader(tmp_path: Path, name: str, data: st.DataObject) -> None:
    (tmp_path / name).write_bytes(mutated(data.draw, FILES[name]))
    try:
        corpus = open_corpus(tmp_path / name)
        for example in corpus:
            json.dumps([example.id, *example.captions, example.split], ensure_ascii=False).encode()
    except CorpusError as error:
        str(error).encode()
        return
    for problem in corpus.problems:
        str(problem).encode()
        assert "\n" not in str(problem)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), packed=st.booleans())
def test_no_bytes_crash_the_shard_reader(
    tmp_path: Path, make_tar: Make, data: st.DataObject, packed: bool
) -> None:
    tar = make_tar({"a": ["x"], "b": ["y"], "c": ["z"]})
    tar = gzip.compress(tar, mtime=0) if packed else tar
    (tmp_path / "s.tar").write_bytes(mutated(data.draw, tar))
    try:
        corpus = open_corpus(tmp_path / "s.tar")
        for example in corpus:
            assert example.captions
    except CorpusError as error:
        str(error).encode()


@pytest.mark.parametrize("name", ["x" * 5000 + ".jpg", "\\ud800.jpg", "\\u0000.jpg", "..", "", "/"])
def test_names_no_file_can_have(folder: Path, name: str) -> None:
    path = folder / "m.jsonl"
    good = '{"image": "a.jpg", "caption": "fine"}\n'
    path.write_text(f'{{"image": "{name}", "caption": "x"}}\n' + good, encoding="utf-8")
    corpus = open_corpus(path, images=folder / "images")
    assert [e.id for e in corpus] == ["a"]
    assert len(corpus.problems) == 1
    str(next(iter(corpus.problems))).encode()


def test_a_path_with_braces_and_brackets_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a{1,2}[x].txt"
    path.write_text("A dog.\n", encoding="utf-8")
    assert expand(str(path)) == [str(path)]
    assert len(list(open_corpus(path))) == 1


def test_a_connection_that_breaks_costs_only_what_is_behind(
    make_tar: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remote file systems raise errors of their own, which are no OSErrors."""
    data = make_tar({"a": ["x"], "b": ["y"]})
    with fsspec.open("memory://broken/s.tar", "wb") as file:
        file.write(data)

    class ConnectionLostError(Exception):
        pass

    def read(self: Any, size: int = -1) -> bytes:
        if self.tell() >= 2048:
            raise ConnectionLostError("peer went away")
        return bytes(type(self).__mro__[1].read(self, min(size, 512)))  # type: ignore[attr-defined]

    from fsspec.implementations.memory import MemoryFile

    monkeypatch.setattr(MemoryFile, "read", read, raising=False)
    corpus = open_corpus("memory://broken/s.tar")
    assert [e.id for e in corpus] == ["a"]
    [problem] = corpus.problems
    assert problem.kind is Kind.UNREADABLE_FILE
    assert "ConnectionLostError: peer went away" in problem.found


def test_every_kind_of_problem_has_a_remedy_and_a_line_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "corpora.md").read_text(encoding="utf-8")
    for kind in Kind:
        assert REMEDIES[kind]
        assert f"| `{kind}` |" in page


def test_a_nul_in_the_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"image\x00,caption\n1,A dog.\n")
    with pytest.raises(CorpusError, match="missing-columns"):
        list(open_corpus(tmp_path / "m.csv"))
