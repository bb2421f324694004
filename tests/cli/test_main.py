"""The command line's own talk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sightwords.cli.main import main


def test_a_library_that_prints_its_warnings_is_not_repeated() -> None:
    program = """
import logging, sys
from sightwords.cli import generate
from sightwords.cli.main import main

logging.getLogger("chatty").addHandler(logging.StreamHandler(sys.stderr))
generate.run = lambda args: [logging.getLogger("chatty.part").warning("once"),
                             logging.getLogger("quiet").warning("said")][0] or 0
main(["generate", "--words", "dog"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stderr.splitlines() == ["once", "sightwords: said"]


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["caption", "a.jpg", "--nbest", "3"], "did you mean --n-best?"),
        (["bundle", "info", "--jsn"], "did you mean --json?"),
        (["caption", "a.jpg", "--verbose"], "--verbose goes before the verb"),
        (["bundle", "verify", "a", "b"], "unrecognized arguments: b"),
        (["batch", *"abcdef", "--out", "c.csv"], "unrecognized arguments: b c d and 2 more"),
    ],
)
def test_a_slip_in_an_option_is_told_by_its_verb(
    command: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.endswith(advice)
    assert said.startswith(f"usage: sightwords {command[0]}")


def test_only_a_reader_of_stdout_that_left_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sightwords.cli.completion.run", broken)
    assert main(["completion", "bash"]) == 1
    assert capfd.readouterr().err == "sightwords: error: Broken pipe\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_left_ends_the_command_without_an_error(unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "sightwords", "completion", "bash"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, check=False, env=environment
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_reader_of_messages_that_left_does_not_stop_the_work(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "sightwords", "caption", "no-such.jpg", "--samples"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=write, check=False)
    os.close(write)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 5
