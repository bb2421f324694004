"""METEOR's paraphrase table: reading, looking up, keeping."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import ExternalToolError
from sightwords.metrics.meteor import cache as meteor_cache
from sightwords.metrics.meteor import paraphrases as meteor_paraphrases
from sightwords.metrics.meteor.cache import cache_folder, load_table
from sightwords.metrics.meteor.hash import U64, SpanHasher
from sightwords.metrics.meteor.paraphrases import ParaphraseTable, read_table

ENTRIES = [
    ("a dog", "the dog"),
    ("a dog", "hound"),
    ("hound", "a dog"),
    ("sofa", "couch"),
    ("über", "ober"),
]


def write(path: Path, entries: list[tuple[str, str]]) -> Path:
    text = "".join(f"0.123\n{phrase}\n{paraphrase}\n" for phrase, paraphrase in entries)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def hash_of(phrase: str) -> int:
    """By the definition: prefix sums of the phrase alone."""
    text = np.frombuffer(phrase.encode(), dtype=np.uint8)
    return int(SpanHasher(len(text)).prefix_sums(text)[-1])


def look_up(table: ParaphraseTable, *phrases: str) -> list[tuple[str, str, int]]:
    by_hash = {hash_of(phrase): phrase for phrase in phrases}
    hashes: U64 = np.array(sorted(by_hash), dtype=np.uint64)
    names = [by_hash[int(h)] for h in hashes]
    rows = zip(*(column.tolist() for column in table.among(hashes)), strict=True)
    return sorted((names[a], names[b], place) for a, b, place in rows)


def test_entries_between_the_phrases_at_hand(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.gz", ENTRIES))
    assert look_up(table, "a dog", "hound", "couch", "cat") == [
        ("a dog", "hound", 1),
        ("hound", "a dog", 0),
    ]
    assert look_up(table, "über", "ober") == [("über", "ober", 0)]
    assert look_up(table, "cat", "zebra") == []
    assert look_up(table) == []


def test_a_phrase_in_several_places_of_the_file(tmp_path: Path) -> None:
    entries = [("a", "b"), ("c", "d"), ("a", "c")]
    table = read_table(write(tmp_path / "t.gz", entries))
    assert look_up(table, "a", "b", "c", "d") == [("a", "b", 0), ("a", "c", 1), ("c", "d", 0)]


def test_lines_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [(f"phrase number {i}", f"paraphrase {i % 7}") for i in range(300)]
    path = write(tmp_path / "t.gz", entries)
    whole = read_table(path)
    monkeypatch.setattr(meteor_paraphrases, "_CHUNK_BYTES", 64)
    in_blocks = read_table(path)
    assert whole.phrases.tolist() == in_blocks.phrases.tolist()
    assert whole.paraphrases.tolist() == in_blocks.paraphrases.tolist()
    assert look_up(whole, "phrase number 8", "paraphrase 1") == [
        ("phrase number 8", "paraphrase 1", 0)
    ]


def test_a_span_has_the_same_hash_wherever_it_stands() -> None:
    text = np.frombuffer(b"on a dog", dtype=np.uint8)
    hasher = SpanHasher(len(text))
    sums = hasher.prefix_sums(text)
    found = hasher.hashes(sums[2:3], sums[7:8], np.array([3]))
    assert int(found[0]) == hash_of("a dog")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (gzip.compress(b"0.1\na\nb\n0.2\n", mtime=0), "4 lines"),
        (gzip.compress(b"", mtime=0), "0 lines"),
        (gzip.compress(b"0.1\na\nb\n" * 5000, mtime=0)[:-30], ""),
        (b"no gzip at all", ""),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "paraphrase-en.gz"
    path.write_bytes(contents)
    before = threading.active_count()
    with pytest.raises(ExternalToolError, match=rf"paraphrase-en\.gz.*{message}.*pycocoevalcap"):
        read_table(path)
    assert threading.active_count() == before


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGHTWORDS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_second_time_the_file_is_not_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.gz", ENTRIES)
    first = load_table(path)
    monkeypatch.setattr(meteor_cache, "read_table", lambda _: pytest.fail("read again"))
    second = load_table(path)
    assert len(list(cache.iterdir())) == 1
    for name in ("phrases", "starts", "counts", "paraphrases"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()


def test_another_file_is_another_cache(tmp_path: Path, cache: Path) -> None:
    load_table(write(tmp_path / "t.gz", ENTRIES))
    changed = load_table(write(tmp_path / "t.gz", [("cat", "feline")]))
    assert look_up(changed, "cat", "feline") == [("cat", "feline", 0)]
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "other"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, cache: Path, damage: str) -> None:
    path = write(tmp_path / "t.gz", ENTRIES)
    load_table(path)
    (cached,) = cache.iterdir()
    contents = bytearray(cached.read_bytes())
    if damage == "changed":
        contents[-1] ^= 1
    kept: dict[str, bytes | bytearray] = {
        "cut": contents[:-8],
        "changed": contents,
        "emptied": b"",
        "other": b"x" * 300,
    }
    cached.write_bytes(kept[damage])
    table = load_table(path)
    assert look_up(table, "sofa", "couch") == [("sofa", "couch", 0)]
    assert len(cached.read_bytes()) == len(contents)


def test_no_place_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    monkeypatch.setenv("SIGHTWORDS_CACHE", str(occupied))
    table = load_table(write(tmp_path / "t.gz", ENTRIES))
    assert look_up(table, "sofa", "couch") == [("sofa", "couch", 0)]


def test_no_home_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SIGHTWORDS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    table = load_table(write(tmp_path / "t.gz", ENTRIES))
    assert look_up(table, "sofa", "couch") == [("sofa", "couch", 0)]


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", Path(".cache/sightwords")),
        ("darwin", Path("Library/Caches/sightwords")),
        ("win32", Path("AppData/Local/sightwords")),
    ],
)
def test_the_platforms_place(platform: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SIGHTWORDS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_folder() == Path.home() / place
