"""A small helper process that opens strangers' files, so that they cannot hurt this process.

    answer, data = run_apart("package.module:function", {"any": "JSON"}, b"bytes")

The function runs in another process, `function(arguments, payload) -> (answer, data)`. That process
has a memory limit, and is killed when its time is up. A decoder that hangs, crashes, prints
megabytes of warnings or unpacks a small file to gigabytes costs one `SandboxError` here.

Helper processes are started when they are needed, kept for the next call, and end with this
process. They are plain subprocesses: `multiprocessing` would run the user's own script again.
Answers are JSON and bytes, never pickles: a helper that a hostile file took over cannot run code
here. The operating system enforces the memory limit on Linux; elsewhere only the time limit holds.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import spawn
from pathlib import Path
from typing import IO, Any

from sightwords import errors
from sightwords.errors import SandboxError, SightwordsError
from sightwords.parallel import ONE_THREAD, how_it_ended, leave_to_parent

Arguments = dict[str, Any]
Answer = tuple[Arguments, bytes | bytearray]

START_SECONDS = 60.0
"""A busy machine may take long to start a helper; it does not count as a photo's time."""
OWN_BYTES = 48 << 20
"""Memory of a helper that has done nothing yet."""
LARGEST_ANSWER = 256 << 20
LONGEST_MESSAGE = 2000
MOST_IDLE = 8
CALLS = 1000
"""A helper is replaced after this many calls, so that leaks of decoders stay small."""

_SIZES = struct.Struct("<II")
_OUR_ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SightwordsError)
}
_ENVIRONMENT = {**ONE_THREAD, "MALLOC_ARENA_MAX": "1"}
_BEGIN = (
    "import sys; sys.path[:] = {paths!r}\n"
    "from sightwords.sandbox import main; main({module!r}, {memory_bytes})"
)


def run_apart(
    function: str,
    arguments: Mapping[str, Any],
    payload: bytes = b"",
    *,
    seconds: float,
    memory_bytes: int,
) -> Answer:
    """Call `function` in a helper process.

    Raises `SandboxError` where a limit was reached or the helper crashed; errors of ours that the
    function raised come back as what they are.

    >>> run_apart("sightwords.sandbox:echo", {"a": 1}, b"x", seconds=30, memory_bytes=1 << 27)
    ({'a': 1}, bytearray(b'x'))
    """
    request = json.dumps({"function": function, "arguments": arguments, "seconds": seconds})
    module = function.partition(":")[0]
    try:
        header, data = _asked(module, memory_bytes, request, payload, seconds)
    except SandboxError as error:
        if error.reason != "crash":
            raise
        # It may have been killed from outside; what crashes a second helper is the file's fault.
        header, data = _asked(module, memory_bytes, request, payload, seconds)
    if "answer" in header:
        return header["answer"], data
    message = str(header.get("message"))[:LONGEST_MESSAGE]
    kind = _OUR_ERRORS.get(str(header.get("error")))
    if kind is not None and kind is not SandboxError:
        raise kind(message)
    raise SandboxError("failed", message)


def _asked(
    module: str, memory_bytes: int, request: str, payload: bytes, seconds: float
) -> tuple[dict[str, Any], bytearray]:
    with _borrowed(module, memory_bytes) as helper:
        header, data = helper.ask(request.encode("ascii"), payload, seconds)
        if header.get("error") == "MemoryError":
            helper.stop()  # the rest of this attempt would still hold memory in the next
            raise SandboxError("memory", f"it needs more than {memory_bytes >> 20} MB of memory")
        return header, data


def prepare(module: str, memory_bytes: int) -> None:
    """Start a helper for the functions of a module now, so that the first call does not wait."""
    with contextlib.suppress(SandboxError), _borrowed(module, memory_bytes):
        pass


class _Helper:
    """One helper process."""

    def __init__(self, module: str, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.calls = 0
        self.alive = True
        self._ready = False
        own = str(Path(__file__).parents[1])
        # Not the current folder, which may be a stranger's and hold a numpy.py.
        paths = [own, *(path for path in sys.path if path and path != own)]
        code = _BEGIN.format(paths=paths, module=module, memory_bytes=memory_bytes)
        try:
            self._process = subprocess.Popen(
                [_interpreter(), "-I", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_ENVIRONMENT},
            )
        except (OSError, ValueError) as error:
            self.alive = False
            raise SandboxError(
                "start", f"no helper process can be started ({error}); free memory or processes"
            ) from error

    def ask(
        self, request: bytes, payload: bytes, seconds: float
    ) -> tuple[dict[str, Any], bytearray]:
        """Send a request and wait for its answer, each within its time."""
        if not self._ready:
            try:
                self._within(START_SECONDS, lambda stdin, stdout: _read(stdout))
            except SandboxError as error:
                raise SandboxError(
                    "start",
                    f"no helper process can be started ({error}); if {_interpreter()} is "
                    "not a Python interpreter, name one with multiprocessing.set_executable",
                ) from error
            self._ready = True

        def exchange(stdin: IO[bytes], stdout: IO[bytes]) -> tuple[bytearray, bytearray]:
            _write(stdin, request, payload)
            return _read(stdout)

        self.calls += 1
        header, data = self._within(seconds, exchange)
        try:
            found = json.loads(header)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.stop()  # a hostile file has taken it over
            raise SandboxError("crash", "the helper process gave an answer that cannot be read")
        return found, data

    def _within(
        self,
        seconds: float,
        talk: Callable[[IO[bytes], IO[bytes]], tuple[bytearray, bytearray]],
    ) -> tuple[bytearray, bytearray]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()  # which ends the read or write that waits for it

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            return talk(self._process.stdin, self._process.stdout)
        except (OSError, EOFError, ValueError) as error:
            self.stop()
            if late.is_set():
                message = f"it took longer than {round(seconds, 1) or round(seconds, 4):g} seconds"
                raise SandboxError("seconds", message) from error
            ended = how_it_ended(self._process.returncode)
            raise SandboxError("crash", f"the helper process {ended}") from error
        except BaseException:  # Ctrl-C: a late answer would be taken for the next one
            self.stop()
            raise
        finally:
            timer.cancel()

    def stop(self) -> None:
        """Kill it; it holds nothing that could be lost."""
        self.alive = False
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()


def _interpreter() -> str:
    return os.fsdecode(spawn.get_executable() or sys.executable or "python3")


_idle: list[_Helper] = []
_lock = threading.Lock()


@contextmanager
def _borrowed(module: str, memory_bytes: int) -> Iterator[_Helper]:
    """A helper for one caller; a new one if none is idle."""
    helper = _taken(memory_bytes) or _Helper(module, memory_bytes)
    try:
        yield helper
    finally:
        with _lock:
            kept = helper.alive and len(_idle) < MOST_IDLE and helper.calls < CALLS
            if kept:
                _idle.append(helper)
        if helper.alive and not kept:
            helper.stop()


def _taken(memory_bytes: int) -> _Helper | None:
    with _lock:
        for number in reversed(range(len(_idle))):
            if _idle[number].memory_bytes == memory_bytes:
                return _idle.pop(number)
    return None


@atexit.register
def stop_helpers() -> None:
    """End all idle helpers."""
    with _lock:
        helpers, _idle[:] = list(_idle), []
    for helper in helpers:
        helper.stop()


def _forget() -> None:
    """In a forked process: the helpers belong to the parent, and so do their pipes."""
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    for helper in _idle:
        helper._process.returncode = 0  # or Python would wait for its end and warn
    _idle.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)


def _write(stream: IO[bytes], header: bytes, data: bytes | bytearray | memoryview) -> None:
    stream.write(_SIZES.pack(len(header), len(data)))
    stream.write(header)
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> tuple[bytearray, bytearray]:
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        raise EOFError
    header, data = _SIZES.unpack(sizes)
    if header > LARGEST_ANSWER or data > LARGEST_ANSWER:
        raise ValueError(f"a message of {header} and {data} bytes")
    return _filled(stream, header), _filled(stream, data)


def _filled(stream: IO[bytes], size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        view = view[count:]
    return buffer


def main(module: str, memory_bytes: int) -> None:
    """The life of a helper process: it ends when the pipe from the process that began it does."""
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    leave_to_parent("SIGINT", "SIGTERM", "SIGHUP")
    importlib.import_module(module)  # before the clock of a call begins
    # What libraries print must not mix with answers, and must not fill anybody's log.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    _limit_memory(memory_bytes + OWN_BYTES)
    _write(stdout, b"{}", b"")
    with contextlib.suppress(EOFError, OSError):
        while True:
            request, payload = _read(stdin)
            header, data = _answer(json.loads(request), payload)
            del request, payload
            _write(stdout, json.dumps(header).encode("ascii"), data)
            del data


def _answer(request: Mapping[str, Any], payload: bytearray) -> Answer:
    module, _, name = request["function"].partition(":")
    _end_after(request["seconds"])
    try:
        function = getattr(importlib.import_module(module), name)
        answer, data = function(request["arguments"], payload)
        return {"answer": answer}, data
    except MemoryError:
        return {"error": "MemoryError"}, b""
    except SightwordsError as error:
        return {"error": type(error).__name__, "message": str(error)}, b""
    except Exception as error:
        return {"error": "", "message": f"{type(error).__name__}: {error}"}, b""
    finally:
        _end_after(None)


def _end_after(seconds: float | None) -> None:
    """Let the system end this process if nobody else does: the parent may be gone by then."""
    if hasattr(signal, "alarm"):
        signal.alarm(0 if seconds is None else int(seconds) + 2)


def _limit_memory(count: int) -> None:
    if sys.platform != "linux":  # only Linux counts all that a process allocates under DATA
        return
    import resource

    with contextlib.suppress(ValueError, OSError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_DATA, (count, count))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def echo(arguments: Arguments, payload: bytes) -> Answer:
    """Returns what it was given; for tests."""
    return arguments, payload
