"""The command line's own talk."""

from __future__ import annotations

import subprocess
import sys

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
