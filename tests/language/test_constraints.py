"""What a user may ask of a sentence: contradictions refused, the rest kept in every sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.config import GenerationConfig
from sightwords.errors import InputError, VocabularyError
from sightwords.language.constraints import Constraints, pose
from sightwords.language.generate import Generator
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import CLOSED_CLASS, Vocabulary

MakeModel = Callable[..., MaxEnt]
WORDS = ("a", "dog", "on", "red", "runs", "grass", "cat", "jumps")
VOCABULARY = Vocabulary(WORDS, tuple(range(8, 0, -1)), 36)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 30),
    roles=st.lists(st.sampled_from(["required", "forbidden", "free", "free"]), min_size=8),
    lengths=st.tuples(st.integers(1, 6), st.integers(4, 8)),
    repeats=st.booleans(),
)
def test_every_sentence_keeps_every_constraint(
    make_model: MakeModel,
    seed: int,
    width: int,
    roles: list[str],
    lengths: tuple[int, int],
    repeats: bool,
) -> None:
    required = tuple(w for w, role in zip(WORDS, roles, strict=False) if role == "required")[:4]
    forbidden = tuple(w for w, role in zip(WORDS, roles, strict=False) if role == "forbidden")[:4]
    shortest, longest = min(lengths), max(lengths)
    asked = Constraints(
        required=required,
        forbidden=forbidden,
        minimum_length=shortest,
        maximum_length=longest,
        repeats=repeats,
    )
    config = GenerationConfig(beam_width=width, frequent_words=8, m_best=50)
    generator = Generator.of(make_model(seed), config, backend="numpy")
    found = generator.sentences({"dog": 0.9, "cat": 0.5}, constraints=asked)
    assert found.m_best.hypotheses
    if repeats:
        assert found.unmet == ()  # every word may always follow: all can be met
    for hypothesis in found.m_best.hypotheses:
        tokens = hypothesis.tokens
        assert not set(tokens) & {*forbidden, "<unk>"}
        assert len(tokens) <= longest
        if not found.unmet:
            assert set(required) <= set(tokens)
            assert shortest <= len(tokens)
        if not repeats:
            content = Counter(word for word in tokens if word not in CLOSED_CLASS)
            assert max(content.values(), default=1) == 1


def test_a_beam_of_one_still_reaches_all_required_words(make_model: MakeModel) -> None:
    asked = Constraints(required=("jumps", "red", "on", "runs"))
    config = GenerationConfig(beam_width=1, frequent_words=1, maximum_length=6)
    generator = Generator.of(make_model(1, followers=0.0), config)
    found = generator.sentences({"dog": 0.9}, constraints=asked)
    assert found.unmet == ()
    assert all(set(asked.required) <= set(h.tokens) for h in found.m_best.hypotheses)


def test_more_required_words_than_places_say_so(make_model: MakeModel) -> None:
    asked = Constraints(required=("jumps", "red", "on"), maximum_length=2)
    found = Generator.of(make_model(1)).sentences({"dog": 0.9}, constraints=asked)
    assert all(len(set(h.tokens) & set(asked.required)) == 2 for h in found.m_best.hypotheses)
    assert found.unmet


def test_a_length_out_of_reach_says_so(make_model: MakeModel) -> None:
    # Two words are left and neither may come twice: no sentence has three.
    asked = Constraints(
        forbidden=("a", "on", "red", "runs", "grass", "jumps"), minimum_length=3, repeats=False
    )
    found = Generator.of(make_model(1)).sentences({"dog": 0.9}, constraints=asked)
    assert {len(h.tokens) for h in found.m_best.hypotheses} == {2}
    assert found.unmet == ("minimum length 3",)


def test_an_unmet_constraint_is_logged_by_the_stage(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    from sightwords.types import DetectedWord, DetectedWords

    asked = Constraints(required=("jumps", "red"), maximum_length=1)
    generator = Generator.of(make_model(1), constraints=asked)
    generator(DetectedWords((DetectedWord("dog", 0.9, 0.9, 0.9),), 0.5))
    assert "no sentence meets: required word" in caplog.text


def test_contradictions_are_refused(make_model: MakeModel) -> None:
    with pytest.raises(InputError, match="'dog'"):
        Constraints(required=("cat", "dog"), forbidden=("dog",))
    with pytest.raises(InputError, match=r"minimum_length 5 .*maximum_length 4"):
        Constraints(minimum_length=5, maximum_length=4)
    with pytest.raises(InputError, match="minimum_length is 0"):
        Constraints(minimum_length=0)
    with pytest.raises(InputError, match=r"minimum_length 30 .* 18.*max_length"):
        Generator.of(make_model(0)).sentences(
            {"dog": 1.0}, constraints=Constraints(minimum_length=30)
        )
    with pytest.raises(InputError, match="forbidden"):
        Generator.of(make_model(0)).sentences(
            {"dog": 1.0}, constraints=Constraints(forbidden=WORDS)
        )


def test_required_words_join_the_attributes() -> None:
    asked = Constraints(required=("jumps", "on", "dog"), forbidden=("cat", "unicorn"))
    found = pose({"dog": 0.5, "cat": 0.9}, VOCABULARY, constraints=asked, maximum_length=9)
    assert [WORDS[i] for i in found.attributes] == ["dog", "jumps"]  # 'on' is closed-class
    assert [WORDS[i] for i in found.required] == ["dog", "on", "jumps"]
    assert found.word_log_probs[[1, 7]].round(2).tolist() == pytest.approx([-0.69, 0.0])
    assert [WORDS[i] for i in found.forbidden.nonzero()[0][:-1]] == ["cat"]


def test_required_words_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(VocabularyError, match="'unicorn'"):
        pose(
            {"dog": 0.5},
            VOCABULARY,
            constraints=Constraints(required=("unicorn",)),
            maximum_length=9,
        )
