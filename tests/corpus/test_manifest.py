from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.corpus import Kind, open_corpus
from sightwords.corpus.formats.table import table_cells
from sightwords.errors import CorpusError

Make = Callable[..., bytes]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_merges_rows_and_finds_images_beside_it(folder: Path) -> None:
    text = 'image,caption,split\nimages/a.jpg,"A dog, running.",train\nimages/b.jpg,A cat.,val\n'
    path = write(folder / "mine.csv", text + "images/a.jpg,Dogs.,train\n")
    examples = {e.id: e for e in open_corpus(path)}
    assert examples["images/a"].captions == ("A dog, running.", "Dogs.")
    assert examples["images/b"].split == "val"
    assert examples["images/b"].dataset == "mine"
    assert examples["images/a"].image is not None
    assert Path(examples["images/a"].image.location) == folder / "images/a.jpg"
    [only] = open_corpus(path, split="val")
    assert only.id == "images/b"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.tsv", "File_Name\tText\na.jpg\tA dog.\n"),
        ("results.csv", "image_name| comment_number| comment\na.jpg| 0| A dog.\n"),
        ("captions.txt", "image,caption\r\na.jpg,A dog.\r\n"),
        ("m.jsonl", '{"file_name": "a.jpg", "text": "A dog."}\n'),
        ("m.jsonl", '\ufeff{"image": "a.jpg", "captions": ["A dog."], "id": 7}\n\n'),
        ("m.csv", '\ufeff"image","caption_0","caption_1"\na.jpg,A dog.,Dogs.\n'),
    ],
)
def test_what_people_call_their_columns(folder: Path, name: str, text: str) -> None:
    [example] = open_corpus(write(folder / name, text), images=folder / "images")
    assert example.captions[0] == "A dog."
    assert example.image is not None
    assert example.image.location.endswith("a.jpg")


def test_named_columns(folder: Path) -> None:
    path = write(folder / "m.csv", "pic,alt,long,image\na.jpg,A dog.,A long dog.,zzz\n")
    [example] = open_corpus(
        path, images=folder / "images", image_column="pic", captions="alt,long", id_column="alt"
    )
    assert (example.id, example.captions) == ("A dog.", ("A dog.", "A long dog."))


def test_jsonl_without_images_is_text_until_a_folder_is_named(folder: Path) -> None:
    text = '{"id": "a", "captions": ["A dog.", "Dogs."]}\n'
    path = folder / "coco-val.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode()))
    [example] = open_corpus(path)
    assert (example.id, example.image, example.dataset) == ("a", None, "coco-val")
    [example] = open_corpus(path, images=folder / "images")
    assert example.image is not None
    assert example.image.location.endswith("a.jpg")


def test_sentences(tmp_path: Path) -> None:
    path = tmp_path / "lm.txt.gz"
    path.write_bytes(gzip.compress(b"A dog, #1 here.\n\n  a cat \ncaf\xe9\n"))
    corpus = open_corpus(path)
    assert [(e.id, e.captions) for e in corpus] == [
        ("lm:1", ("A dog, #1 here.",)),
        ("lm:3", ("a cat",)),
    ]
    assert corpus.problems.first(Kind.WRONG_ENCODING)[0].where == f"{path}:4"


def test_every_bad_row_is_named_and_costs_only_itself(folder: Path) -> None:
    rows = [
        '{"image": "a.jpg", "caption": "Fine."}',
        "{not json",
        '["a list"]',
        '{"image": "gone.jpg", "caption": "Gone."}',
        '{"caption": "No image."}',
        '{"image": "b.jpg", "caption": ""}',
        '{"image": "b.jpg", "caption": 5}',
        '{"image": "", "caption": "No image."}',
        '{"id": "x", "image": "c.jpg", "caption": "ok", "split": "train"}',
        '{"id": "x", "image": "a.jpg", "caption": "other image"}',
        '{"id": "x", "image": "c.jpg", "caption": "other split", "split": "val"}',
        '{"id": "x", "image": "c.jpg", "caption": "second"}',
    ]
    data = "\n".join(rows).encode() + b'\n{"image": "a.jpg", "caption": "caf\xe9"}\n'
    path = write(folder / "m.jsonl", data)
    corpus = open_corpus(path, images=folder / "images")
    assert {e.id: e.captions for e in corpus} == {"a": ("Fine.",), "x": ("ok", "second")}
    assert {str(k): n for k, n in corpus.problems.counts.items()} == {
        "malformed-record": 4,
        "missing-image": 1,
        "caption-without-image": 2,
        "empty-caption": 1,
        "no-captions": 1,
        "duplicate-id": 1,
        "wrong-encoding": 1,
    }
    lines = [p.where.rsplit(":", 1)[1] for p in corpus.problems.first(Kind.MALFORMED_RECORD)]
    assert lines == ["2", "3", "7", "11"]
    with pytest.raises(CorpusError, match=r"m\.jsonl:2: malformed-record"):
        list(open_corpus(path, images=folder / "images", strict=True))


def test_a_csv_without_the_columns_says_which_it_has(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "picture,words\na.jpg,A dog.\n")
    with pytest.raises(CorpusError, match=r"missing-columns.*'picture', 'words'"):
        list(open_corpus(path))
    with pytest.raises(CorpusError, match=r"empty\.csv"):
        list(open_corpus(write(tmp_path / "empty.csv", "")))


def test_csv_stray_quotes_and_wrong_widths(folder: Path) -> None:
    text = 'image,caption\na.jpg,"never closed\nb.jpg,A cat.\nc.jpg,too,many\nc.jpg,"two\nlines"\n'
    corpus = open_corpus(write(folder / "m.csv", text), images=folder / "images")
    assert {e.id: e.captions for e in corpus} == {"b": ("A cat.",), "c": ("two\nlines",)}
    assert [p.where.rsplit(":", 1)[1] for p in corpus.problems] == ["2", "4"]


def test_utf16_is_refused_until_named(tmp_path: Path) -> None:
    path = write(tmp_path / "lm.txt", "A dog.\n".encode("utf-16"))
    with pytest.raises(CorpusError, match="UTF-16"):
        open_corpus(path)
    assert [e.captions for e in open_corpus(path, encoding="utf-16")] == [("A dog.",)]
    with pytest.raises(CorpusError, match="utf-99"):
        open_corpus(path, encoding="utf-99")


def test_truncated_gzip_gives_every_whole_line(tmp_path: Path) -> None:
    rows = [json.dumps({"id": str(n), "captions": [f"caption {n}"]}) for n in range(200)]
    packed = gzip.compress("\n".join(rows).encode(), compresslevel=0, mtime=0)
    path = tmp_path / "m.jsonl.gz"
    for cut in range(30, len(packed) - 8, 501):
        path.write_bytes(packed[:cut])
        available = packed[15:cut].decode()  # stored, not compressed: behind two headers
        corpus = open_corpus(path)
        try:
            found = [e.id for e in corpus]
        except CorpusError:
            found = []
        assert found == [str(n) for n in range(available.count("\n"))], cut
        assert corpus.problems.counts[Kind.TRUNCATED_FILE] == 1


def test_a_manifest_at_a_url_with_images_at_a_url(picture: Make) -> None:
    with fsspec.open("memory://photos/images/a.png", "wb") as file:
        file.write(picture())
    with fsspec.open("memory://photos/m.csv", "wb") as file:
        file.write(b"image,caption\na.png,A dog.\nb.png,Gone.\n")
    corpus = open_corpus("memory://photos/m.csv", images="memory://photos/images")
    [example] = corpus
    assert example.image is not None
    assert example.image.location.endswith("photos/images/a.png")
    assert corpus.problems.counts[Kind.MISSING_IMAGE] == 1


def test_the_same_name_in_two_folders_is_never_guessed(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "a.jpg").write_bytes(b"other")
    corpus = open_corpus(write(folder / "m.csv", "image,caption\na.jpg,A dog.\nb.jpg,ok\n"))
    assert [e.id for e in corpus] == ["b"]
    assert corpus.problems.counts[Kind.MISSING_IMAGE] == 1


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8))
def test_what_csv_writes_is_read_back(rows: list[tuple[str, str]]) -> None:
    import csv
    import io

    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    lines = io.StringIO(buffer.getvalue(), newline="").readlines()
    assert [cells for _, cells in table_cells(lines, ",", 2)] == [list(row) for row in rows]


def test_unknown_formats_name_what_is_supported(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"m\.xyz.*COCO"):
        open_corpus(write(tmp_path / "m.xyz", "what is this"))
    with pytest.raises(CorpusError, match=r"gone\.jsonl"):
        open_corpus(tmp_path / "gone.jsonl")
    with pytest.raises(CorpusError, match="hf:owner/name"):
        open_corpus("owner/name")
    with pytest.raises(CorpusError, match="empty"):
        open_corpus(_empty(tmp_path))
    with pytest.raises(CorpusError):
        open_corpus([])


def _empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_a_folder_with_two_caption_files_asks_which(folder: Path) -> None:
    write(folder / "manifest.csv", "image,caption\n")
    write(folder / "captions.txt", "image,caption\n")
    with pytest.raises(CorpusError, match=r"captions\.txt.*manifest\.csv"):
        open_corpus(folder)


def test_an_unknown_split_names_those_there_are(folder: Path) -> None:
    path = write(folder / "m.csv", "image,caption,split\nimages/a.jpg,A dog.,dev\n")
    with pytest.raises(CorpusError, match=r"val.*dev \(1\)"):
        list(open_corpus(path, split="val"))
