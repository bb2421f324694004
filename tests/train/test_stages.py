"""Stages run once, again where something they depend on has changed, and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from sightwords.errors import ConfigError
from sightwords.train.stages import DONE_NAME, Job, Stage, Update, run_stages

Recipe = Mapping[str, int]


def table(log: list[str]) -> tuple[Stage[Recipe], ...]:
    """c needs b and a; b needs a."""

    def run(name: str) -> object:
        def work(job: Job[Recipe]) -> Mapping[str, object]:
            log.append(name)
            job.say(1, 2, "steps")
            before = [int((f / "sum").read_text("utf-8")) for f in job.inputs.values()]
            (job.folder / "sum").write_text(str(sum(before) + job.recipe[name]), "utf-8")
            return {"inputs": len(before)}

        return work

    needs = {"a": (), "b": ("a",), "c": ("a", "b")}
    return tuple(
        Stage(name, needs[name], lambda r, n=name: r[n], run(name))  # type: ignore[misc, arg-type]
        for name in "abc"
    )


def test_only_what_depends_on_a_change_runs_again(tmp_path: Path) -> None:
    log: list[str] = []
    stages, recipe = table(log), {"a": 1, "b": 10, "c": 100}
    found = run_stages(stages, recipe, tmp_path)
    assert log == ["a", "b", "c"]
    assert (found.folders["c"] / "sum").read_text("utf-8") == "112"  # 1 + (1 + 10) + 100
    assert found.figures["c"] == {"inputs": 2}
    run_stages(stages, recipe, tmp_path)
    assert log == ["a", "b", "c"]
    again = run_stages(stages, {**recipe, "b": 20}, tmp_path)
    assert log == ["a", "b", "c", "b", "c"]
    assert (again.folders["c"] / "sum").read_text("utf-8") == "122"
    back = run_stages(stages, recipe, tmp_path)
    assert log == ["a", "b", "c", "b", "c"]
    assert back.folders == found.folders


def test_one_view_of_all_stages(tmp_path: Path) -> None:
    seen: list[Update] = []
    stages, recipe = table([]), {"a": 1, "b": 10, "c": 100}
    run_stages(stages, recipe, tmp_path, progress=seen.append)
    assert [(u.stage, u.state, u.done) for u in seen[:3]] == [
        ("a", "running", 0), ("a", "running", 1), ("a", "done", 0),
    ]  # fmt: skip
    assert {(u.number, u.stages) for u in seen if u.stage == "b"} == {(2, 3)}
    seen.clear()
    run_stages(stages, recipe, tmp_path, progress=seen.append)
    assert [u.state for u in seen] == ["kept"] * 3


def test_a_table_out_of_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'b' needs 'a', which is not before it"):
        run_stages(table([])[1:], {"a": 1, "b": 10, "c": 100}, tmp_path)


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from sightwords.train.stages import Stage, run_stages

    def first(job):
        (job.folder / "made").write_text("1")
        return {}

    def second(job):
        (job.folder / "half").write_text("left over")
        if sys.argv[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"found": (job.folder / "half").read_text()}

    stages = (
        Stage("first", (), lambda r: "", first),
        Stage("second", ("first",), lambda r: "", second),
    )
    seen = []
    run_stages(stages, None, Path(sys.argv[1]), progress=lambda u: seen.append(u.state))
    print(seen[0], seen[-1])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_stage_runs_again_in_its_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    killed = subprocess.run([*command, "kill"], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL
    [first] = tmp_path.glob("first-*")
    [second] = tmp_path.glob("second-*")
    assert (first / DONE_NAME).exists()
    assert not (second / DONE_NAME).exists()
    assert (second / "half").exists()
    rest = subprocess.run([*command, "go"], check=True, capture_output=True, text=True)
    assert rest.stdout.split() == ["kept", "done"]
    figures = json.loads((second / DONE_NAME).read_text("utf-8"))["figures"]
    assert figures == {"found": "left over"}


def test_work_on_other_files_is_not_resumed(tmp_path: Path) -> None:
    """An input that was lost and made again may differ: what was half done with it does not fit."""
    made, stops = ["one"], [True]

    def first(job: Job[None]) -> Mapping[str, object]:
        (job.folder / "made").write_text(made[0], "utf-8")
        return {}

    def second(job: Job[None]) -> Mapping[str, object]:
        half = job.folder / "half"
        if not half.exists():
            half.write_text((job.inputs["first"] / "made").read_text("utf-8"), "utf-8")
        if stops[0]:
            raise InterruptedError
        return {"half": half.read_text("utf-8")}

    stages = (
        Stage[None]("first", (), lambda r: "", first),
        Stage[None]("second", ("first",), lambda r: "", second),
    )
    with pytest.raises(InterruptedError):
        run_stages(stages, None, tmp_path)
    made[0], stops[0] = "two", False
    for unfinished in (True, False):
        [folder] = tmp_path.glob("first-*")
        (folder / "made").unlink()
        found = run_stages(stages, None, tmp_path)
        assert found.figures["second"] == {"half": made[0]}, unfinished
        made[0] = "three"
    assert not (found.folders["second"] / "started.json").exists()
