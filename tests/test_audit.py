"""`.ci/audit` tells known vulnerabilities from a source of advisories that does not answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "audit"
pytestmark = pytest.mark.skipif(
    not SCRIPT.exists() or shutil.which("bash") is None, reason="needs a checkout and bash"
)

KNOWN = "jinja2 2.4.1   PYSEC-2014-8   2.7.2"
"""What a source of advisories must know."""


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def audited(tmp_path: Path, *, known: str, installed: str, status: int) -> tuple[int, str]:
    """Exit status and output with programs in place of pip-audit and of Python's pip."""
    python = program(tmp_path / "python", "printf 'torch==2.13.0+cpu\\nstarlette==0.40.0\\n'")
    command = program(
        tmp_path / "pip-audit",
        f'case "$*" in *known.txt) echo "{known}"; exit {int(known == KNOWN)};; esac\n'
        f'tr "\\n" " " <"${{@: -1}}"; echo; echo "{installed}"; exit {status}',
    )
    found = subprocess.run(
        ["bash", str(SCRIPT), python],
        env={**os.environ, "AUDIT": command},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.returncode, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("known", "installed", "status", "code", "said"),
    [
        (KNOWN, "starlette 0.40.0 CVE-2025-54121 0.47.2", 1, 1, "audit: FAILED"),
        (KNOWN, "No known vulnerabilities found", 0, 0, "audit: no known vulnerability"),
        (KNOWN, "ConnectionError: the line went dead", 1, 0, "audit: SKIPPED, asking pypi"),
        ("No known vulnerabilities found", "", 0, 0, "audit: SKIPPED, no source of advisories"),
    ],
)
def test_answers(
    tmp_path: Path, known: str, installed: str, status: int, code: int, said: str
) -> None:
    got, told = audited(tmp_path, known=known, installed=installed, status=status)
    assert said in told
    assert got == code
    assert ("torch==2.13.0 starlette==0.40.0" in told) == (known == KNOWN)
