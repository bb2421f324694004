"""`recipes/default.toml` end to end on made-up photographs: teachers, pupils, images with few
captions, lists, grounded model, MERT with bags, confidence; in pieces and on another machine.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("numba")

import sightwords
from sightwords.config import WordsConfig
from sightwords.errors import ConfigError
from sightwords.rerank.confidence import Confidence
from sightwords.rerank.linear import Ranker
from sightwords.train.all import stages_of, train_all
from sightwords.train.language.detected_words import TopWords
from sightwords.train.recipe import Recipe, load_recipe
from sightwords.train.rerank.lists import Lists

pytestmark = pytest.mark.torch
DEFAULT = Path(__file__).parents[2] / "recipes" / "default.toml"
STAGES = [
    "vocabulary", "half-0", "half-1", "teacher-1", "teacher-2", "pupil-1", "detector",
    "calibration", "features", "detections", "language", "dmsm", "lists", "grounded", "mert",
    "confidence", "bundle",
]  # fmt: skip
SIDE = 48


def write_shard(path: Path, first: int, captions: Sequence[int], dataset: str) -> None:
    """Photographs of a red or a blue square, each with so many captions."""
    rng = np.random.default_rng(first)
    with tarfile.open(path, "w") as tar:
        for number, count in enumerate(captions, first):
            colour = ("red", "blue")[number % 2]
            pixels = rng.integers(40, 90, (SIDE, SIDE, 3)).astype(np.uint8)
            x, y = rng.integers(0, SIDE - 16, 2)
            pixels[y : y + 16, x : x + 16] = (230, 10, 10) if colour == "red" else (10, 10, 230)
            png = io.BytesIO()
            Image.fromarray(pixels).save(png, "PNG")
            place = ("wall", "floor")[int(rng.integers(2))]
            said = [f"a {colour} square on a {place}", f"there is a {colour} square",
                    f"a {colour} square", f"a square that is {colour}",
                    f"one {colour} square on the {place}"]  # fmt: skip
            about = {"captions": said[:count], "dataset": dataset, "split": "train"}
            parts = (("png", png.getvalue()), ("json", json.dumps(about).encode()))
            for ending, content in parts:
                member = tarfile.TarInfo(f"{number:012d}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def write_data(folder: Path) -> None:
    """What the recipe names, but small."""
    folder.mkdir(parents=True)
    write_shard(folder / "coco-train-00.tar", 0, [5] * 48, "coco")
    write_shard(folder / "flickr8k-train-00.tar", 100, [5] * 16, "flickr8k")
    write_shard(folder / "coco-more-00.tar", 200, [1, 2, 0, 0, 1, 2, 1, 2], "coco")
    write_shard(folder / "coco-val-00.tar", 300, [5] * 24, "coco")
    (folder / "text.txt").write_text("a red wall\na blue floor\n", encoding="utf-8")


def small(folder: Path) -> Recipe:
    """The recipe with small models, on the data of this folder."""
    recipe = load_recipe(DEFAULT)
    config = recipe.config

    def words(of: WordsConfig) -> WordsConfig:
        return replace(
            of, backbone="tiny", epochs=12, batch_size=16, learning_rate=0.02, head_rate=2.0,
            layer_decay=1.0, weight_average=0.9, dropout=0.0, smallest_crop=0.9,
        )  # fmt: skip

    grounded = replace(
        config.grounded, units=16, layers=1, heads=2, feed_forward=16, epochs=3, batch_size=16,
        risk_epochs=1, risk_batch_size=8, hypotheses=8, list_sentences=8,
    )  # fmt: skip
    dmsm = replace(
        config.dmsm, epochs=2, hidden_units=8, semantic_units=8, token_units=8, word_units=8,
        own_words=10, batch_size=32,
    )  # fmt: skip
    return replace(
        recipe,
        data=replace(
            recipe.data,
            train=(f"{folder}/coco-train-*.tar", f"{folder}/flickr8k-train-*.tar"),
            more=(f"{folder}/coco-more-*.tar",),
            validation=(f"{folder}/coco-val-*.tar",),
            text=(f"{folder}/text.txt",),
            weights="",
        ),
        config=replace(
            config,
            images=replace(config.images, size_px=SIDE),
            words=words(config.words),
            language=replace(config.language, table_bits=14, epochs=10),
            generation=replace(config.generation, m_best=20, beam_width=20),
            dmsm=dmsm,
            grounded=grounded,
            mert=replace(config.mert, restarts=2, bags=2, halves_from=10),
        ),
        networks=tuple(replace(n, words=words(n.words)) for n in recipe.networks),
        threads=1,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_net")
def test_the_default_recipe_in_pieces(tmp_path: Path) -> None:
    write_data(tmp_path / "data")
    recipe, out = small(tmp_path / "data"), tmp_path / "out"
    assert [stage.name for stage in stages_of(recipe)] == STAGES

    stopped = train_all(recipe, out, max_seconds=0)
    assert (stopped.stopped, list(stopped.folders)) == ("vocabulary", [])
    first = train_all(recipe, out, until="teacher-2")
    assert list(first.folders) == STAGES[:5]
    assert not out.exists()
    with pytest.raises(ConfigError, match="'calibration' needs 'detector', which is not finished"):
        train_all(recipe, out, only=["calibration"])
    assert "pupil-1" in train_all(recipe, out, only=["pupil-1"]).folders

    # The rest on another machine: other paths, the same content.
    shutil.copytree(tmp_path / "out.training", tmp_path / "there" / "out.training")
    shutil.move(tmp_path / "data", tmp_path / "there" / "data")
    seen: list[str] = []
    there = tmp_path / "there"
    recipe = small(there / "data")
    found = train_all(
        recipe,
        there / "out",
        progress=lambda update: seen.append(update.stage) if update.state == "kept" else None,
    )
    assert seen == STAGES[:6]
    check_stages(found.folders, found.figures)
    check_bundle(there / "out", there / "data")


def check_stages(folders: dict[str, Path], figures: dict[str, Any]) -> None:
    """Who learned from what."""
    assert figures["vocabulary"]["images"] == 64  # coco-more and coco-val apart
    assert figures["vocabulary"]["calibration"] == 12  # a quarter of coco-train
    assert figures["half-0"]["images"] + figures["half-1"]["images"] == 52
    assert figures["teacher-1"] == figures["pupil-1"] == {"images": 52}
    assert figures["detector"]["images"] == 60  # with coco-more, captions or not
    top = TopWords.load(folders["detections"] / "top-words.npz")
    assert len(set(top.ids)) == 52 + 12 + 6  # all that have captions
    lists = Lists.load(folders["grounded"] / "lists.npz")
    assert len(lists) <= 52 + 12 + 3  # two captions or more
    assert {str(n) for n in (201, 205, 207)} & set(lists.ids.tolist())
    assert not {"200", "204", "206"} & set(lists.ids.tolist())
    assert figures["mert"]["tuning"]["images"] + figures["mert"]["held_out"]["images"] == 24


def check_bundle(out: Path, data: Path) -> None:
    """It says what it sees."""
    captioner = sightwords.load(out, threads=1)
    with tarfile.open(data / "coco-val-00.tar") as tar:
        for number, colour in ((300, "red"), (301, "blue")):
            file = tar.extractfile(f"{number:012d}.png")
            assert file is not None
            assert colour in captioner(Image.open(io.BytesIO(file.read()))).text
    assert Ranker.load(out / "rerank").needs("grounded")
    assert not (out / "rerank" / "confidence.json").exists() or Confidence.load(out / "rerank")
    manifest = json.loads((out / "bundle.json").read_text("utf-8"))
    networks = manifest["provenance"]["networks"]
    assert [n["teachers"] for n in networks] == [
        [], [], ["teacher-1", "teacher-2"], ["pupil-1"],
    ]  # fmt: skip
    assert networks[-1]["words"] == {"seed": 5, "teacher_weight": 0.6}
