"""METEOR from tokens to scores: cases worked by hand, on data made here."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import MissingExtraError
from sightwords.metrics.meteor import data as meteor_data
from sightwords.metrics.meteor import image_statistics, meteor, score
from sightwords.metrics.meteor.data import MeteorData, Synonyms
from sightwords.metrics.meteor.paraphrases import ParaphraseTable, read_table
from sightwords.metrics.score import Comparison

DATA = MeteorData(
    function_words=frozenset({"a", "the", "on", "of"}),
    prefixes={},
    synonyms=Synonyms(
        {"dog": "1", "hound": "1 2", "goose": "3", "bird": "3"}, {"geese": ("goose",)}
    ),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ParaphraseTable:
    path = tmp_path_factory.mktemp("data") / "paraphrases.gz"
    entries = [("on the shore of", "along"), ("sofa", "couch"), ("along", "beside")]
    write_table(path, entries)
    return read_table(path)


def write_table(path: Path, entries: list[tuple[str, str]]) -> None:
    text = "".join(f"0.5\n{phrase}\n{paraphrase}\n" for phrase, paraphrase in entries)
    path.write_bytes(gzip.compress(text.encode()))


def compare(*pairs: tuple[str, list[str]]) -> Comparison:
    """Captions that need no tokeniser."""
    return Comparison(
        ids=tuple(str(i) for i in range(len(pairs))),
        candidates=tuple(tuple(candidate.split()) for candidate, _ in pairs),
        references=tuple(tuple(tuple(r.split()) for r in group) for _, group in pairs),
    )


def test_two_of_three_words(table: ParaphraseTable) -> None:
    """`a dog` of `a dog runs`: content words weigh .75, function words .25."""
    statistics = image_statistics(compare(("a dog runs", ["a dog sleeps"])), DATA, table)
    assert statistics.tolist() == [[3, 3, 1, 1, 1, 1, 1, 1, *[0] * 12, 1]]
    precision = recall = (0.75 + 0.25) / (2 * 0.75 + 0.25)
    mean = 1 / (0.15 / precision + 0.85 / recall)
    assert score(statistics) == pytest.approx([mean * (1 - 0.6 * (1 / 2) ** 0.2)])


def test_recall_outweighs_precision(table: ParaphraseTable) -> None:
    pairs = compare(("dog", ["dog runs home"]), ("dog runs home", ["dog"]))
    short, long = score(image_statistics(pairs, DATA, table))
    penalty = 1 - 0.6  # one chunk of one word
    assert short == pytest.approx(penalty / (0.15 / 1 + 0.85 / (1 / 3)))
    assert long == pytest.approx(penalty / (0.15 / (1 / 3) + 0.85 / 1))


def test_the_same_sentence_scores_one_whatever_its_order_of_references(
    table: ParaphraseTable,
) -> None:
    pairs = compare(("a dog runs", ["a cat", "a dog runs", "a dog runs"]))
    assert score(image_statistics(pairs, DATA, table)) == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("candidate", "reference", "module", "words"),
    [
        ("dogs run", "dog runs", 1, (2, 2)),  # stems
        ("hounds", "dog", 2, (1, 1)),  # a synonym of the base form
        ("geese", "bird", 2, (1, 1)),  # an irregular form
        ("couch", "sofa", 3, (1, 1)),  # a paraphrase
        ("sofa", "couch", 3, (1, 1)),  # and the other way round
        ("along", "on the shore of", 3, (1, 4)),  # of another length
        ("on the shore of", "along", 3, (4, 1)),
        ("beside", "on the shore of", 3, (0, 0)),  # paraphrases do not add up
    ],
)
def test_each_module_finds_its_matches(
    table: ParaphraseTable, candidate: str, reference: str, module: int, words: tuple[int, int]
) -> None:
    row = image_statistics(compare((candidate, [reference])), DATA, table)[0]
    found = row[4:20].reshape(4, 2, 2).sum(axis=1)
    expected = np.zeros((4, 2))
    expected[module] = words
    assert found.tolist() == expected.tolist()


def test_an_exact_match_is_preferred_and_a_lone_stem_match_costs_a_chunk(
    table: ParaphraseTable,
) -> None:
    """Single stems weigh nothing in the search, so one that would begin a new chunk is dropped."""
    row = image_statistics(compare(("dogs and dog", ["big dog and cat"])), DATA, table)[0]
    exact, stems = row[4:6], row[8:10]
    assert exact.tolist() == [2, 2]
    assert stems.tolist() == [0, 0]
    assert row[20] == 2


def test_the_corpus_is_scored_as_one_and_perfect_images_add_no_chunk(
    table: ParaphraseTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = compare(("dog runs", ["dog runs"]), ("dog sits", ["dog lies"]))
    monkeypatch.setattr("sightwords.metrics.meteor.metric.meteor_files", lambda: FILES)
    monkeypatch.setattr("sightwords.metrics.meteor.metric.load_data", lambda _: DATA)
    monkeypatch.setattr("sightwords.metrics.meteor.metric.load_table", lambda _: table)
    found = meteor(pairs)
    assert found.value == pytest.approx(0.75 * (1 - 0.6 * (1 / 3) ** 0.2))  # 3 of 4 words, 1 chunk
    assert found.per_image == pytest.approx([1.0, 0.5 * (1 - 0.6)])
    assert found.sums is not None
    assert found.sums.value_of(found.sums.rows.sum(axis=0)) == found.value
    assert found.metric == "meteor"
    assert found.signature.startswith("meteor|variant:1.5|lang:en|norm:yes|images:2|refs:1|")


FILES = meteor_data.MeteorFiles(Path("jar"), Path("table"))


def test_nothing_to_match(table: ParaphraseTable) -> None:
    pairs = compare(("", ["a dog"]), ("", [""]), ("a dog", [""]), ("cat", ["dog", "bird"]))
    statistics = image_statistics(pairs, DATA, table)
    assert score(statistics).tolist() == [0.0] * 4
    assert statistics[:, :2].tolist() == [[0, 2], [0, 0], [2, 0], [1, 1]]  # the first reference


def test_an_empty_candidate_lowers_the_corpus_score(table: ParaphraseTable) -> None:
    whole = image_statistics(compare(("dog runs", ["dog sits"])), DATA, table)
    both = image_statistics(compare(("dog runs", ["dog sits"]), ("", ["cat"])), DATA, table)
    assert score(both.sum(axis=0)) < score(whole.sum(axis=0))


def test_images_in_batches_score_as_in_one(
    table: ParaphraseTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = compare(*((f"a dog {i % 3} sofa", [f"a couch {i % 2}", "dogs"]) for i in range(10)))
    at_once = image_statistics(pairs, DATA, table)
    monkeypatch.setattr("sightwords.metrics.meteor.metric._IMAGES_AT_ONCE", 3)
    assert image_statistics(pairs, DATA, table).tolist() == at_once.tolist()


def test_lone_surrogates_do_not_stop_the_rest(table: ParaphraseTable) -> None:
    pairs = compare(("a \ud83d dog", ["a dog"]), ("a dog", ["a dog"]))
    assert score(image_statistics(pairs, DATA, table))[1] == 1.0


def test_without_the_extra_the_message_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str, **_: str) -> None:
        raise MissingExtraError(module)

    monkeypatch.setattr(meteor_data, "require", absent)
    with pytest.raises(MissingExtraError, match="pycocoevalcap"):
        meteor(compare(("a dog", ["a dog"])))


def test_a_wheel_without_its_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Package:
        __path__ = (str(tmp_path),)

    monkeypatch.setattr(meteor_data, "require", lambda *_, **__: Package)
    with pytest.raises(MissingExtraError, match=r"meteor-1\.5\.jar.*pip install"):
        meteor(compare(("a dog", ["a dog"])))


def test_values_of_the_jar() -> None:
    """Written down from METEOR's jar, so that its data is put to use without Java too."""
    pytest.importorskip("pycocoevalcap", reason="METEOR's data: sightwords[meteor]")
    found = meteor(
        compare(
            (
                "a man riding a wave on a surfboard",
                ["a surfer rides a big wave", "a person surfing on a wave in the ocean"],
            ),
            (
                "two dogs are playing with a ball in the grass",
                ["a couple of puppies play with a ball on the lawn"],
            ),
            ("a black-and-white cat 's bed", ["the bed of a black and white cat"]),
            ("", ["a dog"]),
            ("a bus in front of a building", ["a bus in front of a building"]),
        )
    )
    expected = [0.27042727488, 0.256285216502, 0.453560680076, 0.0, 1.0]
    assert found.per_image == pytest.approx(expected, rel=0, abs=1e-11)
    assert found.value == pytest.approx(0.353357491960, rel=0, abs=1e-11)
