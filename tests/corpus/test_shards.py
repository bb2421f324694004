from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from sightwords.corpus import Corpus, Kind, open_corpus
from sightwords.errors import CorpusError

Make = Callable[..., bytes]
RECORDS = {f"{number:03d}": [f"Caption {number}.", "Another."] for number in range(5)}


def ids(corpus: Corpus) -> list[str]:
    """Ids of all that can be read, even when that is nothing."""
    try:
        return [example.id for example in corpus]
    except CorpusError:
        return []


def kinds(corpus: Corpus) -> dict[str, int]:
    return {str(kind): count for kind, count in corpus.problems.counts.items()}


def test_reads_id_image_captions_split_and_dataset(
    tmp_path: Path, picture: Make, make_tar: Make
) -> None:
    meta = {"key": "k1", "captions": ["A dog."], "dataset": "coco", "split": "test"}
    data = make_tar([("k1.png", picture()), ("k1.json", json.dumps(meta).encode())])
    (tmp_path / "s-00.tar").write_bytes(data)
    [example] = open_corpus(tmp_path / "s-00.tar")
    assert (example.id, example.captions) == ("k1", ("A dog.",))
    assert (example.split, example.dataset) == ("test", "coco")
    assert example.image is not None
    assert (example.image.member, example.image.data) == ("k1.png", picture())
    assert example.image.location == str(tmp_path / "s-00.tar")


def test_text_caption_folders_and_other_members(
    tmp_path: Path, picture: Make, make_tar: Make
) -> None:
    files = [
        ("./d/a.b.seg.png", b"x"),  # key d/a, ending b.seg.png: no image by that name
        ("d/a.JPG", picture()),
        ("d/a.txt", "One.\n\nTwo, é.\n".encode()),
        ("d/.DS_Store", b"junk"),
        ("README", b"no dot"),
    ]
    (tmp_path / "my-003.tar").write_bytes(make_tar(files))
    [example] = open_corpus(tmp_path / "my-003.tar")
    assert (example.id, example.captions) == ("d/a", ("One.", "Two, é."))
    assert (example.split, example.dataset) == ("", "my")


def test_iterating_twice_opens_and_counts_again(tmp_path: Path, make_tar: Make) -> None:
    (tmp_path / "s.tar").write_bytes(make_tar({"a": ["x", " "], "b": []}))
    corpus = open_corpus(tmp_path / "s.tar")
    for _ in range(2):
        assert ids(corpus) == ["a"]
        assert kinds(corpus) == {"empty-caption": 1, "no-captions": 1}
    assert ids(pickle.loads(pickle.dumps(corpus))) == ["a"]  # workers of a loader get a copy


def test_braces_globs_folders_and_several_sources(tmp_path: Path, make_tar: Make) -> None:
    for number in range(3):
        (tmp_path / f"s-{number:02d}.tar").write_bytes(make_tar({f"k{number}": ["x"]}))
    (tmp_path / ".s-99.partial.tar").write_bytes(b"half-written")
    assert ids(open_corpus(tmp_path / "s-{00..01}.tar")) == ["k0", "k1"]
    assert ids(open_corpus(tmp_path / "s-*.tar")) == ["k0", "k1", "k2"]
    assert ids(open_corpus(tmp_path)) == ["k0", "k1", "k2"]
    assert ids(open_corpus([tmp_path / "s-02.tar", tmp_path / "s-00.tar"])) == ["k2", "k0"]
    with pytest.raises(CorpusError, match=r"t-\*\.tar"):
        open_corpus(tmp_path / "t-*.tar")
    with pytest.raises(CorpusError, match=r"t-00\.tar"):
        open_corpus(tmp_path / "t-{00..01}.tar")


def test_any_fsspec_url_streamed(make_tar: Make) -> None:
    for number in range(2):
        with fsspec.open(f"memory://bucket/s-{number}.tar", "wb") as file:
            file.write(make_tar({f"k{number}": ["x"]}))
    assert ids(open_corpus("memory://bucket/s-{0..1}.tar")) == ["k0", "k1"]
    assert ids(open_corpus("memory://bucket/s-*.tar")) == ["k0", "k1"]
    corpus = open_corpus("memory://bucket/s-{0..2}.tar")
    assert ids(corpus) == ["k0", "k1"]
    assert kinds(corpus) == {"unreadable-file": 1}


def test_a_missing_shard_costs_only_itself(tmp_path: Path, make_tar: Make) -> None:
    (tmp_path / "s-1.tar").write_bytes(make_tar({"k": ["x"]}))
    corpus = open_corpus(tmp_path / "s-{0..2}.tar")
    assert ids(corpus) == ["k"]
    assert kinds(corpus) == {"unreadable-file": 2}
    assert "s-0.tar" in corpus.problems.first(Kind.UNREADABLE_FILE)[0].where


def test_duplicate_across_shards_keeps_the_first(tmp_path: Path, make_tar: Make) -> None:
    (tmp_path / "s-0.tar").write_bytes(make_tar({"k": ["first"]}))
    (tmp_path / "s-1.tar").write_bytes(make_tar({"k": ["second"], "l": ["x"]}))
    corpus = open_corpus(tmp_path / "s-{0..1}.tar")
    assert [e.captions for e in corpus] == [("first",), ("x",)]
    assert kinds(corpus) == {"duplicate-id": 1}
    assert corpus.problems.first(Kind.DUPLICATE_ID)[0].where.endswith("s-1.tar::k")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([("a.json", b'{"captions": ["x"]}')], "missing-image"),
        ([("a.png", b"P")], "no-captions"),
        ([("a.png", b"P"), ("a.json", b"{broken")], "malformed-record"),
        ([("a.png", b"P"), ("a.json", b"[1]")], "malformed-record"),
        ([("a.png", b"P"), ("a.json", b'{"captions": [3]}')], "malformed-record"),
        ([("a.png", b"P"), ("a.json", b'{"captions": ["caf\xe9", "y"]}')], "wrong-encoding"),
        ([("a.png", b"P"), ("a.json", b'{"captions": ["", "y"]}')], "empty-caption"),
        ([("a\xe9.png", b"P"), ("a\xe9.txt", b"caf\xe9")], "wrong-encoding"),
    ],
)
def test_each_bad_record_is_named_and_costs_only_itself(
    tmp_path: Path, make_tar: Make, picture: Make, files: list[tuple[str, bytes]], expected: str
) -> None:
    good = [("z.png", picture()), ("z.txt", b"fine")]
    (tmp_path / "s.tar").write_bytes(make_tar([*files, *good]))
    corpus = open_corpus(tmp_path / "s.tar")
    assert ids(corpus)[-1] == "z"
    assert expected in kinds(corpus)
    problem = next(iter(corpus.problems))
    assert "s.tar::a" in problem.where
    assert problem.remedy in str(problem)
    with pytest.raises(CorpusError, match=r"s\.tar::a"):
        list(open_corpus(tmp_path / "s.tar", strict=True))


def whole_records(data: bytes, available: int) -> list[str]:
    """Keys whose two members lie wholly within the first `available` bytes of the tar."""
    ends: dict[str, int] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            ends[member.name.split(".")[0]] = member.offset_data + member.size
    return [key for key, end in ends.items() if end <= available]


def end_mark(data: bytes) -> int:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.getmembers()
        return tar.offset


def test_truncated_anywhere_every_whole_record_survives(tmp_path: Path, make_tar: Make) -> None:
    data = make_tar(RECORDS)
    path = tmp_path / "s.tar"
    for cut in [*range(0, len(data), 61), *range(511, len(data), 512), *range(512, len(data), 512)]:
        path.write_bytes(data[:cut])
        corpus = open_corpus(path)
        assert ids(corpus) == whole_records(data, cut), cut
        was_cut = cut < end_mark(data) + 512
        assert (corpus.problems.counts[Kind.TRUNCATED_FILE] == 1) == was_cut, cut
        if was_cut:
            assert f"byte {cut}" in corpus.problems.first(Kind.TRUNCATED_FILE)[0].found


def test_truncated_gzip_every_whole_record_survives(tmp_path: Path, make_tar: Make) -> None:
    data = make_tar(RECORDS)
    packed = gzip.compress(data, mtime=0)
    path = tmp_path / "s.tar.gz"
    path.write_bytes(packed)
    assert ids(open_corpus(path)) == list(RECORDS)
    for cut in range(20, len(packed) - 8, 7):
        path.write_bytes(packed[:cut])
        available = len(zlib.decompressobj(31).decompress(packed[:cut]))
        corpus = open_corpus(path)
        assert ids(corpus) == whole_records(data, available), cut
        assert kinds(corpus) == {**kinds(corpus), "truncated-file": 1}, cut


def test_damage_in_the_middle_costs_only_the_records_it_hits(
    tmp_path: Path, make_tar: Make
) -> None:
    data = bytearray(make_tar(RECORDS))
    with tarfile.open(fileobj=io.BytesIO(bytes(data))) as tar:
        offset = tar.getmember("002.png").offset
    data[offset : offset + 200] = b"\xff" * 200
    (tmp_path / "s.tar").write_bytes(data)
    corpus = open_corpus(tmp_path / "s.tar")
    assert ids(corpus) == ["000", "001", "003", "004"]
    assert kinds(corpus) == {"damaged-file": 1, "missing-image": 1}
    assert f"bytes {offset} to" in corpus.problems.first(Kind.DAMAGED_FILE)[0].found


def test_concatenated_tars_and_rubbish(tmp_path: Path, make_tar: Make) -> None:
    joined = make_tar({"a": ["x"]}) + make_tar({"b": ["y"]})
    (tmp_path / "joined.tar").write_bytes(joined)
    assert ids(open_corpus(tmp_path / "joined.tar")) == ["a", "b"]
    (tmp_path / "rubbish.tar").write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(CorpusError, match="damaged-file"):
        list(open_corpus(tmp_path / "rubbish.tar"))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names(tmp_path: Path, picture: Make, form: int) -> None:
    key = "folder/" * 30 + "größe" * 10
    with tarfile.open(tmp_path / "s.tar", "w", format=form) as tar:
        for name, data in [(f"{key}.png", picture()), (f"{key}.txt", b"fine"), ("k.png", b"P")]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    assert ids(open_corpus(tmp_path / "s.tar")) == [key]


def test_images_alone_when_captions_are_not_needed(tmp_path: Path, make_tar: Make) -> None:
    (tmp_path / "s.tar").write_bytes(make_tar([("a.png", b"P"), ("b.png", b"Q")]))
    corpus = open_corpus(tmp_path / "s.tar", need_captions=False)
    assert [(e.id, e.captions) for e in corpus] == [("a", ()), ("b", ())]
    assert len(corpus.problems) == 0
