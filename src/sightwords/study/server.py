"""The server for judges: one address per judge, `/j/TOKEN`.

    GET  /j/TOKEN               the current pair, or the end
    POST /j/TOKEN/vote          writes the vote to disk, then redirects to /j/TOKEN
    GET  /j/TOKEN/photo/NUMBER  the photo of a showing

No address gives results: those are only on the command line.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from urllib.parse import parse_qs

import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from sightwords.errors import StudyError
from sightwords.http_server import run_server
from sightwords.study import judging, pages, schema
from sightwords.study.store import Store, read_photo

log = logging.getLogger(__name__)

CONNECTIONS = 256
"""At a time, of all judges; each browser opens a few."""
MAX_FORM_BYTES = 4096
MAX_FORM_SECONDS = 20.0

HEADERS = {
    "Content-Security-Policy": pages.POLICY,
    "Referrer-Policy": "no-referrer",  # the address contains the key of the judge
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",  # the back button shows the current pair
}


def serve(store: Store, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve judges until stopped. Addresses contain keys, so requests are not logged."""
    run_server(make_app(store), host=host, port=port, connections=CONNECTIONS, grace_seconds=10)


def make_app(store: Store, *, clock: Callable[[], float] = time.time) -> Starlette:
    """The ASGI application over one open study."""

    def show(request: Request) -> Response:
        with store.write() as connection:
            judge = judging.find_judge(connection, request.path_params["token"])
            if judge is None:
                return _unknown_link()
            showing = judging.next_showing(connection, store.design, judge, now=clock())
            if showing is None:
                done = judging.answered(connection, judge.id) >= store.design.showings_per_judge
                return _html(pages.end_page(finished=done))
        return _html(pages.pair_page(showing, base=f"/j/{judge.token}"))

    def record(token: str, showing: str, choice: str) -> Response:
        if not _is_number(showing):
            return _refused("The server could not read your answer.")
        try:
            with store.write() as connection:
                judge = judging.find_judge(connection, token)
                if judge is None:
                    return _unknown_link()
                judging.record_vote(connection, judge, int(showing), choice, now=clock())
        except StudyError as error:
            log.warning("refused a vote: %s", error)
            return _refused("This answer is not for the pair that you were shown.")
        # After the commit: the judge gets the next pair only when the vote is on disk.
        return RedirectResponse(f"/j/{judge.token}", status_code=303, headers=HEADERS)

    async def vote(request: Request) -> Response:
        try:
            body = await asyncio.wait_for(_form(request), MAX_FORM_SECONDS)
        except asyncio.TimeoutError:
            return _refused("Your answer arrived too slowly.", status=408)
        if len(body) > MAX_FORM_BYTES:
            return _refused("Your answer is too long.", status=413)
        fields = parse_qs(body.decode("ascii", errors="replace"))
        showing, choice = (fields.get(name, [""])[0] for name in ("showing", "choice"))
        return await run_in_threadpool(record, request.path_params["token"], showing, choice)

    def photo(request: Request) -> Response:
        with store.read() as connection:
            jpeg = _photo_of(connection, **request.path_params)
        if jpeg is None:
            return _unknown_link()
        kept = {**HEADERS, "Cache-Control": "private, max-age=86400"}
        return Response(jpeg, media_type="image/jpeg", headers=kept)

    def start(request: Request) -> Response:
        return _html(pages.message_page("Caption study", "Please open your personal link."))

    def failed(request: Request, error: Exception) -> Response:
        log.error("cannot use the database: %s", error)
        text = "The study is not available. Please reload in a minute: no answer is lost."
        return _html(pages.message_page("Please wait", text), status=503)

    return Starlette(
        routes=[
            Route("/", start),
            Route("/j/{token}", show),
            Route("/j/{token}/vote", vote, methods=["POST"]),
            Route("/j/{token}/photo/{number}", photo),
        ],
        exception_handlers={sa.exc.SQLAlchemyError: failed, 404: _not_found},
    )


async def _form(request: Request) -> bytes:
    """The bytes of a form; stops reading beyond the limit."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            break
    return body


def _is_number(text: str) -> bool:
    """Whether a text is a number of a showing; Python refuses thousands of digits.

    >>> _is_number("12"), _is_number("-1"), _is_number("9" * 5000)
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) <= 9


def _photo_of(connection: sa.Connection, *, token: str, number: str) -> bytes | None:
    """The photo of a showing, only for the judge to whom it was shown."""
    judge = judging.find_judge(connection, token)
    if judge is None or not _is_number(number):
        return None
    table = schema.showing
    shown = judging.with_pairs(table.c.id == int(number), table.c.judge_id == judge.id)
    row = connection.execute(shown).one_or_none()
    return None if row is None else read_photo(connection, row.image)


def _html(text: str, *, status: int = 200) -> Response:
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def _unknown_link() -> Response:
    text = "Please check that you opened the complete link."
    return _html(pages.message_page("Unknown link", text), status=404)


def _not_found(request: Request, error: Exception) -> Response:
    return _unknown_link()


def _refused(text: str, *, status: int = 400) -> Response:
    text += " Please open your link again."
    return _html(pages.message_page("Something went wrong", text), status=status)
