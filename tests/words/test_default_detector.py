"""The detector inside the package: it sees what a person sees in the sample photographs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from sightwords.cli.main import main
from sightwords.images import decode
from sightwords.samples import sample_paths
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.words.artefact import DEFAULT_DETECTOR
from sightwords.words.detector import Detector
from sightwords.words.maps import word_maps


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector.load(threads=1)


@pytest.mark.parametrize(
    ("photograph", "seen"),
    [
        ("cat", {"cat"}),
        ("coffee", {"red", "plate", "table", "cup"}),
        ("astronaut", {"orange", "jacket", "wearing"}),
        ("photographer", {"man", "black", "photo"}),
        ("rocket", {"sky"}),
    ],
)
def test_sample_photographs(detector: Detector, photograph: str, seen: set[str]) -> None:
    path = next(p for p in sample_paths() if p.stem == photograph)
    found = {word.word: word for word in detector.words(path).words}
    assert seen <= found.keys()
    for name in seen:
        assert found[name].precision >= 0.5
        assert found[name].box is not None


def test_a_green_eye_is_found_where_it_is(detector: Detector) -> None:
    path = next(p for p in sample_paths() if p.stem == "cat")
    box = next(w.box for w in detector.words(path).words if w.word == "green")
    assert box is not None
    x, y = 0.37, 0.37  # the pupil of the cat's eye, in fractions of the photograph
    assert box.x0 <= x <= box.x1
    assert box.y0 <= y <= box.y1


def test_a_small_thing_is_found_where_it_is(detector: Detector) -> None:
    image = decode(next(p for p in sample_paths() if p.stem == "coffee"))
    regions = detector(image)
    assert regions.patches is not None
    x, y = word_maps(regions, [detector.vocabulary.index("spoon")]).points()[0]
    assert 0.53 < x < 0.69  # the spoon's bowl
    assert 0.58 < y < 0.84


def test_a_blank_image_is_confidently_white_and_nothing_else(detector: Detector) -> None:
    words = detector.words(Image.new("RGB", (300, 200), "white")).words
    assert {w.word for w in words if w.prob > 0.6} - set(CLOSED_CLASS) == {"white"}


def test_it_is_small_and_names_no_machine() -> None:
    assert sum(p.stat().st_size for p in DEFAULT_DETECTOR.iterdir()) < 30e6
    network = (DEFAULT_DETECTOR / "network.onnx").read_bytes()
    assert b"site-packages" not in network
    assert b"/home/" not in network


def test_the_command_line_shows_the_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", "--samples", "--set", "threads=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [Path(line.partition(": ")[0]).stem for line in lines] == [
        p.stem for p in sample_paths()
    ]
    assert "cat 100%" in next(line for line in lines if "cat.jpg: " in line)


def test_no_photograph_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["words"])
    assert stopped.value.code == 2


def test_each_higher_precision_gives_strictly_fewer_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lengths = []
    for precision in ("0.3", "0.5", "0.7", "0.9"):
        assert main(["words", "--samples", "--json", "--min-precision", precision]) == 0
        lines = capsys.readouterr().out.splitlines()
        lengths.append(sum(len(json.loads(line)["words"]) for line in lines))
    assert lengths == sorted(set(lengths), reverse=True), lengths
