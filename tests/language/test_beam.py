"""The search against enumeration of every sentence, its backends against each other, its rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.config import GenerationConfig
from sightwords.errors import InputError, VocabularyError
from sightwords.language.beam import choose, likeliest, quotas, search
from sightwords.language.constraints import Constraints, SearchProblem, pose
from sightwords.language.extend import Extensions
from sightwords.language.extend_dense import DenseExtensions
from sightwords.language.extend_numba import NumbaExtensions
from sightwords.language.features import FloatArray
from sightwords.language.generate import Backend, Generator
from sightwords.language.maxent import LogBilinear, MaxEnt, padded_table
from sightwords.language.paths import Candidates, Stack
from sightwords.text.vocabulary import Vocabulary
from sightwords.types import DetectedWord, DetectedWords

MakeModel = Callable[..., MaxEnt]
WORDS = {"dog": 0.9, "grass": 0.3, "cat": 0.5}
BACKENDS = ["numpy", "dense"]
"""`dense` is the plain way: it scores every word, as log-bilinear models need."""
if find_spec("numba"):
    BACKENDS.append("numba")
OPEN = 8**5
"""A beam this wide keeps every sentence of up to five of eight words."""


def make_generator(
    model: MaxEnt,
    config: GenerationConfig,
    backend: str,
    constraints: Constraints | None = None,
) -> Generator:
    if backend == "dense":
        dense = DenseExtensions.of(model, frequent_words=config.frequent_words)
        return Generator(model, config, dense, constraints or Constraints())
    chosen = cast("Backend", backend)
    return Generator.of(model, config, constraints=constraints, backend=chosen)


def enumerate_all(
    model: MaxEnt, problem: SearchProblem, frequent: int
) -> list[tuple[tuple[int, ...], float]]:
    """Every sentence that section 4.2 can form, with its score; the plainest way possible."""
    listed = set(model.frequent(frequent).tolist())
    paths: list[tuple[tuple[int, ...], np.float32]] = [((), np.float32(0))]
    found = []
    for length in range(problem.maximum_length + 1):
        if not paths:
            break
        histories = np.array([((model.start_id,) * 3 + p)[-3:] for p, _ in paths], dtype=np.int32)
        remaining = np.zeros((len(paths), model.size), dtype=np.bool_)
        for row, (path, _) in enumerate(paths):
            remaining[row, [a for a in problem.attributes if a not in path]] = True
        scores = model.score_next(histories, remaining, problem.word_log_probs)
        longer = []
        for row, (path, total) in enumerate(paths):
            if length >= problem.minimum_length and set(problem.required.tolist()) <= set(path):
                found.append((path, float(total + scores[row, model.end_id])))
            last = path[-1] if path else model.start_id
            allowed = listed | set(model.followers(last).tolist())
            allowed |= set(np.flatnonzero(remaining[row]).tolist())
            allowed |= set(problem.required.tolist()) - set(path)
            allowed -= set(np.flatnonzero(problem.forbidden).tolist())
            allowed -= {w for w in path if problem.once[w]}
            longer += [((*path, word), total + scores[row, word]) for word in sorted(allowed)]
        paths = longer
    return sorted(found, key=lambda item: (-item[1], len(item[0]), item[0]))


def assert_equals_enumeration(
    model: MaxEnt, config: GenerationConfig, constraints: Constraints, backend: str
) -> None:
    generator = make_generator(model, config, backend, constraints)
    found = generator.sentences(WORDS)
    longest = config.maximum_length
    problem = pose(WORDS, model.vocabulary, constraints=constraints, maximum_length=longest)
    expected = [
        (tuple(model.words[i] for i in path), score)
        for path, score in enumerate_all(model, problem, config.frequent_words)
    ]
    if expected:
        assert [(h.tokens, h.log_prob) for h in found.m_best.hypotheses] == expected
    assert (found.unmet == ()) == bool(expected)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10_000), ties=st.booleans(), distant=st.booleans())
def test_the_open_beam_equals_enumeration(
    make_model: MakeModel, backend: str, seed: int, ties: bool, distant: bool
) -> None:
    """All 37,448 sentences of up to five of eight words, in order, ties included."""
    model = make_model(seed, integers=ties, distant=distant)
    config = GenerationConfig(
        beam_width=OPEN, maximum_length=5, frequent_words=8, m_best=10**6, coverage=0
    )
    generator = make_generator(model, config, backend)
    assert len(generator.sentences(WORDS).m_best.hypotheses) == sum(8**n for n in range(1, 6))
    assert_equals_enumeration(model, config, Constraints(), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    followers=st.floats(0, 0.6),
    required=st.sets(st.sampled_from(["on", "cat", "runs"])),
    forbidden=st.sets(st.sampled_from(["a", "dog", "red", "grass"])),
    shortest=st.integers(1, 4),
    repeats=st.booleans(),
)
def test_the_open_beam_equals_enumeration_under_constraints(
    make_model: MakeModel,
    backend: str,
    seed: int,
    followers: float,
    required: set[str],
    forbidden: set[str],
    shortest: int,
    repeats: bool,
) -> None:
    constraints = Constraints(
        required=tuple(required),
        forbidden=tuple(forbidden),
        minimum_length=shortest,
        repeats=repeats,
    )
    config = GenerationConfig(
        beam_width=OPEN, maximum_length=4, frequent_words=2, m_best=10**6, coverage=0
    )
    assert_equals_enumeration(make_model(seed, followers=followers), config, constraints, backend)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    ties=st.booleans(),
    width=st.integers(1, 40),
    required=st.sets(st.sampled_from(["on", "cat", "runs", "jumps"])),
    repeats=st.booleans(),
)
def test_narrow_beams_are_equal_in_every_backend(
    make_model: MakeModel, seed: int, ties: bool, width: int, required: set[str], repeats: bool
) -> None:
    model = make_model(seed, integers=ties)
    config = GenerationConfig(beam_width=width, maximum_length=7, frequent_words=3, m_best=30)
    constraints = Constraints(required=tuple(required), repeats=repeats)
    lists = [
        make_generator(model, config, backend, constraints).sentences(WORDS) for backend in BACKENDS
    ]
    assert all(found == lists[0] for found in lists)


def test_the_kernel_gives_the_same_uncompiled(make_model: MakeModel) -> None:
    model = make_model(3, integers=True)
    extensions = Extensions.of(model, frequent_words=3)
    kernel = NumbaExtensions.of(extensions, compiled=False)
    asked = Constraints(required=("on", "cat"), repeats=False)
    problem = pose(WORDS, model.vocabulary, constraints=asked, maximum_length=6)
    plain, walked = (search(extend, problem, width=12) for extend in (extensions, kernel))
    for left, right in zip(plain, walked, strict=True):
        assert left.tokens.tolist() == right.tokens.tolist()
        assert left.log_probs.tolist() == right.log_probs.tolist()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.integers(1, 6))
def test_what_bounds_pass_over_no_beam_keeps(make_model: MakeModel, seed: int, width: int) -> None:
    """Single words decide nearly all, so that most extensions are passed over unseen."""
    drawn = make_model(seed)
    model = replace(
        drawn, unigram=20 * drawn.unigram, table=drawn.table / np.float32(20), end=drawn.end * 0
    )
    extensions = Extensions.of(model, frequent_words=3)
    kernel = NumbaExtensions.of(extensions, compiled=False)
    dense = DenseExtensions.of(model, frequent_words=3)
    words = dict.fromkeys(("dog", "red", "runs", "grass", "cat", "jumps"), 0.5)
    problem = pose(words, model.vocabulary, maximum_length=5)
    plain, *others = (
        search(extend, problem, width=width) for extend in (dense, extensions, kernel)
    )
    for found in others:
        for left, right in zip(plain, found, strict=True):
            assert left.tokens.tolist() == right.tokens.tolist()


def test_log_bilinear_models_are_scored_over_the_whole_vocabulary(make_model: MakeModel) -> None:
    plain = make_model(5)
    rng = np.random.default_rng(0)
    vectors = LogBilinear(
        *(rng.normal(size=(n, 3)).astype(np.float32) for n in (plain.size + 2, 3, plain.size + 1))
    )
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__ if name != "words"}
    model = MaxEnt(**{**fields, "log_bilinear": vectors})
    found = Generator.of(model).sentences(WORDS)
    assert found == make_generator(model, GenerationConfig(), "dense").sentences(WORDS)
    assert found != Generator.of(plain).sentences(WORDS)
    with pytest.raises(InputError, match="log-bilinear"):
        Generator.of(model, backend="numba")


def test_of_equal_paths_the_first_token_ids_are_kept() -> None:
    totals = np.array([0, 1, 1, 1], dtype=np.float32)
    assert likeliest(totals, np.array([4, 3, 1, 2]), 2).tolist() == [2, 3]
    assert likeliest(totals, np.array([4, 3, 1, 2]), 0).tolist() == []
    assert sorted(likeliest(totals, np.array([4, 3, 1, 2]), 9).tolist()) == [0, 1, 2, 3]


@given(width=st.integers(1, 300), required=st.integers(0, 8))
def test_quotas_share_the_width(width: int, required: int) -> None:
    shares = quotas(width, required)
    assert len(shares) == required + 1
    assert sum(shares) == max(width, required + 1)
    assert shares == sorted(shares)
    assert shares[-1] - shares[0] <= 1


def test_places_that_a_group_cannot_fill_go_to_the_likeliest_left_over() -> None:
    """Six places, three each for paths with and without "dog"; only one path can have it."""
    words = Vocabulary(("a", "dog", "cat", "sits", "runs", "red"), (6, 5, 4, 3, 2, 1), 21)
    asked = Constraints(required=("dog",))
    problem = pose({"dog": 0.5}, words, constraints=asked, maximum_length=5)
    some = np.ones((1, 1), dtype=np.bool_)
    stack = Stack(np.empty((1, 0), np.int32), np.zeros(1, np.float32), some, some)
    totals = np.array([-1, -9, -2, -5, -4, -3], np.float32)
    every = Candidates(np.zeros(6, np.int64), np.arange(6), totals, np.zeros(1, np.float32))
    kept = {width: every.words[choose(every, stack, problem, width=width)].tolist()
            for width in (2, 4, 6)}  # fmt: skip
    # a, cat and red are the likeliest without it; runs, then sits, take the places left.
    assert kept == {2: [0, 1], 4: [0, 1, 2, 5], 6: [0, 1, 2, 3, 4, 5]}


def test_as_a_stage_of_the_pipeline(make_model: MakeModel) -> None:
    generator = Generator.of(make_model(0), GenerationConfig(beam_width=20, m_best=5))
    words = tuple(DetectedWord(word, prob, 0.5, 0.5) for word, prob in WORDS.items())
    found = generator(DetectedWords(words, threshold=0.5))
    assert found == generator.sentences(WORDS).m_best
    assert len(found.hypotheses) == 5
    assert all(h.log_prob >= g.log_prob for h, g in zip(found.hypotheses, found.hypotheses[1:]))  # noqa: B905
    for hypothesis in found.hypotheses:
        assert set(hypothesis.mentioned) == set(hypothesis.tokens) & set(WORDS)


def test_unknown_words_and_no_words_are_refused(make_model: MakeModel) -> None:
    generator = Generator.of(make_model(0))
    with pytest.raises(InputError, match="no detected words"):
        generator(DetectedWords((), threshold=0.5))
    with pytest.raises(VocabularyError, match=r"'dgo', 'zebra'.*'dog'"):
        generator.sentences({"dgo": 0.5, "cat": 0.5, "zebra": 0.5})
    with pytest.raises(InputError, match=r"'dog'.* 1\.5"):
        generator.sentences({"dog": 1.5})


def test_no_request_compiles(make_model: MakeModel) -> None:
    pytest.importorskip("numba")
    for model in (make_model(0), make_model(0, integers=True)):
        kernel = NumbaExtensions.of(Extensions.of(model, frequent_words=3))
        compiled = len(kernel.kernel.signatures)  # type: ignore[attr-defined]
        for asked in (Constraints(), Constraints(required=("on", "cat"), repeats=False)):
            problem = pose(WORDS, model.vocabulary, constraints=asked, maximum_length=6)
            search(kernel, problem, width=12)
        assert len(kernel.kernel.signatures) == compiled  # type: ignore[attr-defined]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_list_on_every_machine(make_model: MakeModel, backend: str) -> None:
    """Pinned bit for bit: a machine, Python or numpy that adds in another order fails here."""
    drawn = make_model(0, integers=True)
    rng = np.random.default_rng(7)

    def thirds(shape: tuple[int, ...]) -> FloatArray:  # not to be written exactly in binary
        values: FloatArray = rng.integers(-3000, 1000, shape).astype(np.float32)
        values /= np.float32(997)
        return values

    model = replace(
        drawn,
        table=padded_table(thirds((1 << 10,)), drawn.size + 1),
        unigram=thirds(drawn.unigram.shape),
        end=thirds(drawn.end.shape),
    )
    config = GenerationConfig(beam_width=50, maximum_length=8, frequent_words=3, m_best=100)
    found = make_generator(model, config, backend).sentences(WORDS)
    lines = [f"{' '.join(h.tokens)} {h.log_prob.hex()}" for h in found.m_best.hypotheses]
    assert len(lines) == 100
    assert lines[0] == "grass cat dog -0x1.43ac980000000p+2"
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == "215c1ce9f78cfa25"
