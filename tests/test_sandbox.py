"""The helper process: what goes wrong in it costs one error here, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightwords import sandbox
from sightwords.errors import ImageError, SandboxError

MEMORY = 101 << 20  # no other test uses helpers of this size

FUNCTIONS = """
import os, signal, sys, time
from sightwords.errors import ImageError

def hang(arguments, payload):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)

def crash(arguments, payload):
    os.kill(os.getpid(), signal.SIGSEGV)

def leave(arguments, payload):
    os._exit(3)

def eat(arguments, payload):
    return {}, bytes(arguments["bytes"])[:1]

def talk(arguments, payload):
    for number in (1, 2):
        os.write(number, b"noise " * 100_000)
    print("more noise")
    return {"said": True}, b"x"

def fail(arguments, payload):
    raise KeyError("what")

def refuse(arguments, payload):
    raise ImageError("cat.jpg: is a dog")

def lie(arguments, payload):
    import struct
    text = arguments["text"].encode()
    # As a hostile file would that has taken the process over: straight into the pipe.
    for descriptor in range(3, 20):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe"):
                os.write(descriptor, struct.pack("<II", len(text), 0) + text)
        except OSError:
            pass
    time.sleep(60)

def process(arguments, payload):
    return {"pid": os.getpid()}, b""
"""


@pytest.fixture(autouse=True)
def _functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "in_the_helper.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sandbox.stop_helpers()
    yield
    sandbox.stop_helpers()


def run(function: str, *, seconds: float = 30, **arguments: object) -> sandbox.Answer:
    return sandbox.run_apart(
        f"in_the_helper:{function}", arguments, seconds=seconds, memory_bytes=MEMORY
    )


def works() -> bool:
    return bool(run("process")[0]["pid"] != os.getpid())


def test_arguments_and_bytes_travel_both_ways() -> None:
    payload = bytes(range(256)) * 5000
    answer, data = sandbox.run_apart(
        "sightwords.sandbox:echo", {"a": [1, "\udc80"]}, payload, seconds=30, memory_bytes=MEMORY
    )
    assert answer == {"a": [1, "\udc80"]}
    assert data == payload


def test_a_helper_is_used_again() -> None:
    assert run("process") == run("process")


def test_what_hangs_is_killed_in_time() -> None:
    assert works()
    start = time.monotonic()
    with pytest.raises(SandboxError, match=r"0\.5 seconds") as caught:
        run("hang", seconds=0.4987654)
    with pytest.raises(SandboxError, match=r"0\.02 seconds"):
        run("hang", seconds=0.02)
    assert time.monotonic() - start < 5
    assert caught.value.reason == "seconds"
    assert works()


@pytest.mark.parametrize(("function", "said"), [("crash", "SIGSEGV"), ("leave", "exit code 3")])
def test_what_crashes_is_named(function: str, said: str) -> None:
    with pytest.raises(SandboxError, match=said) as caught:
        run(function)
    assert caught.value.reason == "crash"
    assert works()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the limit")
def test_memory_is_limited_by_the_system() -> None:
    assert run("eat", bytes=50 << 20)
    with pytest.raises(SandboxError, match="101 MB") as caught:
        run("eat", bytes=2 << 30)
    assert caught.value.reason == "memory"
    assert works()


def test_what_libraries_print_reaches_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("talk") == ({"said": True}, b"x")
    assert capfd.readouterr() == ("", "")


def test_errors_of_ours_stay_what_they_are() -> None:
    with pytest.raises(ImageError, match=r"cat\.jpg: is a dog"):
        run("refuse")
    with pytest.raises(SandboxError, match="KeyError: 'what'"):
        run("fail")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("text", ["no JSON", "[]", "[" * 100_000, '{"error": "no such"}', "{}"])
def test_a_helper_that_was_taken_over_cannot_do_harm(text: str) -> None:
    with pytest.raises(SandboxError):
        run("lie", text=text, seconds=10)
    sandbox.stop_helpers()
    assert works()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_signals_for_the_whole_group_are_left_to_the_parent() -> None:
    helper = run("process")[0]["pid"]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        os.kill(helper, getattr(signal, name))
    assert run("process")[0]["pid"] == helper


def test_threads_have_a_helper_each() -> None:
    found: list[int] = []

    def ask() -> None:
        found.extend(run("process")[0]["pid"] for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert len(set(found)) <= 4


def test_a_helper_that_was_killed_between_calls_is_replaced() -> None:
    before = run("process")[0]["pid"]
    os.kill(before, signal.SIGKILL)
    assert run("process")[0]["pid"] != before


def test_an_interpreter_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/bin/false")
    with pytest.raises(SandboxError, match="/bin/false") as caught:
        run("process")
    assert caught.value.reason == "start"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_helpers_end_with_their_parent_even_while_they_hang(tmp_path: Path) -> None:
    script = """
        import sys
        sys.path.insert(0, {folder!r})
        from sightwords import sandbox
        def run(function, seconds):
            return sandbox.run_apart(f"in_the_helper:{{function}}", {{}}, seconds=seconds,
                                     memory_bytes=1 << 27)
        print(run("process", 20)[0]["pid"], flush=True)
        run("hang", 1)
    """
    code = textwrap.dedent(script).format(folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        helper = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        if not _alive(helper):
            return
        time.sleep(0.1)
    pytest.fail("the helper process outlived its parent")


def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = tmp_path / "photos"
    strange.mkdir()
    (strange / "numpy.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(strange)
    monkeypatch.syspath_prepend("")
    assert works()


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
