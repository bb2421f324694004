"""Worker processes: answers, errors, and workers that die, hang or lose their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sightwords import worker_process
from sightwords.errors import ImageError
from sightwords.worker_process import AnswerError, WorkerLostError, WorkerProcess

START_SECONDS = 120.0  # a busy machine may take long to start a process
LARGE = b"x" * 5_000_000  # more than a pipe holds


def load(answer: str = "ready") -> Callable[[Any], Iterator[Any]]:
    if answer == "die":
        os._exit(7)
    if answer == "refuse":
        raise ImageError("no such bundle")
    if answer == "hang":
        time.sleep(START_SECONDS)
    return answers


def answers(request: Any) -> Iterator[Any]:
    if request == "die":
        os._exit(3)
    if request == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if request == "refuse":
        raise ImageError("not an image")
    if request == "bug":
        raise EOFError("of a decoder")  # also what a closed pipe raises
    if request == "hang":
        time.sleep(START_SECONDS)
    if request == "slow":
        time.sleep(3)
        yield request
    if request == "pid":
        yield os.getpid()
    if isinstance(request, int):
        yield from range(request)
    if isinstance(request, bytes):
        yield request


@pytest.fixture
def worker() -> Iterator[WorkerProcess[Any, Any]]:
    started: WorkerProcess[Any, Any] = WorkerProcess(load, start_seconds=START_SECONDS)
    yield started
    started.stop()
    assert not started.responds()


def test_replies_come_in_order_and_errors_cost_one_answer(worker: WorkerProcess[Any, Any]) -> None:
    assert list(worker.ask(3, seconds=60)) == [0, 1, 2]
    with pytest.raises(ImageError, match="not an image"):
        list(worker.ask("refuse", seconds=60))
    with pytest.raises(AnswerError, match="EOFError: of a decoder"):
        list(worker.ask("bug", seconds=60))
    assert next(worker.ask(5, seconds=60)) == 0  # the other four belong to nobody
    assert list(worker.ask(LARGE, seconds=60)) == [LARGE]
    assert list(worker.ask("pid", seconds=60)) == [worker.pid]


@pytest.mark.parametrize(
    ("request_", "reason"), [("die", "exit code 3"), ("kill", "killed by SIGKILL")]
)
def test_a_worker_that_dies(worker: WorkerProcess[Any, Any], request_: str, reason: str) -> None:
    with pytest.raises(WorkerLostError, match=reason) as lost:
        list(worker.ask(request_, seconds=60))
    assert not lost.value.hung
    with pytest.raises(WorkerLostError):
        list(worker.ask(1, seconds=60))


def test_a_worker_that_hangs(worker: WorkerProcess[Any, Any]) -> None:
    with pytest.raises(WorkerLostError, match=r"0\.5 seconds") as lost:
        list(worker.ask("hang", seconds=0.5))
    assert lost.value.hung


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal here")
def test_a_worker_that_stops_reading(worker: WorkerProcess[Any, Any]) -> None:
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="request") as lost:
        list(worker.ask(LARGE, seconds=0.5))
    assert lost.value.hung
    start = time.monotonic()
    worker.stop()
    assert not worker.responds()
    assert time.monotonic() - start < 5


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal here")
def test_a_stopped_worker_is_noticed_before_its_time_is_up(
    worker: WorkerProcess[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 3.0)
    assert worker.listen()
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="3 seconds") as lost:
        list(worker.ask(1, seconds=60))
    assert lost.value.hung


def test_a_long_answer_of_a_worker_that_runs_is_waited_for(
    worker: WorkerProcess[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 1.5)
    assert list(worker.ask("slow", seconds=60)) == ["slow"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_signals_for_the_whole_group_are_left_to_the_parent(
    worker: WorkerProcess[Any, Any],
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(worker.pid, number)
    assert list(worker.ask(1, seconds=60)) == [0]


@pytest.mark.parametrize(
    ("how", "seconds", "error", "text"),
    [
        ("die", START_SECONDS, WorkerLostError, "exit code 7"),
        ("refuse", START_SECONDS, ImageError, "no such bundle"),
        ("hang", 0.5, WorkerLostError, "0\\.5 seconds"),
    ],
)
def test_a_worker_that_does_not_start(
    how: str, seconds: float, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        WorkerProcess(load, how, start_seconds=seconds)


PARENT = """
import os
from sightwords.worker_process import WorkerProcess
from tests_of_worker_process import load
if __name__ == "__main__":
    worker = WorkerProcess(load, start_seconds=120)
    print(worker.pid, flush=True)
    {end}
"""


@pytest.mark.skipif(os.name != "posix", reason="processes are asked by signal 0")
@pytest.mark.parametrize("end", ["os._exit(0)", "raise SystemExit(0)"])
def test_no_worker_outlives_its_parent(end: str, tmp_path: Path) -> None:
    (tmp_path / "tests_of_worker_process.py").write_text(
        "def load():\n    return lambda request: [request]\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(end=end))
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    deadline = time.monotonic() + 30
    while _alive(int(done.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True
