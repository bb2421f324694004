"""Runs before every address: checks who asks, adds security headers, counts requests.

- Host: a server on loopback accepts only loopback names, so that another web site cannot reach it
  by pointing its own name at 127.0.0.1 (DNS rebinding).
- Origin: POST requests from pages of other origins are refused.
- HEAD: handled as GET; uvicorn leaves the body out.
- Bearer token, if set: needed for everything except the files of the page and `/healthz`.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightwords.web.error_responses import error_response
from sightwords.web.errors import INTERNAL, ApiError
from sightwords.web.metrics import Metrics

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
    """Host names that the server accepts; None: all."""
    paths: Collection[str] = field(default_factory=tuple)
    """Paths with a count of their own; all others are counted as `other`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on and add headers to the answer."""
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
            error = self._refusal(scope)
            app = self.app if error is None else error_response(error)
            await app(_head_as_get(scope), receive, answer)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status == 0:
                await error_response(INTERNAL)(scope, receive, answer)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            # A client that left before its answer is counted as 499, as in nginx.
            self.metrics.requests.labels(path, status or 499).inc()
            self.metrics.seconds.labels(path).observe(monotonic() - start)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and _name(f"//{host}") not in self.hosts:
            message = (
                f"this server does not accept the host name {host[:80]!r}; start it with "
                "--allow-host NAME to allow it"
            )
            return ApiError(403, "unknown_host", message)
        origin = headers.get("origin")
        if scope["method"] == "POST" and origin and _netloc(origin) != host:
            return ApiError(403, "other_origin", "pages of other origins cannot use this server")
        if self.token is not None and scope["path"].startswith(GUARDED):
            given = headers.get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                message = "this server needs a token; send Authorization: Bearer TOKEN"
                return ApiError(401, "no_token", message)
        return None


def _head_as_get(scope: Scope) -> Scope:
    """The request as the application sees it.

    >>> _head_as_get({"method": "HEAD"}), _head_as_get({"method": "POST"})
    ({'method': 'GET'}, {'method': 'POST'})
    """
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope


def _netloc(origin: str) -> str | None:
    """The host and port of an origin; None if it is not an origin.

    >>> _netloc("http://localhost:8000"), _netloc("http://[nonsense")
    ('localhost:8000', None)
    """
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(address: str) -> str:
    """The host name without its port, in lower case.

    >>> _name("//LocalHost:8000"), _name("//[::1]:80"), _name("//[nonsense")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
