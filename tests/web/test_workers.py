"""The queue and its workers: bounds, batches, and workers that die, hang or cannot start."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sightwords import worker_process
from sightwords.errors import BundleError
from sightwords.web import workers
from sightwords.web.engine import Engine, Job
from sightwords.web.errors import (
    BUSY,
    INTERNAL,
    RESTARTING,
    TOO_LATE,
    WORKER_DIED,
    ApiError,
    RequestRefusedError,
)
from sightwords.web.limits import Limits
from sightwords.web.workers import MAX_TRIES, Pool, ProcessWorker, Worker
from sightwords.worker_process import WorkerLostError

SECONDS = 240  # a busy machine may take long to start a process


def job(name: str = "x") -> Job:
    return Job(kind="words", name=name, data=b"")


class Scripted:
    """An engine that does what a job's name says."""

    class captioner:  # noqa: N801 - stands for an attribute
        fingerprint, vocabulary = "0" * 64, ()

    class detector:  # noqa: N801
        class config:  # noqa: N801
            threshold = 0.5

    dmsm = None

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()

    def answers(self, jobs: Sequence[Job]) -> Iterator[Any]:
        self.sizes.append(len(jobs))
        for one in jobs:
            if one.name == "wait":
                self.gate.wait(SECONDS)
            if one.name == "die":
                os._exit(3)
            if one.name == "hang":
                time.sleep(SECONDS)
            if one.name.startswith("kill once "):
                marker = Path(one.name.removeprefix("kill once "))
                if not marker.exists():
                    marker.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            if one.name == "bug":
                raise RuntimeError("a bug")
            yield {"name": one.name}


PoolOf = Callable[..., Pool]


@pytest.fixture
def pool_of(in_thread: Callable[[Any], Any]) -> PoolOf:
    """A pool of one worker in a thread."""
    return lambda engine, **limits: Pool(in_thread(lambda: engine), limits=Limits(**limits))


def in_process(make: Any, seconds: float = SECONDS) -> Callable[[], ProcessWorker]:
    return partial(ProcessWorker, make, seconds=seconds)


def test_what_waits_together_is_answered_together(in_thread: Callable[[Any], Any]) -> None:
    engine = Scripted()
    sizes: list[int] = []
    pool = Pool(in_thread(lambda: engine), limits=Limits(batch=3), on_batch=sizes.append)
    first = pool.submit([job("wait")])
    while not engine.sizes:
        time.sleep(0.01)
    rest = pool.submit([job(str(i)) for i in range(5)])
    engine.gate.set()
    wait([*first, *rest], SECONDS)
    assert engine.sizes == sizes == [1, 3, 2]
    assert [answer.result() for answer in rest] == [{"name": str(i)} for i in range(5)]
    pool.close()


def test_a_full_queue_refuses_and_recovers(pool_of: PoolOf) -> None:
    engine = Scripted()
    pool = pool_of(engine, queue=2)
    first = pool.submit([job("wait")])
    while not engine.sizes:
        time.sleep(0.01)
    waiting = pool.submit([job("a")])
    with pytest.raises(RequestRefusedError) as refused:
        pool.submit([job("b"), job("c")])  # all or none
    assert refused.value.error is BUSY
    assert BUSY.retry_after_seconds
    engine.gate.set()
    wait([*first, *waiting], SECONDS)
    assert pool.submit([job("d"), job("e")])[1].result(SECONDS) == {"name": "e"}
    pool.close()


def test_who_has_gone_is_not_served(pool_of: PoolOf) -> None:
    engine = Scripted()
    pool = pool_of(engine, batch=1)
    pool.submit([job("wait")])
    while not engine.sizes:
        time.sleep(0.01)
    gone, stays = pool.submit([job("gone"), job("stays")])
    assert gone.cancel()
    engine.gate.set()
    assert stays.result(SECONDS) == {"name": "stays"}
    assert engine.sizes == [1, 1]
    pool.close()


def test_a_bug_costs_one_batch(pool_of: PoolOf) -> None:
    pool = pool_of(Scripted())
    broken = pool.submit([job("bug")])[0].result(SECONDS)
    assert isinstance(broken, ApiError)
    assert broken.status == 500
    assert pool.submit([job("fine")])[0].result(SECONDS) == {"name": "fine"}
    pool.close()


class Spoilt(ProcessWorker):
    """Fails on one answer, as if it could not be unpickled."""

    def answers(self, jobs: Sequence[Job]) -> Iterator[Any]:
        for one, answer in zip(jobs, super().answers(jobs), strict=True):
            if one.name == "spoilt":
                raise RuntimeError("cannot be unpickled")
            yield answer


def test_after_a_bug_no_answer_goes_to_another() -> None:
    start = partial(Spoilt, Scripted, seconds=SECONDS)  # type: ignore[arg-type]
    pool = Pool(start, limits=Limits(seconds=SECONDS))
    first = pool.submit([job("spoilt"), job("a"), job("b")])
    assert [answer.result(SECONDS) for answer in first] == [INTERNAL, {"name": "a"}, {"name": "b"}]
    assert pool.submit([job("c")])[0].result(SECONDS) == {"name": "c"}
    pool.close()


class Lossy(Scripted):
    """An engine that is lost as a process is, the first time or every time."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[str] = []

    def answers(self, jobs: Sequence[Job]) -> Iterator[Any]:
        for one in jobs:
            if one.name == "die" or (one.name == "die once" and not self.lost):
                self.lost.append(one.name)
                raise WorkerLostError("it died")
            yield from super().answers([one])


def fails_after_the_first(
    start: Callable[[], Worker], errors: list[Exception]
) -> Callable[[], Worker]:
    """Starts one worker, then raises the errors, then starts workers again."""
    started = False

    def start_or_fail() -> Worker:
        nonlocal started
        if started and errors:
            raise errors.pop()
        started = True
        return start()

    return start_or_fail


def test_a_machine_that_can_start_no_process_is_tried_again(
    in_thread: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RESTART_SECONDS", 0.01)
    lost: list[int] = []
    engine = Lossy()
    errors: list[Exception] = [OSError("Resource temporarily unavailable") for _ in range(3)]
    start = fails_after_the_first(in_thread(lambda: engine), errors)
    pool = Pool(start, limits=Limits(), on_lost=lambda: lost.append(1))
    assert pool.submit([job("die once")])[0].result(SECONDS) == {"name": "die once"}
    assert not errors
    assert len(lost) == 1
    pool.close()


def test_without_a_worker_clients_are_told_to_come_back(in_thread: Callable[[Any], Any]) -> None:
    engine = Lossy()
    errors: list[Exception] = [OSError("no memory") for _ in range(1000)]
    pool = Pool(fails_after_the_first(in_thread(lambda: engine), errors), limits=Limits())
    assert pool.ready() == 1
    first, second = pool.enter([job("die once"), job("a")])
    while pool.ready():
        time.sleep(0.01)
    assert (first.late(), second.late()) == (RESTARTING, TOO_LATE)
    assert pool.enter([job("b")])[0].late() is BUSY
    pool.close()
    assert second.answer.result(SECONDS) in (BUSY, RESTARTING)


def test_a_photo_that_kills_workers_is_given_up_and_others_go_on(pool_of: PoolOf) -> None:
    engine = Lossy()
    pool = pool_of(engine, batch=3)
    a, died, b = pool.submit([job("a"), job("die"), job("b")])
    assert died.result(SECONDS) is WORKER_DIED
    assert (a.result(SECONDS), b.result(SECONDS)) == ({"name": "a"}, {"name": "b"})
    assert engine.lost == ["die"] * MAX_TRIES
    pool.close()


def test_those_that_wait_at_the_end_are_told(pool_of: PoolOf) -> None:
    engine = Scripted()
    pool = pool_of(engine, batch=1)
    pool.submit([job("wait")])
    while not engine.sizes:
        time.sleep(0.01)
    left = pool.submit([job("left")])[0]
    engine.gate.set()
    pool.waiting.close()
    assert left.result(SECONDS) in (BUSY, {"name": "left"})
    with pytest.raises(RequestRefusedError):
        pool.submit([job("late")])
    pool.close()


def test_a_process_that_dies_is_replaced() -> None:
    pool = Pool(in_process(Scripted), limits=Limits(batch=4, seconds=SECONDS))
    answers = pool.submit([job("a"), job("die"), job("b")])
    a, died, b = (answer.result(SECONDS) for answer in answers)
    # The batch is tried again one by one: the photograph that kills costs its own answer only.
    assert (a, died, b) == ({"name": "a"}, WORKER_DIED, {"name": "b"})
    assert pool.submit([job("after")])[0].result(SECONDS) == {"name": "after"}
    pool.close()


class Changed(Scripted):
    """Of another bundle from the second time on."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self.captioner = type("Other", (Scripted.captioner,), {"fingerprint": "1" * 64})  # type: ignore[assignment]
        if not marker.exists():
            marker.touch()
            self.captioner = Scripted.captioner


def test_a_worker_of_another_bundle_is_not_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make = partial(Changed, tmp_path / "marker")
    pool = Pool(in_process(make), limits=Limits())
    (answer,) = pool.submit([job("die")])
    until = time.monotonic() + SECONDS
    while "bundle has changed" not in caplog.text:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert pool.ready() == 0
    assert not answer.done()
    pool.close()
    (tmp_path / "marker").unlink()
    with pytest.raises(BundleError, match="bundle has changed"):
        Pool(in_process(make), workers=2, limits=Limits())


def test_a_process_that_hangs_is_given_up() -> None:
    worker = ProcessWorker(Scripted, seconds=0.5)  # type: ignore[arg-type]
    with pytest.raises(WorkerLostError) as lost:
        list(worker.answers([job("hang")]))
    assert lost.value.hung
    worker.stop()


def test_a_job_that_takes_too_long_is_told_so() -> None:
    pool = Pool(in_process(Scripted, seconds=1), limits=Limits(seconds=1))
    assert pool.submit([job("hang")])[0].result(SECONDS) is TOO_LATE
    answer = pool.submit([job("after")], deadline=time.monotonic() + SECONDS)[0]
    assert answer.result(SECONDS) == {"name": "after"}
    pool.close()


def _pids(pool: Pool) -> list[int]:
    found = [w.process.pid for w in list(pool._workers) if isinstance(w, ProcessWorker)]
    return [pid for pid in found if pid]


def _until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal here")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_an_idle_worker_that_dies_or_stops_is_replaced(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 4.0)
    pool = Pool(in_process(Scripted), limits=Limits(seconds=SECONDS))
    assert pool.ready() == 1
    [first] = _pids(pool)
    os.kill(first, getattr(signal, name))
    _until(lambda: pool.ready() == 0)  # what /healthz tells
    _until(lambda: pool.ready() == 1)
    assert _pids(pool) != [first]
    pool.close()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal here")
def test_a_stopped_worker_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 3.0)
    pool = Pool(in_process(Scripted), limits=Limits(seconds=SECONDS))
    os.kill(_pids(pool)[0], signal.SIGSTOP)
    large = Job(kind="words", name="large", data=b"x" * 5_000_000)  # more than a pipe holds
    assert pool.submit([large])[0].result(SECONDS) == {"name": "large"}
    pool.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_a_worker_killed_during_a_request_costs_no_answer(tmp_path: Path) -> None:
    pool = Pool(in_process(Scripted), workers=2, limits=Limits(seconds=SECONDS, batch=1))
    kill_once = str(tmp_path / "killed")
    names = [f"kill once {kill_once}", "a", "b"]
    answers = pool.submit([job(name) for name in names])
    assert [answer.result(SECONDS) for answer in answers] == [{"name": name} for name in names]
    pool.close()


def test_a_bundle_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no-such"):
        Pool(in_process(partial(Engine.load, tmp_path / "no-such")), limits=Limits())


class Ending:
    """An engine that ends its process when it is loaded."""

    def __init__(self) -> None:
        os._exit(7)


def test_a_worker_that_ends_while_it_loads() -> None:
    with pytest.raises(BundleError, match="exit code 7"):
        Pool(in_process(Ending), limits=Limits())


def test_about_names_what_the_page_shows(make_engine: partial[Engine]) -> None:
    found = workers.about(make_engine())
    assert found["words"] == 8
    assert found["ranks"] is False
