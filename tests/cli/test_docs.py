"""The commands of the user's pages run as they stand, on the samples and the bundle inside.

A block that cannot run has the reason above it: `<!-- not run: ... -->`. Its commands are still
ones that the command line takes. evaluation.md, corpora.md and study.md have tests of their own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sightwords.bundle import DEFAULT_BUNDLE
from sightwords.cli.main import build_parser
from sightwords.samples import sample_paths

DOCS = Path(__file__).parents[2] / "docs"
RUN = ("captioning.md", "auditing.md", "bundle.md", "own-photographs.md", "languages.md")
PARSED = (
    *sorted(page.name for page in DOCS.glob("*.md") if page.name != "cli.md"),
    "../README.md",
    "../recipes/README.md",
)
BLOCK = re.compile(
    r"^(?:<!-- not run: ([^\n]+) -->\n)?```(bash|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
TABLE = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[str, str, str]]:
    """Reason for not running, language and text of each block."""
    return BLOCK.findall((DOCS / page).read_text("utf-8")) if (DOCS / page).exists() else []


def _commands() -> list[str]:
    """Every `sightwords` command of a shell block, without what goes into it or comes out of it."""
    found = []
    for page in PARSED:
        for _, language, text in _blocks(page):
            if language == "python":
                continue
            lines = (line.rpartition("| ")[2] for line in text.replace("\\\n", " ").splitlines())
            found += [line.split(" > ")[0] for line in lines if line.startswith("sightwords ")]
    return found


@pytest.mark.parametrize("command", _commands())
def test_documented_commands_parse(command: str) -> None:
    _, *arguments = shlex.split(command, comments=True)
    assert callable(build_parser().parse_args(arguments).run)


def test_settings_of_the_pages_are_read(tmp_path: Path) -> None:
    from sightwords.train.recipe import load_recipe

    tables = 0
    for page in ("own-photographs.md", "languages.md"):
        for text in re.findall(
            r"^```toml\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.M | re.S
        ):
            (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
            load_recipe(tmp_path / "mine.toml")
            tables += 1
    assert tables >= 2


@pytest.mark.slow
@pytest.mark.parametrize("page", ["captioning.md", "auditing.md", "bundle.md"])
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("the page's commands are for bash")
    pytest.importorskip("pyexiv2")
    folder = tmp_path / "photographs"
    _scene(folder)
    environment = _tools(tmp_path / "bin")
    blocks = [block for block in _blocks(page) if not block[0]]
    assert len(blocks) >= 3
    for _, language, text in blocks:
        command = ["bash", "-euc", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def _tools(folder: Path) -> dict[str, str]:
    folder.mkdir()
    for name, words in (("sightwords", "-m sightwords"), ("python", "")):
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        tool.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def _scene(folder: Path) -> None:
    """The photographs, lists and bundles that the pages speak of."""
    samples = {path.stem: path for path in sample_paths()}
    for name in ("holiday", "shards", "val2014"):
        (folder / name).mkdir(parents=True)
    shutil.copy(samples["cat"], folder / "dog.jpg")
    for name in ("astronaut", "coffee"):
        shutil.copy(samples[name], folder / f"{name}.jpg")
    shutil.copy(samples["rocket"], folder / "holiday" / "rocket.jpg")
    shutil.copy(samples["cat"], folder / "val2014" / "COCO_val2014_000000000042.jpg")
    (folder / "list.txt").write_text("holiday/rocket.jpg\n", encoding="utf-8")
    for number in range(5):
        with tarfile.open(folder / "shards" / f"coco-{number:02d}.tar", "w") as tar:
            tar.add(samples["coffee"], f"{number}.jpg")
    coco = {"images": [{"id": 42, "file_name": "COCO_val2014_000000000042.jpg"}], "annotations": []}
    (folder / "captions_val2014.json").write_text(json.dumps(coco), encoding="utf-8")
    shutil.copytree(DEFAULT_BUNDLE, folder / "my-bundle")
    done = subprocess.run(
        [sys.executable, "-m", "sightwords", "bundle", "pack", "my-bundle", "my-bundle.zip"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0
