"""Where a server may listen and what names it answers to: checked before a model is loaded."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import Any

from sightwords.errors import InputError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERY_NAME = "*"


def allowed_names(host: str, more: Sequence[str], *, token: bool) -> frozenset[str] | None:
    """The names that a server on `host` answers to; None for all.

    A web page can point a name of its own at any address (DNS rebinding), so a server that
    strangers may reach needs a token and the names that it answers to.

    >>> sorted(allowed_names("192.168.1.5", ["photos.lan"], token=True) or ())[:2]
    ['127.0.0.1', '192.168.1.5']
    """
    found = _resolved(host)
    if not token and not all(address.is_loopback for address in found):
        raise InputError(
            f"--host {host}: other machines could use this server without a token; set one: "
            f"SIGHTWORDS_TOKEN=secret sightwords serve --host {host} --allow-host NAME"
        )
    if EVERY_NAME in more:
        if not token:
            raise InputError(
                f"--allow-host '{EVERY_NAME}': any web page could use this server by a name of its "
                "own; set a token (SIGHTWORDS_TOKEN or --token-file), or give the names"
            )
        return None
    if not more and any(address.is_unspecified for address in found):
        raise InputError(
            f"--host {host}: listens on every address of this machine; give the name that clients "
            f"use: SIGHTWORDS_TOKEN=secret sightwords serve --host {host} --allow-host NAME"
        )
    return frozenset(name.lower() for name in (*LOOPBACK, host, *more))


def _resolved(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses that a name stands for; an empty one stands for all of the machine's."""
    try:
        found = socket.getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host}: no such address ({error}); check it") from error
    return [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]


def check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on."""
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
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
            if os.name == "posix":  # do not wait for a server that has just stopped
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
