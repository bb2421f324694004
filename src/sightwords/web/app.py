"""The addresses of `sightwords serve`.

    POST /v1/caption   photos -> captions, words, candidates
    POST /v1/words     photos -> detected words
    POST /v1/rank      photos, sentences -> how well each sentence fits
    POST /v1/explain   a photo -> a figure with one heat map per content word
    GET  /             the page (`page.py`)
    GET  /healthz, /metrics, /openapi.json

HEAD gets the same answer as GET, without the body (`guard.py`).
A request with one photo that cannot be read is answered 422. In a request with several photos, that
photo has `error` in its place and the others are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from time import monotonic
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import StringConstraints
from starlette.requests import ClientDisconnect

from sightwords._version import __version__
from sightwords.web import page, schema
from sightwords.web.engine import MAX_CANDIDATES, Job, Kind
from sightwords.web.error_responses import error_response, handle_errors
from sightwords.web.errors import NO_WORKER, TOO_LATE, ApiError, RequestRefusedError, invalid
from sightwords.web.limits import Limits
from sightwords.web.metrics import Metrics
from sightwords.web.photo_queue import Answer
from sightwords.web.request_body import Body, HeldBytes, read_body
from sightwords.web.workers import Pool

Word = Annotated[str, StringConstraints(min_length=1, max_length=40)]
Require = Annotated[
    list[Word],
    Query(max_length=20, description="Words that the caption must contain; repeatable"),
]
Forbid = Annotated[
    list[Word],
    Query(max_length=50, description="Words that the caption must not contain; repeatable"),
]
Precision = Annotated[float | None, Query(ge=0, le=1, description="Minimum word precision")]
Length = Annotated[int, Query(ge=0, le=MAX_CANDIDATES, description="Number of candidates to list")]

Answered = tuple[Sequence[Job], Sequence[Answer]]

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.ErrorAnswer, "description": text}
    for status, text in {
        400: "The body does not match its Content-Type",
        401: "The server needs a token",
        403: "Unknown host name, or another origin",
        404: "This server's model cannot do that",
        408: "The body arrived too slowly",
        409: "Options that contradict each other, or a word that the model does not know",
        413: "The body is too large",
        415: "Unsupported Content-Type",
        422: "Not an image, too many pixels, or a value out of range",
        500: "Internal server error",
        503: "The server is busy; `Retry-After` says when to try again",
        504: "The answer took too long",
    }.items()
}


def make_app(pool: Pool, limits: Limits, metrics: Metrics, *, wants_token: bool = False) -> FastAPI:
    """The application, without the guard around it."""
    held = HeldBytes(limits.held_bytes)
    metrics.watch(waiting=lambda: len(pool.waiting), held=lambda: held.now, workers=pool.ready)
    app = FastAPI(
        title="sightwords",
        version=__version__,
        description="Captions you can check: every word has a probability, a precision and a "
        "place in the photo.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )

    async def ask(request: Request, kind: Kind, **options: Any) -> Answered:
        deadline = monotonic() + limits.seconds
        _refuse_unknown_parameters(request)
        with held.hold() as hold:
            body = await read_body(request, limits, hold)
            _check_body(kind, body)
            jobs = [
                Job(kind=kind, name=p.name, data=p.data, sentences=body.sentences, **options)
                for p in body.photos
            ]
            return jobs, await _answers(request, pool, jobs, deadline)

    def takes(body: dict[str, Any], answer: type[Any]) -> dict[str, Any]:
        return {"openapi_extra": body, "responses": {200: {"model": answer}, **ERRORS}}

    photos = schema.image_body(limits.images)

    @app.post("/v1/caption", **takes(photos, schema.CaptionAnswer))
    async def caption(  # noqa: PLR0917 - FastAPI passes them by name
        request: Request,
        require: Require = [],  # noqa: B006 - FastAPI copies it
        forbid: Forbid = [],  # noqa: B006
        min_precision: Precision = None,
        n_best: Length = 5,
        detail: Annotated[bool, Query(description="Add what the page draws")] = False,
    ) -> Response:
        """A caption for each photo."""
        options = {"require": tuple(require), "forbid": tuple(forbid), "n_best": n_best}
        found = await ask(request, "caption", min_precision=min_precision, detail=detail, **options)
        return _listed(*found)

    @app.post("/v1/words", **takes(photos, schema.WordsAnswer))
    async def words(request: Request, min_precision: Precision = None) -> Response:
        """The detected words of each photo, each with its precision and box."""
        return _listed(*await ask(request, "words", min_precision=min_precision))

    @app.post(
        "/v1/rank",
        **takes(schema.image_body(limits.images, sentences=limits.sentences), schema.RankAnswer),
    )
    async def rank(request: Request) -> Response:
        """How well each sentence fits each photo, best first."""
        return _listed(*await ask(request, "rank"))

    @app.post(
        "/v1/explain",
        openapi_extra=schema.image_body(limits.images, several=False),
        responses={200: {"content": {"image/png": {}}}, **ERRORS},
        response_class=Response,
    )
    async def explain(
        request: Request,
        require: Require = [],  # noqa: B006
        forbid: Forbid = [],  # noqa: B006
        min_precision: Precision = None,
    ) -> Response:
        """The photo with its caption and one heat map per content word, as PNG."""
        options = {"require": tuple(require), "forbid": tuple(forbid)}
        _, [answer] = await ask(request, "explain", min_precision=min_precision, **options)
        if isinstance(answer, bytes):
            return Response(answer, media_type="image/png")
        assert isinstance(answer, ApiError)
        return error_response(answer)

    @app.get("/healthz", responses={200: {"model": schema.Health}, 503: ERRORS[503]})
    async def healthz() -> Response:
        """Whether the server can make a caption: the model is loaded and a worker is ready."""
        ready = pool.ready()
        if not ready:
            return error_response(NO_WORKER)
        about = {"version": __version__, "fingerprint": pool.about["fingerprint"]}
        return JSONResponse({"status": "ok", "workers": ready, **about})

    @app.get(
        "/metrics",
        responses={200: {"content": {"text/plain": {}}}, 401: ERRORS[401]},
        response_class=Response,
    )
    async def read_metrics() -> Response:
        """For Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    page.add_page(app, pool.about, limits, wants_token=wants_token)
    handle_errors(app)
    return app


def _refuse_unknown_parameters(request: Request) -> None:
    """A misspelt parameter (min-precision) would do nothing, and nobody would notice."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            takes = f"takes {', '.join(known)}" if known else "takes no parameters"
            raise invalid(f"unknown parameter {name[:40]!r}{hint} (this address {takes})")


def _check_body(kind: Kind, body: Body) -> None:
    """Whether the body has what this kind of request needs, and nothing else."""
    if kind == "rank" and not body.sentences:
        raise invalid("the form has no field 'sentence'; add one (curl -F 'sentence=a dog')")
    if kind != "rank" and body.sentences:
        raise invalid("the form has a field 'sentence'; only /v1/rank takes it")
    if kind == "explain" and len(body.photos) > 1:
        raise invalid(f"the form has {len(body.photos)} photos; a figure shows one")


async def _answers(
    request: Request, pool: Pool, jobs: Sequence[Job], deadline: float
) -> list[Answer]:
    """Wait for the workers until the client goes away or the time limit ends."""
    tickets = pool.enter(jobs, deadline=deadline)
    waited: list[asyncio.Future[Answer]] = [asyncio.wrap_future(t.answer) for t in tickets]
    seconds = max(0.0, deadline - monotonic())
    answers = asyncio.gather(*waited)
    gone = asyncio.ensure_future(_until_gone(request))
    answers.add_done_callback(_noticed)
    try:
        both: set[asyncio.Future[Any]] = {answers, gone}
        done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answers in done:
            return answers.result()
        if gone in done:
            raise ClientDisconnect
        late = (ticket.late() for ticket in tickets if not ticket.answer.done())
        raise RequestRefusedError(next(late, TOO_LATE))
    finally:
        gone.cancel()
        answers.cancel()  # photos that no worker has taken yet are skipped


def _noticed(answers: asyncio.Future[list[Answer]]) -> None:
    """Cancelled answers have no reader; without this, asyncio would log each as an error."""
    if not answers.cancelled():
        answers.exception()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _listed(jobs: Sequence[Job], answers: Sequence[Answer]) -> Response:
    """All answers; if every photo failed, the first error."""
    errors = [answer for answer in answers if isinstance(answer, ApiError)]
    if len(errors) == len(answers):
        return error_response(errors[0])
    images = [
        {"name": job.name, **answer.document()} if isinstance(answer, ApiError) else answer
        for job, answer in zip(jobs, answers, strict=True)
    ]
    return JSONResponse({"images": images})
