"""`sightwords serve`: what it refuses, and a whole server from start to end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from sightwords.cli.address import allowed_names
from sightwords.cli.main import main
from sightwords.cli.serve import TOKEN_VARIABLE, _token
from sightwords.errors import InputError
from sightwords.samples import sample_paths


@pytest.mark.parametrize(
    "options", [["--workers", "0"], ["--port", "0"], ["--port", "70000"], ["--queue", "9"]]
)
def test_options_that_make_no_sense(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *options])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "setting", ["queue=0", "max_megabytes=0", "max_seconds=-1", "max_memory=8"]
)
def test_limits_are_refused_by_their_own_names(
    setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--set", setting])
    assert ended.value.code == 2
    name, _, value = setting.partition("=")
    assert f"{name} is {value}" in capsys.readouterr().err


def test_a_bundle_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--workers", "1", "--port", str(_free_port())]
    assert main(["serve", *options, "--bundle", str(tmp_path / "none")]) == 1
    err = capsys.readouterr().err
    assert "none" in err
    assert "Traceback" not in err


def test_where_the_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert _token(None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    assert _token(None) == "from-environment"
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert _token(file) == "from-file"
    for wrong in ("", "\n", "two words", "schlüssel", "one\ntwo\n", " a", "a\n\n", "a\x00"):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError, match="token"):
            _token(file)
    with pytest.raises(InputError, match="cannot be read"):
        _token(tmp_path / "absent")
    for wrong in ("secret\n", "secret ", " secret", "se cret", "schlüssel"):
        monkeypatch.setenv(TOKEN_VARIABLE, wrong)
        with pytest.raises(InputError, match=rf"\${TOKEN_VARIABLE}: .*token"):
            _token(None)


def test_names_that_a_server_answers_to() -> None:
    for host in ("127.0.0.1", "127.0.0.5", "localhost"):
        names = allowed_names(host, ["Photos.lan"], token=False)
        assert names == frozenset(("localhost", "127.0.0.1", "::1", host, "photos.lan"))
    assert "192.0.2.7" in (allowed_names("192.0.2.7", [], token=True) or ())
    named = allowed_names("0.0.0.0", ["photos.lan"], token=True)
    assert named is not None
    assert "photos.lan" in named
    assert allowed_names("0.0.0.0", ["*"], token=True) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "", "192.0.2.7"])
def test_beyond_this_machine_only_with_a_token(host: str) -> None:
    with pytest.raises(InputError, match="without a token; set one: SIGHTWORDS_TOKEN=secret"):
        allowed_names(host, ["photos.lan"], token=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "0", ""])
def test_on_every_address_only_with_names(host: str) -> None:
    with pytest.raises(InputError, match="--allow-host NAME"):
        allowed_names(host, [], token=True)


def test_every_name_only_with_a_token() -> None:
    with pytest.raises(InputError, match="any web page"):
        allowed_names("127.0.0.1", ["*"], token=False)


def test_a_refused_address_is_told_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main(["serve", "--host", "0.0.0.0", "--allow-host", "photos.lan"]) == 1
    said = capsys.readouterr().err
    assert "without a token" in said
    assert "loading" not in said


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_an_address_that_cannot_be_listened_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"error: 127.0.0.1:{port}: cannot be listened on" in said
    assert "give another --port" in said
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    assert main(["serve", "--host", "192.0.2.1"]) == 1  # an address that nobody has
    assert "check --host and --port" in capsys.readouterr().err


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in path.read_text().split()] if path.exists() else []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _heed_hangup(handler: Any = signal.SIG_DFL) -> Any:
    return signal.signal(signal.SIGHUP, handler) if hasattr(signal, "SIGHUP") else None


def _started(bundle: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    """A server that takes requests, and its port."""
    port = _free_port()
    command = [sys.executable, "-m", "sightwords", "serve", "--port", str(port), "--workers", "1"]
    before = _heed_hangup()  # or a server that is tested under nohup would not
    try:
        server = subprocess.Popen(
            [*command, "--bundle", str(bundle), *options], stderr=subprocess.PIPE, text=True
        )
    finally:
        _heed_hangup(before)
    deadline = time.monotonic() + 120
    while True:
        assert server.poll() is None, server.stderr and server.stderr.read()
        assert time.monotonic() < deadline
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return server, port
        except OSError:
            time.sleep(0.1)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_what_was_taken_is_answered_before_the_end(tiny_bundle: Path, name: str) -> None:
    server, port = _started(tiny_bundle)
    try:
        body = sample_paths()[1].read_bytes()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest("POST", "/v1/caption")
        connection.putheader("Content-Type", "image/jpeg")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:1000])
        time.sleep(0.5)
        for pid in (*_children(server.pid), server.pid):  # as a terminal, or systemd, does
            os.kill(pid, getattr(signal, name))
        time.sleep(0.5)
        connection.send(body[1000:])
        assert connection.getresponse().status == 200
        connection.close()
        assert server.wait(60) == 0
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()
    finally:
        server.kill()
        server.wait(10)


def test_a_whole_server(tiny_bundle: Path) -> None:
    server, port = _started(tiny_bundle)
    workers: list[int] = []
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = sample_paths()[1].read_bytes()
        connection.request("POST", "/v1/caption", body, {"content-type": "image/jpeg"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert json.loads(answer.read())["images"][0]["caption"]
        assert answer.getheader("server") is None
        connection.close()
        workers = _children(server.pid)
        server.send_signal(signal.SIGINT)
        assert server.wait(60) in (0, 130)
        assert server.stderr is not None
        said = server.stderr.read()
        assert "Traceback" not in said
        assert said.count(f"serving at http://127.0.0.1:{port}; stop with Ctrl-C") == 1
    finally:
        server.kill()
        server.wait(10)
    deadline = time.monotonic() + 30
    while any(_alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker has outlived its server"
        time.sleep(0.1)
