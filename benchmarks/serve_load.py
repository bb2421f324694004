"""Many clients at once against `sightwords serve`, compared with the speed of `batch`.

    python benchmarks/serve_load.py --seconds 120 --clients 50 --workers 2 photos/*.jpg

Measures `batch` with the same number of processes, then the server, then `batch` again. Each client
asks for captions one after another; after a 503 it waits as told. Prints one JSON object: statuses,
latency, throughput, the ratio to `batch`, and the memory of the server with its workers over time.
Needs psutil.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import itertools
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from sightwords.batch.sources import Item
from sightwords.batch.workers import captioned
from sightwords.pipeline import load
from sightwords.samples import sample_paths
from sightwords.types import ImageRef


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", nargs="*", type=Path, help="(default: the samples)")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--bundle")
    args = parser.parse_args()
    bodies = [path.read_bytes() for path in args.photos or sample_paths()]
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average_before": os.getloadavg()[0],
        "workers": args.workers,
        "clients": args.clients,
        "photos": len(bodies),
    }
    before = library(bodies, args)
    report |= served(bodies, args)
    runs = {"before": before, "after": library(bodies, args)}
    for when, (speed, cost) in runs.items():
        report[f"library_images_per_second_{when}"] = speed
        report[f"library_cpu_seconds_per_image_{when}"] = cost
    speeds, costs = zip(*runs.values(), strict=True)
    report["share_of_library"] = round(report["images_per_second"] / (sum(speeds) / 2), 3)
    # On a busy machine, CPU time is a better measure than elapsed time.
    cost = report["cpu_seconds_per_image"]
    report["share_of_library_by_cpu"] = round(sum(costs) / 2 / cost, 3)
    report["load_average_after"] = os.getloadavg()[0]
    print(json.dumps(report, indent=1))


def fresh(body: bytes, number: int) -> bytes:
    """The same photo with other bytes, so that no worker remembers its scores."""
    return body + hashlib.sha256(str(number).encode()).digest()


def library(bodies: list[bytes], args: argparse.Namespace) -> tuple[float, float]:
    """Images per second and CPU seconds per image of `batch`, after its processes have started."""
    make = partial(load, args.bundle, threads=1)

    def items() -> Iterator[Item]:
        for number in itertools.count():
            yield Item(str(number), ImageRef("x", data=bodies[number % len(bodies)]))

    records = captioned(items(), make, workers=args.workers, n_best=5)
    for _ in range(2 * args.workers):
        next(records)
    me = psutil.Process()
    start, spent = time.monotonic(), _cpu_seconds(me)
    done = 0
    for _ in records:
        done += 1
        took, used = time.monotonic() - start, _cpu_seconds(me) - spent
        if took > max(10.0, args.seconds / 4):
            break  # while every process is still busy
    return round(done / took, 3), round(used / done, 3)


def served(bodies: list[bytes], args: argparse.Namespace) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "sightwords", "serve", "--port", str(port)]
    command += ["--workers", str(args.workers), "--set", f"batch={args.batch}"]
    command += ["--set", "max_seconds=120"]
    command += ["--bundle", args.bundle] if args.bundle else []
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _until_up(port, server)
        return crowd(port, bodies, args, psutil.Process(server.pid))
    finally:
        server.terminate()
        server.wait(30)


def crowd(
    port: int, bodies: list[bytes], args: argparse.Namespace, process: psutil.Process
) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    latencies: list[float] = []
    numbers = itertools.count()
    lock = threading.Lock()
    for number in range(2 * args.workers):  # warm up
        _ask(port, fresh(bodies[number % len(bodies)], -1 - number))
    memory = [_memory(process)]
    start, spent = time.monotonic(), _cpu_seconds(process)
    deadline = start + args.seconds

    def client() -> None:
        while time.monotonic() < deadline:
            number = next(numbers)
            began = time.monotonic()
            status, wait = _ask(port, fresh(bodies[number % len(bodies)], number))
            with lock:
                statuses[status] += 1
                if status == "200":
                    latencies.append(time.monotonic() - began)
            time.sleep(wait)

    threads = [threading.Thread(target=client) for _ in range(args.clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(args.seconds / 12)
        memory.append(_memory(process))
    took, used = time.monotonic() - start, _cpu_seconds(process) - spent
    latencies.sort()
    return {
        "seconds": round(took, 1),
        "statuses": dict(statuses),
        "images_per_second": round(len(latencies) / took, 3),
        "cpu_seconds_per_image": round(used / len(latencies), 3),
        **{f"p{p}_seconds": round(latencies[len(latencies) * p // 100], 2) for p in (50, 90, 99)},
        "memory_mb": memory,
    }


def _ask(port: int, body: bytes) -> tuple[str, float]:
    """The status, and the seconds to wait before the next request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
    try:
        connection.request("POST", "/v1/caption", body, {"content-type": "image/jpeg"})
        answer = connection.getresponse()
        answer.read()
        return str(answer.status), float(answer.getheader("retry-after") or 0)
    except OSError as error:
        return type(error).__name__, 0.5
    finally:
        connection.close()


def _memory(process: psutil.Process) -> float:
    """Resident memory of the server and its workers."""
    family = [process, *process.children(recursive=True)]
    return round(float(sum(one.memory_info().rss for one in family)) / 1e6, 1)


def _cpu_seconds(process: psutil.Process) -> float:
    """CPU time of the server and its workers so far."""
    family = [process, *process.children(recursive=True)]
    return float(sum(sum(one.cpu_times()[:2]) for one in family))


def _until_up(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main()
