"""Settings: the paper's values, TOML in and out, mistakes named."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
from pathlib import Path

import pytest

import sightwords.config
from sightwords.config import Config, load_config
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
    stages = [n for n in nodes if isinstance(n, ast.ClassDef) and n.name != "Config"]
    assert len(stages) == len(dataclasses.fields(Config))
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
    config = load_config(path)
    assert config.words.backbone == "alexnet"
    assert config.dmsm.gamma == 12.0
    assert config.vocabulary == Config().vocabulary


def test_resolved_config_reads_back_equal(tmp_path: Path) -> None:
    config = dataclasses.replace(
        Config(), words=dataclasses.replace(Config().words, backbone='a "quoted" naïve name\n')
    )
    path = save_resolved(config, tmp_path)
    assert path.name == RESOLVED_NAME
    assert load_config(path) == config
    assert to_toml(load_config(path)) == to_toml(config)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[wrods]\n", "unknown key 'wrods'; did you mean 'words'?"),
        ("[words]\nzzz = 1\n", "words: unknown key 'zzz'; known keys: backbone"),
        ("[words]\nepochs = 0\n", "words: epochs is 0; expected at least 1"),
        ("[words]\nepochs = 1.5\n", "epochs: is 1.5; expected a whole number"),
        ("[words]\nepochs = true\n", "epochs: is True; expected a whole number"),
        ("[words]\nbackbone = 3\n", "backbone: is 3; expected text in quotes"),
        ("[words]\nlearning_rate = nan\n", "learning_rate: is nan; expected a finite number"),
        ("[language]\nscore_feature = 1\n", "score_feature: is 1; expected true or false"),
        ('[mert]\nobjective = "spice"\n', "expected one of bleu, cider, meteor"),
        ('[mert]\nobjective = "bleu+bleu"\n', "expected one of bleu, cider, meteor"),
        ('[mert]\nobjective = "cider+0bleu"\n', "expected one of bleu, cider, meteor"),
        ('[mert]\nobjective = "1.2.3cider"\n', "expected one of bleu, cider, meteor"),
        ("words = 3\n", "words: is 3; expected a table"),
        ("[words\n", "is not TOML"),
        ("[calibration]\nthreshold = 1.5\n", "threshold is 1.5; expected from 0 to 1"),
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
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 5"):
        load_config(tmp_path / "latin.toml")


def test_nested_errors_say_which_table() -> None:
    with pytest.raises(ConfigError, match=r"^configuration: words: grid is -1"):
        from_mapping(Config, {"words": {"grid": -1}})
