"""The word list: order, counts, coverage, labels, and its file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import VocabularyError
from sightwords.text.vocabulary import CLOSED_CLASS, Vocabulary, WordCounts
from sightwords.text.vocabulary_file import from_json, load_vocabulary, save_vocabulary, to_json

CAPTIONS = ["A dog chases a cat.", "The cat, a cat!", "A Dog"]
# a 4, cat 3, dog 2, chases 1, the 1: eleven tokens


def test_words_by_count_then_by_word() -> None:
    vocabulary = Vocabulary.of_captions(CAPTIONS, size=4)
    assert vocabulary.words == ("a", "cat", "dog", "chases")
    assert vocabulary.counts == (4, 3, 2, 1)
    assert vocabulary.total_tokens == 11
    assert vocabulary.coverage == pytest.approx(10 / 11)
    assert len(vocabulary) == 4
    assert "cat" in vocabulary
    assert "the" not in vocabulary
    assert Vocabulary.of_captions(reversed(CAPTIONS), size=4) == vocabulary


def test_fewer_words_than_asked_for() -> None:
    assert Vocabulary.of_captions(CAPTIONS).words == ("a", "cat", "dog", "chases", "the")


words = st.sampled_from(["a", "the", "dog", "cat", "café", "二"])
captions = st.lists(st.lists(words, max_size=6).map(" ".join), max_size=12)


@given(captions, captions, st.integers(1, 5))
def test_counts_of_parts_add_up_to_those_of_the_whole(
    left: list[str], right: list[str], batch_size: int
) -> None:
    whole = WordCounts.of_captions(left + right)
    merged = WordCounts.of_captions(left, batch_size=batch_size) + WordCounts.of_captions(right)
    assert dict(merged.counts) == dict(whole.counts)
    assert merged.captions == whole.captions == len(left) + len(right)


def test_adding_leaves_both_sides_alone() -> None:
    one = WordCounts({"a": 1}, 1)
    assert (one + one).counts["a"] == 2
    assert one.counts["a"] == 1


def test_the_papers_closed_class_words() -> None:
    assert len(CLOSED_CLASS) == 15
    assert CLOSED_CLASS[:4] == ("a", "on", "of", "the")
    assert CLOSED_CLASS[-3:] == ("next", "that", "it")


def test_lookup_encoding_and_decoding() -> None:
    vocabulary = Vocabulary.of_captions(CAPTIONS, size=3)
    assert [vocabulary.index(word) for word in vocabulary.words] == [0, 1, 2]
    assert vocabulary.encode(["dog", "zebra", "a"]) == [2, 3, 0]
    assert vocabulary.decode([2, 3, 0]) == ["dog", "<unk>", "a"]
    with pytest.raises(VocabularyError, match=r"'zebra'.*3"):
        vocabulary.index("zebra")
    for outside in (4, -1):
        with pytest.raises(VocabularyError, match=str(outside)):
            vocabulary.decode([outside])


def test_labels_look_at_the_first_captions_only() -> None:
    vocabulary = Vocabulary(("a", "cat", "dog"), (3, 2, 1), 6)
    images = [["a dog dog", "A cat.", "dog"], [], ["zebra"], ["cat"] * 5 + ["dog"]]
    mentions = vocabulary.mentions(images)
    assert mentions.tolist() == [[2, 1, 2], [0, 0, 0], [0, 0, 0], [0, 5, 0]]
    np.testing.assert_array_equal(vocabulary.labels(images), mentions > 0)
    assert vocabulary.labels(images, captions_per_image=1)[0].tolist() == [True, False, True]
    assert vocabulary.labels([]).shape == (0, 3)
    with pytest.raises(VocabularyError, match=r"captions_per_image.*0"):
        vocabulary.labels(images, captions_per_image=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (((), (), 0), ""),
        ((("a", "b"), (1,), 9), "2 .*1 "),
        ((("a", "a"), (2, 1), 9), "'a'"),
        ((("a", "b"), (1, 2), 9), r"'b' \(2\).*'a' \(1\)"),
        ((("b", "a"), (1, 1), 9), r"'a' \(1\).*'b' \(1\)"),
        ((("a",), (3,), 2), "3 of 2"),
        ((("a",), (0,), 2), "0"),
        ((("a",), (1,), 1, ("DT", "NN")), "2"),
        ((("a",), (1,), 1, ("ADV",)), "'ADV'.*NN"),
    ],
)
def test_lists_that_cannot_be_right_are_refused(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(VocabularyError, match=said or None):
        Vocabulary(*arguments)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="0"):
        Vocabulary.of_captions(["a"], size=0)
    with pytest.raises(VocabularyError):
        Vocabulary.of_captions(["...", ""])


def test_parts_of_speech_are_kept_beside_the_words() -> None:
    vocabulary = Vocabulary(("a", "dog"), (2, 1), 3)
    tagged = vocabulary.with_pos({"a": "DT", "dog": "NN", "unused": "VB"})
    assert tagged.pos == ("DT", "NN")
    with pytest.raises(VocabularyError, match=r"1 of 2.*'dog'"):
        vocabulary.with_pos({"a": "DT"})


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])), st.integers(1, 9)
    ).filter(bool),
    st.booleans(),
)
def test_any_vocabulary_survives_its_file(counts: dict[str, int], tagged: bool) -> None:
    vocabulary = Vocabulary.of_counts(WordCounts(counts, 1))
    if tagged:
        vocabulary = vocabulary.with_pos(dict.fromkeys(counts, "other"))
    text = to_json(vocabulary)
    assert from_json(text) == vocabulary
    assert to_json(from_json(text)) == text


def test_the_file_is_utf8_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    vocabulary = Vocabulary(("café", "犬"), (2, 1), 3)
    path = tmp_path / "vocabulary.json"
    save_vocabulary(vocabulary, path)
    first = path.read_bytes()
    save_vocabulary(vocabulary, path)
    assert path.read_bytes() == first
    assert "犬".encode() in first
    assert load_vocabulary(path) == vocabulary


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("[]", "sightwords-vocabulary"),
        ('{"format": "x"}', "sightwords-vocabulary"),
        ('{"format": "sightwords-vocabulary", "version": 9}', "version 9.*1"),
        (
            '{"format": "sightwords-vocabulary", "version": 1, "tokenizer": "split"}',
            "'split'",
        ),
        ("WORDS", "'words'"),
        ('WORDS, "total_tokens": true, "words": [["a", 1]]', "'total_tokens'"),
        ('WORDS, "total_tokens": 3, "words": [["a", 2], ["b", 1, "NN"]]', r"\[word, count\]"),
        ('WORDS, "total_tokens": 3, "words": ["ab"]', r"\[word, count\]"),
        ('WORDS, "total_tokens": 3, "words": [["a", "2"]]', r"\['a', '2'\]"),
        ('WORDS, "total_tokens": 3, "words": [["a", 1, null]]', r"\['a', 1, None\]"),
        ('WORDS, "total_tokens": 3, "words": [["a", 1, 7]]', "7"),
        ('WORDS, "total_tokens": 3, "words": [["a", 1], ["a", 1]]', "'a'"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    if text.startswith("WORDS"):
        header = '{"format": "sightwords-vocabulary", "version": 1, "tokenizer": "ptb-coco"'
        text = header + text.removeprefix("WORDS") + "}"
    path = tmp_path / "words.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(VocabularyError, match=said or None) as caught:
        load_vocabulary(path)
    assert str(caught.value).startswith(str(path))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"missing\.json"):
        load_vocabulary(tmp_path / "missing.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VocabularyError, match="UTF-8"):
        load_vocabulary(tmp_path / "binary")


@pytest.mark.slow
@pytest.mark.real_data
def test_a_thousand_words_cover_92_percent_of_coco() -> None:
    import gzip
    import json

    path = Path(os.environ["SIGHTWORDS_DATA"]) / "coco-train.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        captions = [caption.lower() for line in lines for caption in json.loads(line)["captions"]]
    vocabulary = Vocabulary.of_captions(captions)
    assert len(vocabulary) == 1000
    assert 0.92 < vocabulary.coverage < 0.925
    assert set(CLOSED_CLASS) <= set(vocabulary.words[:30])
