"""Kills the server for judges at random moments, to see whether votes are lost or doubled.

    python benchmarks/study_kill.py study.db
    python benchmarks/study_kill.py postgresql://me@localhost/empty_database [--judgements 2000]

Scripted judges load their page, answer, and send every fifth answer twice. `sightwords study serve`
is killed again and again, at most --life seconds after its first answer, and started again. A judge
whose connection breaks sends the same answer again until it is acknowledged, like a person who
reloads. At the end, the votes in the database must be exactly the acknowledged ones, and no pair
may have more than five. The study is a simulated one.
"""

from __future__ import annotations

import argparse
import http.client
import io
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from urllib.parse import urlencode

import sqlalchemy as sa
from PIL import Image

from sightwords.study import judging, schema
from sightwords.study.model import Answer, Design, Judge, Pair, Photo
from sightwords.study.rehearsal import choice_for
from sightwords.study.store import Store, create_store, read_ballots

THREADS = 8
GIVE_UP_SECONDS = 600.0


class Server:
    """The server process, killed and started again."""

    def __init__(self, where: str, port: int) -> None:
        self.command = [sys.executable, "-m", "sightwords", "study", "serve"]
        self.command += [where, "--port", str(port)]
        self.port = port
        self.kills = 0
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start, and wait until it answers."""
        process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return process
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the server does not start")

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1


class Crowd:
    """Scripted judges, and the votes that the server acknowledged."""

    def __init__(self, store: Store, port: int, *, seed: int) -> None:
        self.store, self.port, self.random = store, port, random.Random(seed)
        self.acknowledged: dict[int, str] = {}
        """Showing -> the acknowledged choice."""
        self.broken = 0
        self.answers = 0
        self.errors: list[BaseException] = []

    def request(self, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        """One answer of the server; tries again while it is down."""
        end = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                if form is None:
                    connection.request("GET", path)
                else:
                    connection.request("POST", path, urlencode(form))
                reply = connection.getresponse()
                text = reply.read().decode()
                self.answers += 1
                return reply.status, text
            except (OSError, http.client.HTTPException):
                self.broken += 1
                time.sleep(0.2)
            finally:
                connection.close()
        raise RuntimeError("the server did not come back")

    def sit(self, judges: list[Judge]) -> None:
        """Judge with these judges, one after another; runs in a thread."""
        try:
            for judge in judges:
                while self.answer(f"/j/{judge.token}"):
                    pass
        except BaseException as error:
            self.errors.append(error)

    def answer(self, link: str) -> bool:
        """One pair; False at the end of a sitting."""
        _, page = self.request(link)
        found = re.search(r"name=showing value=(\d+)", page)
        if found is None:
            return False
        showing = int(found[1])
        if showing in self.acknowledged:
            raise RuntimeError(f"showing {showing} was acknowledged and is shown again: lost")
        with self.store.read() as connection:
            choice = choice_for(connection, showing, self.decide)
        form = {"showing": str(showing), "choice": choice}
        for _ in range(2 if self.random.random() < 0.2 else 1):
            status, _ = self.request(f"{link}/vote", form)
            if status != 303:
                raise RuntimeError(f"a vote got status {status}")
            self.acknowledged[showing] = choice
        return True

    def decide(self, pair: Pair) -> Answer:
        """A random answer, but the right one for check cases."""
        if pair.is_check:
            return "better"
        return self.random.choice(("better", "same", "worse"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("where", help="a path that does not exist, or the URL of an empty database")
    parser.add_argument("--judgements", type=int, default=2000)
    parser.add_argument("--life", type=float, default=2.0, help="longest life in seconds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    store, judges = make_study(options.where, options.judgements)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(options.where, port)
    crowd = Crowd(store, port, seed=options.seed)
    threads = [
        threading.Thread(target=crowd.sit, args=(judges[n::THREADS],)) for n in range(THREADS)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    lives = random.Random(options.seed + 1)
    while any(thread.is_alive() for thread in threads):
        before = crowd.answers
        while crowd.answers == before and any(thread.is_alive() for thread in threads):
            time.sleep(0.005)  # on a slow machine, wait until the server has answered
        time.sleep(lives.uniform(0, options.life))
        server.kill()
        server.process = server.start()
    server.kill()
    seconds = time.perf_counter() - start
    return report(store, crowd, server, seconds)


def make_study(where: str, judgements: int) -> tuple[Store, list[Judge]]:
    """A study with at least this many judgements, including four check cases per judge."""
    pairs = -(-judgements // 6)  # 5 votes, and 4 checks for every 20 votes
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), "teal").save(buffer, "JPEG")
    photos = [Photo(str(n), buffer.getvalue(), ()) for n in range(pairs + 8)]
    made = [Pair(str(n), f"caption {n}", f"other caption {n}") for n in range(pairs)]
    made += [Pair(str(pairs + n), "right", "wrong", is_check=True) for n in range(8)]
    design = Design("scripted", pairs=pairs, pairs_per_judge=min(20, pairs), origin="simulated")
    store = create_store(where, design, photos, made)
    with store.write() as connection:
        return store, judging.add_judges(connection, store.design.judges)


def report(store: Store, crowd: Crowd, server: Server, seconds: float) -> int:
    """Compare the database with the acknowledged votes; 0 if they are equal."""
    table = schema.showing
    with store.read() as connection:
        rows = connection.execute(sa.select(table).where(table.c.choice.is_not(None))).all()
        valid = Counter(ballot.pair for ballot in read_ballots(connection))
    stored = {row.id: row.choice for row in rows}
    lost = [n for n in crowd.acknowledged if stored.get(n) != crowd.acknowledged[n]]
    unasked = [n for n in stored if n not in crowd.acknowledged]
    twice = [key for key, n in Counter((r.judge_id, r.pair_id) for r in rows).items() if n > 1]
    over = [pair for pair, n in valid.items() if n > store.design.judges_per_pair]
    backend = store.engine.dialect.name
    print(
        f"{backend}: {len(crowd.acknowledged)} judgements acknowledged, {server.kills} SIGKILLs in "
        f"{seconds:.0f} s, {crowd.broken} requests broken; lost {len(lost)}, duplicated "
        f"{len(twice)}, never acknowledged {len(unasked)}, pairs with more than "
        f"{store.design.judges_per_pair} votes {len(over)}, pairs with all of them "
        f"{sum(n == store.design.judges_per_pair for n in valid.values())} of {store.design.pairs}"
    )
    for error in crowd.errors:
        print(f"error: {error!r}")
    store.close()
    return int(bool(lost or twice or unasked or over or crowd.errors))


if __name__ == "__main__":
    sys.exit(main())
