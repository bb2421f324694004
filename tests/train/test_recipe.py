"""Recipes: those of the repository, and what a recipe with teachers must say."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sightwords.bundle import DEFAULT_BUNDLE
from sightwords.config import PRESETS
from sightwords.errors import ConfigError
from sightwords.settings import read_toml
from sightwords.train.recipe import DataConfig, load_recipe
from sightwords.train.split import data_key

ROOT = Path(__file__).parents[2]
RECIPES = sorted(set((ROOT / "recipes").glob("*.toml")) - {ROOT / "recipes/caption_sources.toml"})


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_can_be_read(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.data.train
    assert recipe.kept.stage == "detector"


def test_the_recipe_of_the_packaged_model() -> None:
    recipe = load_recipe(ROOT / "recipes" / "default.toml")
    told = [(n.stage, n.teachers, n.more, n.words.epochs, n.words.seed) for n in recipe.networks]
    assert told == [
        ("teacher-1", (), False, 8, 0),
        ("teacher-2", (), False, 8, 1),
        ("pupil-1", ("teacher-1", "teacher-2"), False, 12, 3),
        ("detector", ("pupil-1",), True, 9, 5),
    ]
    packaged = read_toml(DEFAULT_BUNDLE / "config.resolved.toml")
    assert asdict(recipe.kept.words) == packaged["words"]
    for table in ("dmsm", "language", "grounded", "generation"):
        made = asdict(getattr(recipe.config, table))
        assert {key: made[key] for key in packaged[table]} == packaged[table]


def test_the_page_about_own_photographs_shows_its_recipe() -> None:
    page = (ROOT / "docs" / "own-photographs.md").read_text("utf-8")
    [shown] = re.findall(r"```toml\n(.*?)```", page, re.S)
    assert shown.strip() in (ROOT / "recipes" / "own.toml").read_text("utf-8")


def test_without_teachers_one_detector_is_trained(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\ntrain = ["x.csv"]\n', encoding="utf-8")
    [network] = load_recipe(path).networks
    assert (network.stage, network.words) == ("detector", PRESETS["default"].words)


def test_the_same_images_for_another_purpose_are_another_run(tmp_path: Path) -> None:
    for name in ("x.csv", "y.csv"):
        (tmp_path / name).write_text(f"image,caption\n{name}.jpg,a dog\n", encoding="utf-8")
    x, y = ((str(tmp_path / name),) for name in ("x.csv", "y.csv"))
    path = tmp_path / "mine.toml"
    path.write_text('[data]\ntrain = ["x.csv"]\n', encoding="utf-8")
    recipe = load_recipe(path)
    uses = (
        DataConfig(train=x),
        DataConfig(train=x, validation=y),
        DataConfig(train=x, more=y),
        DataConfig(train=(*x, *y)),
    )
    keys = [data_key(replace(recipe, data=data)) for data in uses]
    assert len(set(keys)) == len(uses)
    copied = tmp_path / "elsewhere.csv"
    copied.write_bytes((tmp_path / "x.csv").read_bytes())
    moved = replace(recipe, data=DataConfig(train=(str(copied),)))
    assert data_key(moved) == keys[0]


PUPIL = "[[pupils]]\nteacher_weight = 0.5\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[words]\nteacher_weight = 0.5\n", "teacher_weight is 0.5"),
        ("[[teachers]]\nteacher_weight = 0.5\n" + PUPIL, "teachers, table 1: teacher_weight"),
        ("[[teachers]]\nseed = 1\n", r"no \[\[pupils\]\]"),
        (PUPIL, r"no \[\[teachers\]\]"),
        ("[[teachers]]\n[[pupils]]\n", "pupils, table 1: teacher_weight is 0"),
        ("[[teachers]]\n[[pupils]]\nepoch = 3\n", "did you mean 'epochs'"),
        ("[[teachers]]\n" + PUPIL + "more = true\n", "no images in `more`"),
        ("[[teachers]]\n" + PUPIL + "more = 1\n", "more"),
        ("[teachers]\nseed = 1\n", r"\[\[teachers\]\]"),
        ('more = ["y.csv"]\n', "more needs"),
        ('more = ["y.csv"]\n[[teachers]]\n' + PUPIL, "more needs"),
        ('base = "default"\n[[teachers]]\n' + PUPIL, "base"),
    ],
)
def test_settings_that_nothing_would_read_are_refused(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\ntrain = ["x.csv"]\n' + text, encoding="utf-8")
    with pytest.raises(ConfigError, match=named):
        load_recipe(path)
