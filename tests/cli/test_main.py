"""The command line's own talk."""

from __future__ import annotations

import subprocess
import sys


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
