"""The conversation with METEOR's jar: limits and failures, with small programs in Java's place."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

import pytest

from sightwords.errors import ExternalToolError
from sightwords.metrics.meteor import java as module
from sightwords.metrics.meteor.java import Conversation, meteor_java
from sightwords.metrics.score import Comparison

ECHO = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"
PAIRS = Comparison(("1",), (("a", "dog"),), ((("a", "dog"),),))


def program(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def talk(code: str, *, seconds: float = 60.0) -> Conversation:
    return Conversation(program(code), folder=Path.cwd(), timeout_seconds=seconds)


def ended(conversation: Conversation) -> bool:
    return conversation._process.poll() is not None


def test_more_than_a_pipe_holds_goes_both_ways() -> None:
    lines = [f"{i} {'x' * 1000}" for i in range(3000)]
    with talk(ECHO) as echo:
        assert echo.ask(lines, answers=3000) == lines
        assert echo.ask(["once more"], answers=1) == ["once more"]
    assert ended(echo)


def test_messages_do_not_block_and_the_last_are_told() -> None:
    noisy = "import sys\nsys.stderr.write('m' * 1_000_000 + ' the end')\nsys.exit(3)"
    with (
        talk(noisy) as conversation,
        pytest.raises(
            ExternalToolError, match=r"after 0 of 1 answers with status 3\. .*mmm the end$"
        ),
    ):
        conversation.ask(["?"], answers=1)


def test_a_program_that_does_not_answer_is_ended_at_the_limit() -> None:
    start = time.monotonic()
    with (
        talk("import time\ntime.sleep(600)", seconds=0.3) as silent,
        pytest.raises(ExternalToolError, match=r"limit of 0\.3 seconds"),
    ):
        silent.ask(["?"] * 100_000, answers=1)
    assert ended(silent)
    assert time.monotonic() - start < 30


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
def test_what_the_program_started_is_ended_too() -> None:
    """A script in front of Java: its child would hold the pipe open."""
    nested = """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
    """
    start = time.monotonic()
    with talk(nested, seconds=1.0) as conversation, pytest.raises(ExternalToolError, match="limit"):
        conversation.ask(["?"], answers=1)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_program_is_ended_when_the_block_fails(error: type[BaseException]) -> None:
    conversation = talk(ECHO)
    with pytest.raises(error), conversation:
        raise error
    assert ended(conversation)


def test_half_a_line_is_no_answer() -> None:
    with (
        talk("print('12.5', end='')") as conversation,
        pytest.raises(ExternalToolError, match="status 0"),
    ):
        conversation.ask(["?"], answers=1)


def test_a_program_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ExternalToolError, match="cannot be started"):
        Conversation([str(tmp_path / "absent")], folder=tmp_path, timeout_seconds=1)


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ExternalToolError, match=r"no `java` is on the PATH.*use `meteor`"):
        meteor_java(PAIRS)


def test_an_answer_that_is_no_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    script = tmp_path / "echo.py"
    script.write_text("print('Error: no'); print('Error: no'); print('Error: no', flush=True)")
    monkeypatch.setattr("shutil.which", lambda _: sys.executable)
    monkeypatch.setattr(module, "_OPTIONS", (str(script),))
    with pytest.raises(ExternalToolError, match="answered 'Error: no', expected a number"):
        meteor_java(PAIRS)
