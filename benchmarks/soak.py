"""Hours of mixed load on `sightwords serve` while its workers are killed and stopped.

    python benchmarks/soak.py --minutes 120 --workers 2 --out soak.json

Starts a server on this machine. Clients send photos of several formats, broken bytes, bodies that
are too large, half requests, and whole requests whose answer nobody reads. Every 20 seconds or so
a worker gets SIGKILL or SIGSTOP. Memory is what the processes of the server have allocated
(Pss_Anon): pages of files are left out, because their share depends on what else runs. The load
pauses before each sample.

Every valid photo must be answered with 200, or 503 with `Retry-After`. Exits with 1 after any other
answer, or if memory grows by more than 5 % after the first ten minutes, measured along the straight
line that fits all later samples (a worker that was just replaced is smaller than an older one). The
memory of the server's own process, which is never replaced, is given separately.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from PIL import Image

from sightwords.samples import sample_paths

MEGABYTE = 1 << 20
SETTLED_MINUTES = 10.0
MOST_GROWTH = 5.0
SAMPLE_SECONDS = 30.0
WRITE_SECONDS = 60.0
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF")
BODY_MEGABYTES = 8
CLIENT_SECONDS = 60


@dataclass
class Tally:
    """Counts of what happened, shared by all threads."""

    statuses: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    signals: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    server_memory: list[tuple[float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, kind: str, status: int | str, *, expected: bool, detail: str = "") -> None:
        """Count an answer."""
        with self.lock:
            self.statuses[f"{kind} {status}"] += 1
            if not expected:
                moment = time.strftime("%H:%M:%S")
                self.unexpected.append(f"{moment} {kind}: {status} {detail[:200]}")


def main() -> int:
    """Run, write the figures, and return whether they are good."""
    args = _options().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to stop the server, too
    port = _free_port()
    server = _start(port, args)
    tally, end = Tally(), threading.Event()
    pause = threading.Event()
    start = time.monotonic()
    clients = Clients(port, tally, random.Random(args.seed))
    threads = [
        threading.Thread(target=_load, args=(clients, args.rate / 4, end, pause), daemon=True)
        for _ in range(4)
    ]
    threads.append(threading.Thread(target=_harm, args=(server, args, tally, end), daemon=True))
    for thread in threads:
        thread.start()
    try:
        _watch(server, args, tally, start, clients, pause)
    except KeyboardInterrupt:
        print("stopped early", file=sys.stderr)
    end.set()
    for thread in threads:
        thread.join(CLIENT_SECONDS)
    found = report(tally, time.monotonic() - start, ended=True)
    found["restarts"] = _restarts(port)
    found["exit_code"] = _stop(server)
    _write(args.out, found)
    print(json.dumps(found, indent=1))
    return 0 if found["good"] else 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=2, help="requests a second (default: 2)")
    parser.add_argument("--harm-seconds", type=float, default=20, help="0: leave workers alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bundle", help="default: the built-in one")
    parser.add_argument("--out", type=Path, default=Path("soak.json"))
    return parser


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start(port: int, args: argparse.Namespace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sightwords", "serve", "--port", str(port)]
    command += ["--workers", str(args.workers), "--set", f"max_megabytes={BODY_MEGABYTES}"]
    command += ["--bundle", args.bundle] if args.bundle else []
    log = args.out.with_suffix(".log").open("wb")
    server = subprocess.Popen(command, stderr=log)
    deadline = time.monotonic() + 180
    while True:
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            sys.exit(f"the server did not start; see {log.name}")
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return server
        time.sleep(0.2)


def _stop(server: subprocess.Popen[bytes]) -> int:
    server.send_signal(signal.SIGTERM)
    try:
        return server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


# --- clients -----------------------------------------------------------------------------------


class Clients:
    """One method for each kind of client."""

    def __init__(self, port: int, tally: Tally, order: random.Random) -> None:
        self.port, self.tally, self.order = port, tally, order
        self.photos = _photos()
        self.kinds: list[tuple[Callable[[], None], int]] = [
            (self.valid, 70),
            (self.broken, 8),
            (self.oversize, 4),
            (self.gone, 5),
            (self.slow_head, 2),
            (self.slow_body, 2),
            (self.health, 5),
        ]

    def one(self) -> None:
        """A client of a random kind."""
        kinds, weights = zip(*self.kinds, strict=True)
        kind: Callable[[], None] = self.order.choices(kinds, weights)[0]
        try:
            kind()
        except (OSError, http.client.HTTPException) as error:
            name = type(error).__name__
            # A refused body may end its connection while the client still sends.
            fine = kind == self.oversize
            self.tally.answered(kind.__name__, name, expected=fine, detail=str(error))

    def valid(self) -> None:
        """A request with valid photos."""
        path = self.order.choice(
            ["/v1/caption", "/v1/caption?n_best=3&detail=true", "/v1/words", "/v1/explain"]
        )
        if self.order.random() < 0.15:
            sentences = ["a cat", "a red bus on a street"]
            self._form("valid", "/v1/rank", self.order.randint(1, 3), sentences)
        else:
            self._judge("valid", *self._post(path, self._photo(), "image/jpeg"))

    def broken(self) -> None:
        """A damaged photo: 422, or 200 if the damage is small."""
        body = bytearray(self._photo())
        for _ in range(self.order.choice((1, 20, 2000))):
            body[self.order.randrange(len(body))] = self.order.randrange(256)
        body = body[: self.order.choice((len(body), len(body) // 2, 20))]
        status, headers, answer = self._post("/v1/caption", bytes(body), "image/jpeg")
        self._judge("broken", status, headers, answer, good=(200, 422))

    def oversize(self) -> None:
        """A body over the limit: 413."""
        body = b"x" * (BODY_MEGABYTES + self.order.choice((1, 30))) * MEGABYTE
        status, headers, answer = self._post("/v1/words", body, "image/jpeg")
        self._judge("oversize", status, headers, answer, good=(413,))

    def gone(self) -> None:
        """A client that leaves before its answer."""
        body = self._photo()
        with self._raw(len(body)) as found:
            found.sendall(body[: self.order.choice((len(body), len(body) // 2))])
            time.sleep(self.order.random() / 5)
        self.tally.answered("gone", "closed", expected=True)

    def slow_head(self) -> None:
        """Half a head, then silence: the server must close the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=CLIENT_SECONDS) as found:
            found.sendall(b"POST /v1/words HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow")
            self._ends("slow_head", found)

    def slow_body(self) -> None:
        """Half a body, then silence: 408, and the server must close the connection."""
        body = self._photo()
        with self._raw(len(body)) as found:
            found.sendall(body[: len(body) // 2])
            self._ends("slow_body", found)

    def health(self) -> None:
        """The health check."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CLIENT_SECONDS)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        self._judge("health", answer.status, dict(answer.getheaders()), answer.read())
        connection.close()

    def crowd(self, count: int) -> None:
        """Ask for this many figures of large photos at once, to give every worker some work."""
        large = sorted(self.photos, key=len)[-5:]

        def ask(number: int) -> None:
            with suppress(OSError, http.client.HTTPException):
                self._judge("crowd", *self._post("/v1/explain", large[number % 5], "image/png"))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLIENT_SECONDS)

    def _form(self, kind: str, path: str, photos: int, sentences: list[str]) -> None:
        parts = [
            b'Content-Disposition: form-data; name="image"; filename="%d"\r\n\r\n' % i
            + self._photo()
            for i in range(photos)
        ]
        parts += [
            b'Content-Disposition: form-data; name="sentence"\r\n\r\n' + text.encode()
            for text in sentences
        ]
        body = b"".join(b"--soak\r\n" + part + b"\r\n" for part in parts) + b"--soak--\r\n"
        self._judge(kind, *self._post(path, body, "multipart/form-data; boundary=soak"))

    def _photo(self) -> bytes:
        return self.order.choice(self.photos)

    def _post(self, path: str, body: bytes, kind: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CLIENT_SECONDS)
        start = time.monotonic()
        try:
            connection.request("POST", path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            found = answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()
        with self.tally.lock:
            self.tally.latencies.append(time.monotonic() - start)
        return found

    def _raw(self, length: int) -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), timeout=CLIENT_SECONDS)
        head = "POST /v1/caption HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n"
        found.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        return found

    def _ends(self, kind: str, found: socket.socket) -> None:
        """Wait until the server closes the connection."""
        answer, start = b"", time.monotonic()
        try:
            while chunk := found.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
        except TimeoutError:
            self.tally.answered(kind, "left open", expected=False)
            return
        status = answer.split(b" ", 2)[1].decode() if answer else "closed"
        seconds = f"after {time.monotonic() - start:.0f} s"
        self.tally.answered(kind, status, expected=status in ("closed", "408"), detail=seconds)

    def _judge(
        self,
        kind: str,
        status: int,
        headers: dict[str, str],
        answer: bytes,
        good: tuple[int, ...] = (200,),
    ) -> None:
        later = status == 503 and any(name.lower() == "retry-after" for name in headers)
        if status == 200 and kind == "valid" and b'"error"' in answer:
            status = -200  # one of the photos has an error in its place
        detail = answer[:200].decode("utf-8", "replace")
        self.tally.answered(kind, status, expected=status in good or later, detail=detail)


def _photos() -> list[bytes]:
    """The samples at several sizes, in several formats."""
    found = []
    for path in sample_paths():
        with Image.open(path) as image:
            upright = image.convert("RGB")
        for number, kind in enumerate(FORMATS):
            stream = io.BytesIO()
            side = (200, 400, 800)[number % 3]
            small = upright.copy()
            small.thumbnail((side, side))
            small.save(stream, kind)
            found.append(stream.getvalue())
    return found


def _load(clients: Clients, rate: float, end: threading.Event, pause: threading.Event) -> None:
    """Send `rate` requests per second, or fewer if answers take longer."""
    due = time.monotonic() + random.random() / rate
    while not end.is_set():
        while pause.is_set() and not end.is_set():
            time.sleep(0.05)
        if end.wait(max(0.0, due - time.monotonic())):
            return
        due = max(due, time.monotonic() - 5) + 1 / rate
        clients.one()


# --- harm and measures -------------------------------------------------------------------------


def _tree(server: subprocess.Popen[bytes]) -> list[psutil.Process]:
    with suppress(psutil.Error):
        top = psutil.Process(server.pid)
        return [top, *top.children(recursive=True)]
    return []


def _workers(server: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The server's own children that are spawned workers."""
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(server.pid).children():
            with suppress(psutil.Error):
                if "spawn_main" in " ".join(process.cmdline()):
                    found.append(process)
    return found


def _harm(
    server: subprocess.Popen[bytes], args: argparse.Namespace, tally: Tally, end: threading.Event
) -> None:
    """Kill or stop a random worker from time to time."""
    order = random.Random(args.seed + 1)
    while args.harm_seconds and not end.wait(args.harm_seconds * (0.5 + order.random())):
        if workers := _workers(server):
            chosen = order.choice(workers)
            number = order.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
            with suppress(ProcessLookupError):
                os.kill(chosen.pid, number)
                tally.signals[number.name] += 1


def _megabytes(processes: list[psutil.Process]) -> float:
    """The memory that they have allocated."""
    total = 0
    for process in processes:
        with suppress(OSError, ValueError):
            for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1])
    return total / 1024


def _watch(
    server: subprocess.Popen[bytes],
    args: argparse.Namespace,
    tally: Tally,
    start: float,
    clients: Clients,
    pause: threading.Event,
) -> None:
    """Sample memory, and write interim results."""
    written = time.monotonic()
    until = start + 60 * args.minutes
    while (now := time.monotonic()) < until and server.poll() is None:
        time.sleep(min(SAMPLE_SECONDS, max(0.0, until - now)))
        whole = _when_whole(server, args.workers, clients, pause)
        if whole is not None:
            minute = round((time.monotonic() - start) / 60, 2)
            tally.memory.append((minute, round(whole, 1)))
            tally.server_memory.append((minute, round(_megabytes(_tree(server)[:1]), 1)))
        if time.monotonic() - written >= WRITE_SECONDS:
            written = time.monotonic()
            _write(args.out, report(tally, time.monotonic() - start, ended=False))
    if server.poll() is not None:
        tally.answered("server", "ended", expected=False, detail=f"exit code {server.poll()}")


def _when_whole(
    server: subprocess.Popen[bytes], workers: int, clients: Clients, pause: threading.Event
) -> float | None:
    """Memory when all workers have loaded the model, have worked, and are idle."""
    pause.set()
    try:
        for _ in range(30):
            time.sleep(1)
            before = _workers(server)
            if not _settled(before, workers):
                continue
            clients.crowd(4 * workers)
            if _workers(server) == before and _settled(before, workers):
                return _megabytes(_tree(server))
        return None
    finally:
        pause.clear()


def _settled(found: list[psutil.Process], workers: int) -> bool:
    """Whether all workers run, have loaded the model, and none is stopped."""
    with suppress(psutil.NoSuchProcess):
        ages = [time.time() - process.create_time() for process in found]
        stopped = any(process.status() == psutil.STATUS_STOPPED for process in found)
        return len(ages) == workers and min(ages) > 8 and not stopped
    return False


def _restarts(port: int) -> float | None:
    with suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/metrics")
        for line in connection.getresponse().read().decode().splitlines():
            if line.startswith("sightwords_lost_workers_total"):
                return float(line.split()[1])
    return None


def report(tally: Tally, seconds: float, *, ended: bool) -> dict[str, Any]:
    """All figures as JSON."""
    with tally.lock:
        growth = _growth(tally.memory)
        latencies = [round(seconds, 3) for seconds in sorted(tally.latencies)]
        return {
            "minutes": round(seconds / 60, 2),
            "ended": ended,
            "requests": sum(tally.statuses.values()),
            "statuses": dict(sorted(tally.statuses.items())),
            "unexpected": len(tally.unexpected),
            "unexpected_answers": tally.unexpected[:50],
            "signals": dict(tally.signals),
            "latency_seconds": {p: latencies[len(latencies) * p // 100] for p in (50, 90, 99)}
            if latencies
            else {},
            "memory_mb": {
                "growth_percent": growth,
                "samples": tally.memory,
                "server_process_growth_percent": _growth(tally.server_memory),
                "server_process_samples": tally.server_memory,
            },
            "good": not tally.unexpected and (growth is None or growth <= MOST_GROWTH),
        }


def _growth(samples: list[tuple[float, float]]) -> float | None:
    """In percent, along a straight line through all samples after the first ten minutes."""
    later = [(minute, mb) for minute, mb in samples if minute >= SETTLED_MINUTES]
    if len(later) < 3:
        return None
    minutes, megabytes = zip(*later, strict=True)
    line = statistics.linear_regression(minutes, megabytes)
    start = float(line.intercept + line.slope * minutes[0])
    growth: float = 100 * float(line.slope) * (minutes[-1] - minutes[0]) / start
    return round(growth, 2)


def _write(path: Path, found: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found, indent=1) + "\n")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
