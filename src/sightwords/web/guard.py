"""Around every address: who may ask, what every answer carries, what is counted.

- Host: a server on loopback answers only to names of loopback, so that a web page elsewhere cannot
  reach it by pointing a name of its own at 127.0.0.1 (DNS rebinding).
- Origin: a POST that a page of another origin sends is refused.
- HEAD: the answer of GET; the server that speaks HTTP leaves the body out.
- Bearer token, where one is set: for everything but the page's own files and `/healthz`.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightwords.web.metrics import Metrics
from sightwords.web.problems import BROKEN, Problem

log = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
GUARDED = ("/v1/", "/metrics", "/openapi.json")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass
class Guard:
    """An ASGI application around another."""

    app: ASGIApp
    metrics: Metrics
    token: str | None = None
    hosts: Collection[str] | None = LOOPBACK
    """Names this server answers to; None: to all."""
    paths: Collection[str] = field(default_factory=tuple)
    """Counted by name; all others are counted as `other`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on and add what every answer carries."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = monotonic(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            problem = self._refusal(scope)
            if problem is not None:
                await send_problem(problem, answer)
            else:
                await self.app(_asked(scope), receive, answer)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status == 0:
                await send_problem(BROKEN, answer)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            # A client that went away before its answer is counted as 499, as proxies do.
            self.metrics.requests.labels(path, status or 499).inc()
            self.metrics.seconds.labels(path).observe(monotonic() - start)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and _name(f"//{host}") not in self.hosts:
            return Problem(
                403,
                "unknown_host",
                f"this server does not answer to the name {host[:80]!r}; start it with "
                "--allow-host NAME if it should",
            )
        origin = headers.get("origin")
        if scope["method"] == "POST" and origin and _netloc(origin) != host:
            return Problem(403, "other_origin", "pages of other origins may not use this server")
        if self.token is not None and scope["path"].startswith(GUARDED):
            given = headers.get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                return Problem(
                    401, "no_token", "send the server's token: Authorization: Bearer TOKEN"
                )
        return None


def _asked(scope: Scope) -> Scope:
    """What the application sees of a request.

    >>> _asked({"method": "HEAD"}), _asked({"method": "POST"})
    ({'method': 'GET'}, {'method': 'POST'})
    """
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope


async def send_problem(problem: Problem, send: Send) -> None:
    """An answer without the framework's help."""
    body = json.dumps(problem.document()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _netloc(origin: str) -> str | None:
    """The host of an origin with its port; None for what is no origin.

    >>> _netloc("http://localhost:8000"), _netloc("http://[nonsense")
    ('localhost:8000', None)
    """
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(address: str) -> str:
    """The host's name without its port, in lower case.

    >>> _name("//LocalHost:8000"), _name("//[::1]:80"), _name("//[nonsense")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
