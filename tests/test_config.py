"""Settings: the paper's values, TOML in and out, mistakes named."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
from pathlib import Path

import pytest

import sightwords.config
from sightwords.config import PRESETS, Config, load_config, read_settings
from sightwords.errors import ConfigError
from sightwords.settings import RESOLVED_NAME, from_mapping, save_resolved, to_toml


def test_defaults_are_the_values_the_paper_states() -> None:
    config = Config()
    assert config.vocabulary.size == 1000
    assert (config.images.size_px, config.words.grid) == (565, 12)
    assert (config.words.epochs, config.words.batch_size) == (3, 1)
    assert (config.language.ngram_order, config.language.noise_samples) == (4, 15)
    assert config.generation.frequent_words == 100
    assert (config.dmsm.gamma, config.dmsm.negatives, config.dmsm.image_layers) == (10.0, 50, 3)
    assert (config.mert.objective, config.mert.mentioned_objects) == ("bleu", 10)


def test_every_field_is_documented_under_its_name() -> None:
    """A docstring stands under each setting, except seeds, which explain themselves."""
    modules = [
        f"sightwords.config.{m.name}" for m in pkgutil.iter_modules(sightwords.config.__path__)
    ]
    trees = [ast.parse(inspect.getsource(importlib.import_module(name))) for name in modules]
    nodes = [node for tree in trees for node in tree.body]
    stages = [
        n for n in nodes if isinstance(n, ast.ClassDef) and n.name not in {"Config", "Settings"}
    ]
    assert len(stages) == len(dataclasses.fields(Config)) + 1  # RunConfig
    for stage in stages:
        for node, following in itertools.pairwise(stage.body):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) != "seed":
                documented = isinstance(following, ast.Expr) and isinstance(
                    following.value, ast.Constant
                )
                assert documented, f"{stage.name}.{ast.unparse(node.target)}"


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[words]\nbackbone = "alexnet"\n[dmsm]\ngamma = 12\n', encoding="utf-8")
    for config, preset in (
        (load_config(path), "default"),
        (load_config(path, preset="paper"), "paper"),
        (read_settings(path, changes=["preset=paper"]).config, "paper"),
    ):
        assert (config.words.backbone, config.dmsm.gamma) == ("alexnet", 12.0)
        assert config.words.epochs == PRESETS[preset].words.epochs
        assert config.language == PRESETS[preset].language


def test_a_file_names_its_preset_and_an_option_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('preset = "paper"\n[words]\nepochs = 7\n', encoding="utf-8")
    assert read_settings(path).preset == "paper"
    assert load_config(path).images == PRESETS["paper"].images
    changed = read_settings(path, preset="default", changes=["words.epochs=9", "run.threads=2"])
    assert (changed.preset, changed.config.words.epochs, changed.run.threads) == ("default", 9, 2)
    assert changed.config.images == PRESETS["default"].images
    assert changed.named == {"preset": str(path), "words.epochs": "--set", "run.threads": "--set"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("words.epoch=2", "words.epochs"),
        ("epochs=2", "words.epochs"),
        ("words.epochs", "KEY=VALUE"),
        ("words.epochs=two", "two"),
        ("words.epochs=0", "epochs"),
        ("words.flip=yes", "flip"),
        ("preset=papr", "papr"),
        ("run.threads=-1", "threads"),
    ],
)
def test_a_wrong_change_names_the_setting(change: str, named: str) -> None:
    with pytest.raises(ConfigError, match=r"--set") as caught:
        read_settings(changes=[change])
    assert named in str(caught.value)


def test_every_setting_is_read_somewhere() -> None:
    root = Path(sightwords.config.__file__).parents[1]
    code = "\n".join(
        path.read_text("utf-8") for path in root.rglob("*.py") if path.parent.name != "config"
    )
    kinds = [field.type for field in dataclasses.fields(Config)]
    unread = [
        f"{kind}.{field.name}"
        for kind in kinds
        for field in dataclasses.fields(getattr(sightwords.config, str(kind)))
        if not re.search(rf"\.{field.name}\b|\"{field.name}\"", code)
    ]
    assert unread == []


def test_resolved_config_reads_back_equal(tmp_path: Path) -> None:
    config = dataclasses.replace(
        Config(), words=dataclasses.replace(Config().words, backbone='a "quoted" naïve name\n')
    )
    path = save_resolved(config, tmp_path)  # every key is named, so no preset matters
    assert path.name == RESOLVED_NAME
    assert load_config(path) == config
    assert to_toml(load_config(path)) == to_toml(config)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[wrods]\n", "'words'"),
        ("[words]\nzzz = 1\n", "'zzz'"),
        ("[images]\nmax_pixels = 1\n", "'max_pixels'"),
        ("[words]\nepochs = 0\n", "epochs is 0"),
        ("[words]\nepochs = 1.5\n", "epochs: is 1.5"),
        ("[words]\nepochs = true\n", "epochs: is True"),
        ("[words]\nbackbone = 3\n", "backbone: is 3"),
        ("[words]\nlearning_rate = nan\n", "learning_rate: is nan"),
        ("[language]\nscore_feature = 1\n", "score_feature: is 1"),
        ('[mert]\nobjective = "spice"\n', "'spice'"),
        ('[mert]\nobjective = "bleu+bleu"\n', "'bleu+bleu'"),
        ('[mert]\nobjective = "cider+0bleu"\n', "'cider+0bleu'"),
        ('[mert]\nobjective = "1.2.3cider"\n', "'1.2.3cider'"),
        ("words = 3\n", "words: is 3"),
        ("run = 3\n", "run is 3"),
        ("preset = 3\n", "preset is 3"),
        ("[words\n", "TOML"),
        ("[calibration]\nthreshold = 1.5\n", "threshold is 1.5"),
    ],
)
def test_mistakes_are_named_with_file_key_and_remedy(
    tmp_path: Path, toml: str, message: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(toml, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_and_misencoded_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.toml.*byte 5"):
        load_config(tmp_path / "latin.toml")


def test_nested_errors_say_which_table() -> None:
    with pytest.raises(ConfigError, match="words: grid is -1"):
        from_mapping(Config, {"words": {"grid": -1}})
