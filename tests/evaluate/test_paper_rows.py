"""`benchmarks/paper_rows.py`: the plan, and rows that need no trained model."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("numba")

from sightwords.errors import InputError
from sightwords.evaluate.published import SYSTEMS
from sightwords.evaluate.rows import read_rows

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "paper_rows.py"
PEOPLE = {
    "1": ["a dog runs on the grass", "a brown dog is running on grass"],
    "2": ["a cat sleeps on a bed", "a cat is sleeping on the bed"],
    "3": ["two men ride their bikes", "two men are riding bikes on a road"],
}
PLAN = """
[sets.mine]
captions = "people.jsonl"
tables = { coco = 0 }

[detectors.vit]

[rows.Human]
kind = "human"

[rows."VGG+Score+ft"]
open = "no detector yet"

[rows.ours]
captions = { mine = "ours.json" }
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not SCRIPT.exists():
        pytest.skip("benchmarks/ is not part of this checkout")
    spec = importlib.util.spec_from_file_location("benchmark_paper_rows", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [json.dumps({"id": k, "captions": v, "split": "test"}) for k, v in PEOPLE.items()]
    (tmp_path / "people.jsonl").write_text("\n".join(lines) + "\n")
    said = [{"image_id": int(k), "caption": v[0]} for k, v in PEOPLE.items()]
    (tmp_path / "ours.json").write_text(json.dumps(said))
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def score(script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["paper_rows.py", str(folder / "plan.toml"), "score", "--set", "mine"]
    words += ["--out", str(folder / "out"), "--rows", str(folder / "rows")]
    monkeypatch.setattr(sys, "argv", words)
    script.main()


def test_rows_are_scored_once(
    script: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    score(script, folder, monkeypatch)
    rows = read_rows(folder / "rows" / "mine", "coco")
    assert set(rows) == {"Human", "ours"}
    assert rows["ours"].values["bleu_4"] == pytest.approx(1.0)  # each is one of the references
    assert rows["Human"].values["bleu_4"] < 0.5
    assert "VGG+Score+ft: open: no detector yet" in capsys.readouterr().out
    log = (folder / "out" / "log.md").read_text()
    assert log.count("\n") == 2
    (folder / "ours.json").write_text("[]")
    score(script, folder, monkeypatch)
    assert "ours: scored before on mine" in capsys.readouterr().out
    assert (folder / "out" / "log.md").read_text() == log


def test_a_row_without_described_images_says_what_to_do(script: ModuleType, folder: Path) -> None:
    plan = script.read_plan(folder / "plan.toml")
    work = script.Work(plan, folder / "out")
    with pytest.raises(InputError, match=r"describe\.py"):
        work.described(script.System("VGG", detector="vgg"), "mine")


def test_the_plan_has_every_row_of_the_paper(script: ModuleType) -> None:
    plan = script.read_plan(SCRIPT.with_suffix(".toml"))
    names = [system.name for system in plan.systems]
    assert [name for name in names if name in SYSTEMS] == list(SYSTEMS)
    assert plan.sets["pascal1k"].other_captions["pascal50"].name == "pascal50s.jsonl.gz"
    tuned = {s.tune_half for s in plan.systems if s.kind == "lists" and not s.open}
    assert tuned <= {0, 1}


def test_samples_follow_the_model(script: ModuleType) -> None:
    class Always:
        """Says `a dog` and ends; would rather say `<unk>`."""

        size, unknown_id, end_id = 3, 2, 3
        vocabulary = type("Words", (), {"words": ("a", "dog", "<unk>")})

        def histories(self, ids: np.ndarray) -> np.ndarray:
            return np.arange(len(ids))[:, None]

        def log_probs_next(self, history: np.ndarray, *_: np.ndarray) -> np.ndarray:
            probs = np.full(4, 1e-12)
            probs[2] = 0.9
            probs[[0, 1, 3][int(history[0, 0])]] = 0.1
            found: np.ndarray = np.log(probs)[np.newaxis, :]
            return found

    assert script.sampled(Always(), np.random.default_rng(0)) == "a dog"


def test_tables_come_from_the_saved_rows(
    script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score(script, folder, monkeypatch)
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setitem(sys.modules, "paper_rows", script)
    monkeypatch.delitem(sys.modules, "paper_tables", raising=False)
    import paper_tables  # type: ignore[import-not-found]

    page = folder / "page.md"
    page.write_text("before\n<!-- table: mine -->\n<!-- end -->\nafter\n")
    command = ["paper_tables.py", str(folder / "plan.toml"), "--rows", str(folder / "rows")]
    monkeypatch.setattr(sys, "argv", [*command, "--page", str(page)])
    paper_tables.main()
    lines = page.read_text().splitlines()
    assert lines[:2] == ["before", "<!-- table: mine -->"]
    assert lines[-2:] == ["<!-- end -->", "after"]
    assert lines[2].startswith("| system | PPLX | BLEU | METEOR | CIDEr [5] |")
    names = [line.split(" | ")[0] for line in lines[4:-2]]
    assert names == ["| Human", "| VGG+Score+ft", "| ours"]
    assert lines[5] == "| VGG+Score+ft" + " | open" * 6 + " |"
    assert lines[6].split(" | ")[5] == "100.0"  # BLEU-4: each caption is one of the references
    shutil.rmtree(folder / "rows")  # lines of rows whose files are gone stay as they are
    page.write_text(page.read_text().replace(lines[6], lines[6].replace("100.0", "99.9")))
    paper_tables.main()
    again = page.read_text().splitlines()
    assert again[:6] == lines[:6]
    assert again[6] == lines[6].replace("100.0", "99.9")
    page.write_text("no place\n")
    with pytest.raises(SystemExit, match="0 places"):
        paper_tables.main()
