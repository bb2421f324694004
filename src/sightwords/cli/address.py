"""Where a server may listen: asked before a model is loaded, answered in one line."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from sightwords.errors import InputError


def check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise _refusal(host, port, error) from error
    tried = [_refused(family, address) for family, _, _, _, address in found]
    failed = [error for error in tried if error is not None]
    taken = [error for error in failed if error.errno == errno.EADDRINUSE]
    if taken or len(failed) == len(tried):  # of several addresses, those of IPv6 may be off
        raise _refusal(host, port, (taken or failed)[0])


def _refused(family: int, address: Any) -> OSError | None:
    """Try to listen, as the server will; what stands in the way."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            if os.name == "posix":  # a server that has just stopped is no hindrance
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tried.bind(address)
    except OSError as error:
        return error
    return None


def _refusal(host: str, port: int, error: OSError) -> InputError:
    taken = error.errno == errno.EADDRINUSE
    hint = "give another --port" if taken else "check --host and --port"
    return InputError(f"{host}:{port}: cannot be listened on ({error.strerror}); {hint}")
