"""What is served gives what torch gives, sentence by sentence; the small form stays close."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from sightwords.config import GroundedConfig  # noqa: E402
from sightwords.errors import BundleError, VocabularyError  # noqa: E402
from sightwords.rerank.grounded import Grounded, GroundedSpec  # noqa: E402
from sightwords.text.vocabulary import Vocabulary  # noqa: E402
from sightwords.train.grounded.export import (  # noqa: E402
    export_grounded,
    new_grounded,
)

pytestmark = pytest.mark.torch

NAMES = tuple(f"w{i:02d}" for i in range(40))
WORDS = Vocabulary(NAMES, tuple(range(40, 0, -1)), 1000)
CONFIG = GroundedConfig(
    units=32, layers=2, heads=4, feed_forward=64, words=4, maximum_length=6, length_power=0.5
)
IMAGE = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
DETECTED = {"w03": 0.9, "w07": 0.4, "w11": 0.2, "w12": 0.01}


@pytest.fixture(scope="module")
def network() -> Any:
    """One that says something: as initialised, all words are about equally likely."""
    network = new_grounded(CONFIG, WORDS, (3, 8)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.25) if parameter.ndim > 1 else None
    return network


@pytest.fixture(scope="module")
def served(network: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("grounded")
    exact = export_grounded(network, WORDS, folder / "float32", form="float32")
    small = export_grounded(network, WORDS, folder / "int8")
    assert exact.difference < 1e-4
    assert small.total_bytes < exact.total_bytes
    return exact.directory, small.directory


def _sentences(count: int) -> list[tuple[str, ...]]:
    """Many share beginnings; some are longer than any position, one is empty."""
    random = np.random.default_rng(0)
    found: list[tuple[str, ...]] = [()]
    for _ in range(count - 1):
        begin = found[random.integers(len(found))][: random.integers(0, 6)]
        found.append((*begin, *(NAMES[i] for i in random.integers(0, 40, random.integers(1, 5)))))
    return found


def _plain(network: Any, sentence: tuple[str, ...]) -> float:
    """One sentence by itself, in torch, word after word."""
    ids = [NAMES.index(word) for word in sentence]
    words = {w: p for w, p in DETECTED.items() if p >= CONFIG.word_threshold}
    with torch.no_grad():
        memory = network.memory(
            torch.from_numpy(IMAGE)[None],
            torch.tensor([[NAMES.index(w) for w in words]]),
            torch.tensor([list(words.values())]),
        )
        hidden = network.read(torch.tensor([[[network.start_id, *ids]]]), memory)[0, 0]
        log_probs = network.logits(hidden).log_softmax(-1)
        value = float(network.values(hidden[-1]))
    total = sum(float(log_probs[i, token]) for i, token in enumerate([*ids, network.end_id]))
    return float(total / (len(ids) + 1) ** 0.5 + value)


def test_the_tree_gives_each_sentence_its_own_score(
    network: Any, served: tuple[Path, Path]
) -> None:
    sentences = _sentences(30)
    found = Grounded.load(served[0], threads=1).score(IMAGE, DETECTED, sentences)
    expected = [_plain(network, sentence) for sentence in sentences]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_company_does_not_change_a_score(served: tuple[Path, Path]) -> None:
    grounded = Grounded.load(served[0], threads=1)
    sentences = _sentences(12)
    together = grounded.score(IMAGE, DETECTED, sentences)
    alone = [grounded.score(IMAGE, DETECTED, [s])[0] for s in sentences]
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_without_detected_words(network: Any, served: tuple[Path, Path]) -> None:
    grounded = Grounded.load(served[0], threads=1)
    found = grounded.score(IMAGE, {}, [("w01",)])
    assert np.isfinite(found).all()
    assert found != grounded.score(IMAGE, DETECTED, [("w01",)])


def test_the_small_form_stays_close(served: tuple[Path, Path]) -> None:
    exact, small = (Grounded.load(folder, threads=1) for folder in served)
    sentences = _sentences(30)
    one, other = (g.scores(IMAGE, DETECTED, sentences).log_probs for g in (exact, small))
    words = np.array([len(s) + 1 for s in sentences])
    assert (np.abs(one - other) / words).max() < 0.1
    assert np.corrcoef(one / words, other / words)[0, 1] > 0.99


def test_a_network_of_other_images_is_refused(served: tuple[Path, Path], tmp_path: Path) -> None:
    for path in served[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    values = GroundedSpec.load(tmp_path)
    other = {name: getattr(values, name) for name in values.__slots__} | {"tokens": 18}
    GroundedSpec(**other).save(tmp_path)
    with pytest.raises(BundleError, match=r"\(3, 8\).*\(18, 8\)"):
        Grounded.load(tmp_path)


def test_another_vocabulary_is_refused(network: Any, tmp_path: Path) -> None:
    few = Vocabulary(("a",), (1,), 1)
    with pytest.raises(VocabularyError, match="1 words for a network of 40"):
        export_grounded(network, few, tmp_path)
