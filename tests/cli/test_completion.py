"""`sightwords completion`: what the Tab key offers, asked of the shells themselves."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from sightwords.cli.main import VERBS, main

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def _offered(script: str, *words: str) -> list[str]:
    """What bash completes the last of these words to."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _sightwords; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@needs_bash
def test_bash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    verbs = {module.__name__.rpartition(".")[2] for module in VERBS}
    assert set(_offered(script, "sightwords", "")) == verbs
    assert set(_offered(script, "sightwords", "b")) == {"batch", "bundle"}
    assert _offered(script, "sightwords", "--vers") == ["--version"]
    assert set(_offered(script, "sightwords", "bundle", "")) == {"info", "verify", "pack", "seal"}
    assert _offered(script, "sightwords", "bundle", "seal", "--lic") == ["--licence"]
    batch = ("sightwords", "batch", "photos", "--format")
    assert set(_offered(script, *batch, "")) >= {"jsonl", "coco", "csv", "txt"}
    assert _offered(script, *batch, "c") == ["coco", "csv"]
    assert _offered(script, "sightwords", "completion", "z") == ["zsh"]
    assert _offered(script, "sightwords", "caption", "/et") == ["/etc"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_their_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "batch" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)
