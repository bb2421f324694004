"""Clients that go away, send half, send slowly or come in crowds, against a real server."""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image

from sightwords import http_server
from sightwords.web.engine import Engine, Job
from sightwords.web.limits import Limits
from sightwords.web.serve import guarded_app

Running = Callable[[Any], AbstractContextManager[str]]
InThread = Callable[[Any], Any]
PHOTOGRAPH = Image.new("RGB", (32, 32), "red")


def photograph() -> bytes:
    stream = io.BytesIO()
    PHOTOGRAPH.save(stream, "PNG")
    return stream.getvalue()


class Gated(Engine):
    """Answers when the gate is open."""

    gate = threading.Event()

    def answers(self, jobs: Sequence[Job]) -> Iterator[Any]:
        self.gate.wait(30)
        yield from super().answers(jobs)


Serve = Callable[[float], AbstractContextManager[str]]


@pytest.fixture
def serve(make_engine: partial[Engine], in_thread: InThread, running: Running) -> Serve:
    """Runs a server with this time limit in seconds."""

    @contextmanager
    def run(seconds: float) -> Iterator[str]:
        limits = Limits(queue=4, seconds=seconds, batch=2)

        def make() -> Engine:
            engine = make_engine(limits=limits)
            return Gated(engine.captioner, engine.dmsm, limits)

        Gated.gate.set()
        with guarded_app(in_thread(make), limits=limits) as app, running(app) as address:
            yield address
        Gated.gate.set()

    return run


@pytest.fixture
def server(serve: Serve) -> Iterator[str]:
    with serve(5) as address:
        yield address


@pytest.fixture
def impatient(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with short time limits."""
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 1)
    monkeypatch.setattr(http_server, "DRAIN_SECONDS", 0.5)
    with serve(1.5) as address:
        yield address


def ask(address: str, body: bytes, path: str = "/v1/words") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request("POST", path, body, {"content-type": "image/png"})
    answer = connection.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    connection.close()
    return found


def metric(address: str, name: str) -> float:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def raw(address: str, text: bytes) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname is not None
    found = socket.create_connection((parts.hostname, parts.port or 80), timeout=20)
    found.sendall(text.replace(b"HOST", parts.netloc.encode()))
    return found


HALF = (
    b"POST /v1/words HTTP/1.1\r\nHost: HOST\r\nContent-Type: image/png\r\n"
    b"Content-Length: 100000\r\n\r\n" + b"x" * 5000
)


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_half_a_body_and_then_nobody(server: str) -> None:
    for _ in range(20):
        raw(server, HALF).close()
    assert ask(server, photograph())[0] == 200
    eventually(lambda: metric(server, "sightwords_held_bytes") == 0)


def test_half_a_body_and_then_silence(impatient: str) -> None:
    slow = raw(impatient, HALF)
    assert ask(impatient, photograph())[0] == 200  # others do not wait for it
    answer = slow.recv(4096)
    assert b" 408 " in answer
    if b"too_slow" not in answer:
        answer += slow.recv(4096)
    assert b"too_slow" in answer
    slow.close()


def test_garbage_is_no_request(server: str) -> None:
    with raw(server, b"\x16\x03\x01 hello\r\n\r\n") as found:
        assert b"400" in found.recv(4096)
    assert ask(server, photograph())[0] == 200


def test_a_crowd_gets_answers_or_503(server: str) -> None:
    Gated.gate.clear()
    found: Counter[int] = Counter()
    after: list[str] = []

    def one() -> None:
        status, headers, _ = ask(server, photograph())
        found[status] += 1
        if status == 503:
            after.append(headers["retry-after"])

    crowd = [threading.Thread(target=one) for _ in range(20)]
    for thread in crowd:
        thread.start()
    eventually(lambda: found[503] >= 13)
    Gated.gate.set()
    for thread in crowd:
        thread.join(30)
    assert set(found) == {200, 503}
    assert found[200] + found[503] == 20
    assert 4 <= found[200] <= 7  # what waited, and what was being worked on
    assert set(after) == {"2"}
    assert ask(server, photograph())[0] == 200


def test_clients_that_leave_make_room(server: str) -> None:
    Gated.gate.clear()
    body = photograph()
    head = b"POST /v1/words HTTP/1.1\r\nHost: HOST\r\nContent-Type: image/png\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    first = raw(server, whole)  # taken by the worker
    eventually(lambda: metric(server, "sightwords_batch_photographs_count") == 1)
    others = [raw(server, whole) for _ in range(4)]
    eventually(lambda: metric(server, "sightwords_waiting_photographs") == 4)
    assert ask(server, body)[0] == 503
    for one in (first, *others):
        one.close()
    eventually(
        lambda: metric(server, 'sightwords_requests_total{path="/v1/words",status="499"') == 5
    )
    Gated.gate.set()
    assert ask(server, body)[0] == 200
    assert metric(server, "sightwords_held_bytes") == 0


def test_body_and_answer_share_the_time_limit(impatient: str) -> None:
    Gated.gate.clear()
    body = photograph()
    head = b"POST /v1/words HTTP/1.1\r\nHost: HOST\r\nContent-Type: image/png\r\n"
    start = time.monotonic()
    with raw(impatient, head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1]) as slow:
        time.sleep(1.2)
        slow.sendall(body[-1:])
        assert b" 504 " in slow.recv(4096)
    assert time.monotonic() - start < 2.6  # the limit is 1.5 seconds in all
    Gated.gate.set()


def test_a_request_that_takes_too_long(impatient: str) -> None:
    Gated.gate.clear()
    status, _, body = ask(impatient, photograph())
    assert status == 504
    assert b"too_late" in body
    Gated.gate.set()
    assert ask(impatient, photograph())[0] == 200


def until_closed(found: socket.socket) -> bytes:
    """What the server says until it closes the connection; fails where it does not."""
    answer = b""
    try:
        while chunk := found.recv(65536):
            answer += chunk
    except ConnectionResetError:
        pass
    return answer


def test_a_body_in_chunks_of_one_byte_is_refused(server: str) -> None:
    head = HALF.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    with raw(server, head + b"1\r\nx\r\n" * 2000) as client:
        assert until_closed(client).startswith(b"HTTP/1.1 400")
    body = photograph() + bytes(300_000)
    pieces = (body[i : i + 128] for i in range(0, len(body), 128))
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=30)
    kind = {"Content-Type": "image/png"}
    connection.request("POST", "/v1/words", pieces, kind, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


def test_forms_that_cannot_be_read_leave_nothing_in_the_log(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=30)
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/v1/words", b"--y\r\n", kind)
    assert connection.getresponse().status == 400
    connection.close()
    assert not caplog.records


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nHost: HOST\r\nX-Slow: "])
def test_heads_that_never_end(server: str, start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.5)
    with raw(server, start) as slow:
        begin = time.monotonic()
        assert until_closed(slow) == b""
        assert time.monotonic() - begin < 5


def test_a_head_that_comes_byte_by_byte(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(http_server, "READ_SECONDS", 1.5)
    with raw(server, b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n") as slow:
        assert b" 200 " in slow.recv(65536)  # the second head of a connection is waited for, too
        with pytest.raises(OSError):  # noqa: PT011 - whichever comes first
            for _ in range(100):
                slow.sendall(b"x")
                time.sleep(0.1)


def test_an_idle_connection_is_closed(impatient: str) -> None:
    with raw(impatient, b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n") as idle:
        begin = time.monotonic()
        assert b" 200 " in until_closed(idle)
        assert time.monotonic() - begin < http_server.IDLE_SECONDS + 5


HUGE = b"POST /v1/words HTTP/1.1\r\nHost: HOST\r\nContent-Type: image/png\r\n"


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (b"Content-Length: 100000000000\r\n\r\n", b" 413 "),
        (b"Transfer-Encoding: chunked\r\nOrigin: http://evil\r\n\r\nfffffff\r\n", b" 403 "),
        (b"Content-Length: 100000000000\r\nOrigin: http://evil\r\n\r\n", b" 403 "),
    ],
)
def test_after_a_refusal_no_body_is_read(server: str, length: bytes, status: bytes) -> None:
    with raw(server, HUGE + length) as found:
        sent = 0
        with pytest.raises(OSError):  # noqa: PT011 - reset, or a broken pipe
            while sent < 2_000_000_000:
                found.sendall(b"x" * 1_000_000)
                sent += 1_000_000
    assert sent < 100_000_000  # the limit of a body is 32 MB, and 48 MB more are drained
    with raw(server, HUGE + length + b"0" * 100) as found:
        answer = until_closed(found)
    assert status in answer
    assert b"connection: close" in answer.lower()
    assert ask(server, photograph())[0] == 200


def test_a_client_that_sends_all_before_it_reads_sees_the_refusal(server: str) -> None:
    body = b"x" * (Limits().body_bytes + 4_000_000)
    status, headers, answer = ask(server, body)
    assert (status, headers["connection"]) == (413, "close")
    assert b"too_large" in answer


def test_a_slow_body_ends_its_connection(impatient: str) -> None:
    with raw(impatient, HALF) as slow:
        answer = until_closed(slow)
    assert b" 408 " in answer
    assert b"too_slow" in answer


def test_an_answer_that_nobody_fetches(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "READ_SECONDS", 1.0)
    asked = b"GET /samples/cat.jpg HTTP/1.1\r\nHost: HOST\r\n\r\n"
    with raw(server, b"") as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        name = urlsplit(server).netloc.encode()
        with pytest.raises(OSError):  # noqa: PT011 - the server gives up, and we cannot send
            for _ in range(2000):
                stuck.sendall(asked.replace(b"HOST", name) * 20)
                time.sleep(0.01)
    assert ask(server, photograph())[0] == 200


def test_a_flood_of_connections(server: str) -> None:
    flood = [raw(server, b"") for _ in range(300)]  # the tests' server takes 100 at a time
    open_ones = 0
    for one in flood:
        one.settimeout(0.01)
        try:
            open_ones += bool(one.recv(1))
        except TimeoutError:
            open_ones += 1
        except ConnectionResetError:
            pass
    assert open_ones <= 200
    for one in flood:
        one.close()
    eventually(lambda: ask(server, photograph())[0] == 200)
