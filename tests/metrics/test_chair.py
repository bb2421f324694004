"""CHAIR, person words and alt text: hand-worked cases, and CHAIR by a second implementation."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sightwords.errors import ScoreError
from sightwords.metrics.alt_text import alt_text
from sightwords.metrics.chair import chair
from sightwords.metrics.objects import Objects, coco_objects, read_objects
from sightwords.metrics.persons import person_words
from sightwords.metrics.score import Comparison

WORDS = ["dog", "dogs", "cat", "puppy", "car", "a", "on", "red", "man", "hot", "train", "tracks"]


def authors_chair(
    captions: list[list[str]], references: list[list[list[str]]], boxes: list[list[str]]
) -> tuple[float, float]:
    """CHAIR by the text of the paper (section 3.1), without the package's loops or tables.

    Each word is looked up by itself; only these words and phrases occur in the tests.
    """
    table = {
        "dog": "dog",
        "dogs": "dog",
        "puppy": "dog",
        "cat": "cat",
        "car": "car",
        "man": "person",
    }

    def objects(sentence: list[str]) -> list[str]:
        text = " ".join(sentence) + " "
        text = text.replace("hot dogs ", "HOTDOG ").replace("hot dog ", "HOTDOG ")
        text = text.replace("train tracks ", "").replace("train car ", "train ")
        names = {"HOTDOG": "hot dog", "train": "train", "man": "person", **table}
        return [names[word] for word in text.split() if word in names]

    sentences = mentions = bad_sentences = bad_mentions = 0
    for caption, of_image, seen in zip(captions, references, boxes, strict=True):
        truth = set(seen)
        for reference in of_image:
            truth.update(objects(reference))
        invented = [name for name in objects(caption) if name not in truth]
        sentences += 1
        mentions += len(objects(caption))
        bad_sentences += bool(invented)
        bad_mentions += len(invented)
    return bad_sentences / sentences, bad_mentions / max(1, mentions)


@pytest.mark.parametrize("seed", range(5))
def test_equals_a_second_implementation(seed: int) -> None:
    draw = random.Random(seed)

    def sentence() -> list[str]:
        return [draw.choice(WORDS) for _ in range(draw.randint(1, 9))]

    captions = [sentence() for _ in range(60)]
    references = [[sentence() for _ in range(draw.randint(1, 3))] for _ in captions]
    boxes = [draw.sample(["dog", "cat", "car", "person", "train"], 1) for _ in captions]
    ids = tuple(map(str, range(len(captions))))
    pairs = Comparison(
        ids,
        tuple(map(tuple, captions)),
        tuple(tuple(map(tuple, of_image)) for of_image in references),
    )
    sentences, mentions = chair(pairs, dict(zip(ids, boxes, strict=True)))
    expected = authors_chair(captions, references, boxes)
    assert (sentences.value, mentions.value) == pytest.approx(expected)
    assert 0 < sentences.value < 1
    assert mentions.sums is not None  # resampling all images gives the same value
    assert float(mentions.sums.value_of(mentions.sums.rows.sum(axis=0))) == mentions.value


def test_a_reference_or_a_box_is_enough() -> None:
    pairs = Comparison.of(
        {"1": "a dog", "2": "a dog", "3": "a dog"}, {"1": ["a puppy"], "2": ["a tree"], "3": ["x"]}
    )
    sentences, _ = chair(pairs, {"1": [], "2": ["dog"], "3": ["cat"]})
    assert sentences.per_image.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("caption", "named"),
    [
        ("two men riding motor bikes", ["person", "motorcycle"]),
        ("a hot dog with mustard", ["hot dog"]),
        ("people waiting at a bus stop", ["person"]),
        ("a baby giraffe and its mother", ["giraffe", "person"]),
        ("a baby in an orange shirt", ["person"]),
        ("an orange and an apple", ["orange", "apple"]),
        ("a stuffed teddy bear on a bed", ["teddy bear", "bed"]),
        ("skis in the snow", ["skis"]),
        ("two men in ties and a kitty beside kitties", ["person", "tie", "cat", "cat"]),
        ("a couple of zebras and a family of bears", ["zebra", "bear"]),
        ("a crowd of people watch a couple", ["person", "person"]),
        ("a grassy field", []),
    ],
)
def test_objects_of_a_caption(caption: str, named: list[str]) -> None:
    assert coco_objects().named(caption.split()) == named


def test_the_table_has_all_classes_of_coco() -> None:
    assert len(coco_objects().classes) == 80


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "tools.txt"
    path.write_text("# tools\nhammer: hammer, mallet\nsaw: saw, chain saw\n")
    table = read_objects(path)
    assert isinstance(table, Objects)
    assert table.named(["two", "mallets", "and", "a", "chain", "saw"]) == ["hammer", "saw"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("hammer\n", "line 1"), ("a: x\nb: y, x\n", "line 2"), ("", "names no object")],
)
def test_a_table_with_mistakes(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tools.txt"
    path.write_text(text)
    with pytest.raises(ScoreError, match=rf"tools\.txt.*{said}"):
        read_objects(path)


def test_boxes_of_other_images_or_classes() -> None:
    pairs = Comparison.of({"7": "a dog"}, {"7": ["a dog"]})
    with pytest.raises(ScoreError, match=r"'7'.*'8'"):
        chair(pairs, {"8": []})
    with pytest.raises(ScoreError, match="'hammer'"):
        chair(pairs, {"7": ["hammer"]})


def test_images_without_boxes_do_not_count() -> None:
    pairs = Comparison.of({"1": "a dog", "2": "a cat"}, {"1": ["a tree"], "2": ["a tree"]})
    sentences, mentions = chair(pairs, {"2": ["cat"]})
    assert (sentences.value, mentions.value) == (0, 0)
    assert "with-boxes:1" in sentences.signature


def test_wrong_person_words() -> None:
    references = {
        "woman": ["a woman sits", "a lady", "someone sits"],
        "man": ["a man sits", "he sits"],
        "both": ["a man and a woman", "a woman"],
        "once": ["a boy", "a person"],
    }
    said = {"woman": "a man sits", "man": "a person", "both": "a man", "once": "a girl"}
    both, women, men = person_words(Comparison.of(said, references))
    assert (both.value, women.value, men.value) == (0.5, 1.0, 0.0)
    assert "counted:2" in both.signature


def test_a_caption_that_names_both_is_not_wrong() -> None:
    pairs = Comparison.of({"1": "a man and a woman"}, {"1": ["a woman", "a girl"]})
    assert person_words(pairs)[0].value == 0


def test_no_image_shows_a_person() -> None:
    with pytest.raises(ScoreError, match="1 images"):
        person_words(Comparison.of({"1": "a dog"}, {"1": ["a dog"]}))


@pytest.mark.parametrize(
    ("caption", "broken"),
    [
        ("A dog on a beach.", set()),
        ("Black and white photograph of a dog.", set()),
        ("A photo of a dog.", {"alt_opening"}),
        ("This is an image of a dog", {"alt_opening", "alt_ending"}),
        ("A blurry picture of a dog!", {"alt_opening"}),
        ("Dogs " * 26 + ".", {"alt_length"}),
    ],
)
def test_alt_text(caption: str, broken: set[str]) -> None:
    assert {score.metric for score in alt_text({"1": caption}) if score.value} == broken
