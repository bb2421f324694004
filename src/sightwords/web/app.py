"""The addresses of `sightwords serve`.

    POST /v1/caption   photographs -> captions, words, n-best lists
    POST /v1/words     photographs -> detected words
    POST /v1/rank      photographs, sentences -> which sentence fits
    POST /v1/explain   a photograph -> a figure with a heat map for each content word
    GET  /             the page (`page.py`)
    GET  /healthz, /metrics, /openapi.json

HEAD is answered as GET is, without the body (`guard.py`).
A request with one photograph that cannot be read is answered 422; in a request with several, the
others are answered and that one has `error` in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import StringConstraints
from starlette.requests import ClientDisconnect

from sightwords._version import __version__
from sightwords.web import page, schema
from sightwords.web.bodies import Body, Held, read_body
from sightwords.web.engine import MOST_SENTENCES, Job
from sightwords.web.limits import Limits
from sightwords.web.metrics import Metrics
from sightwords.web.problems import NO_WORKER, TOO_LATE, Problem, Refused
from sightwords.web.refusals import handle_errors, problem_response
from sightwords.web.waiting import Answer
from sightwords.web.workers import Pool

Word = Annotated[str, StringConstraints(min_length=1, max_length=40)]
Require = Annotated[
    list[Word],
    Query(max_length=20, description="Words that the caption must use; repeatable"),
]
Forbid = Annotated[
    list[Word],
    Query(max_length=50, description="Words that it must not use; repeatable"),
]
Precision = Annotated[
    float | None, Query(ge=0, le=1, description="The least precision of the words to build on")
]
Length = Annotated[
    int, Query(ge=0, le=MOST_SENTENCES, description="How many of the best sentences to list")
]

Answered = tuple[Sequence[Job], Sequence[Answer]]

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.ErrorAnswer, "description": text}
    for status, text in {
        400: "The body is not what its Content-Type says",
        401: "The server wants a token",
        403: "Another host's name, or another origin",
        404: "This server's model cannot do that",
        408: "The body came too slowly",
        409: "Wishes that contradict each other, or a word that this model does not know",
        413: "The body is too large",
        415: "The body is of another kind",
        422: "Not an image, too many pixels, or a value out of bounds",
        500: "A fault of the server",
        503: "Too much to do; `Retry-After` says when to try again",
        504: "It took too long",
    }.items()
}


def make_app(pool: Pool, limits: Limits, metrics: Metrics, *, wants_token: bool = False) -> FastAPI:
    """The application, without the guard around it."""
    held = Held(limits.held_bytes)
    metrics.watch(waiting=lambda: len(pool.waiting), held=lambda: held.now, workers=pool.ready)
    app = FastAPI(
        title="sightwords",
        version=__version__,
        description="Captions you can check: every word has a probability, a precision and a "
        "place in the image.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )

    async def ask(request: Request, make: Callable[[Body], list[Job]]) -> Answered:
        deadline = monotonic() + limits.seconds
        _refuse_unknown_wishes(request)
        with held.hold() as hold:
            jobs = make(await read_body(request, limits, hold))
            return jobs, await _answers(request, pool, jobs, deadline)

    def takes(body: dict[str, Any], answer: type[Any]) -> dict[str, Any]:
        return {"openapi_extra": body, "responses": {200: {"model": answer}, **ERRORS}}

    photographs = schema.image_body(limits.images)

    @app.post("/v1/caption", **takes(photographs, schema.CaptionAnswer))
    async def caption(  # noqa: PLR0917 - FastAPI passes them by name
        request: Request,
        require: Require = [],  # noqa: B006 - FastAPI copies it
        forbid: Forbid = [],  # noqa: B006
        min_precision: Precision = None,
        n_best: Length = 5,
        detail: Annotated[bool, Query(description="Add what the page draws")] = False,
    ) -> Response:
        """A caption for each photograph."""

        def jobs(body: Body) -> list[Job]:
            return [
                Job(
                    kind="caption",
                    name=photograph.name,
                    data=photograph.data,
                    require=tuple(require),
                    forbid=tuple(forbid),
                    min_precision=min_precision,
                    n_best=n_best,
                    detail=detail,
                )
                for photograph in _without_sentences(body).photographs
            ]

        return _listed(*await ask(request, jobs))

    @app.post("/v1/words", **takes(photographs, schema.WordsAnswer))
    async def words(request: Request, min_precision: Precision = None) -> Response:
        """The words that the detector stands for, each with its precision and place."""

        def jobs(body: Body) -> list[Job]:
            return [
                Job(kind="words", name=p.name, data=p.data, min_precision=min_precision)
                for p in _without_sentences(body).photographs
            ]

        return _listed(*await ask(request, jobs))

    @app.post(
        "/v1/rank",
        **takes(schema.image_body(limits.images, sentences=limits.sentences), schema.RankAnswer),
    )
    async def rank(
        request: Request,
    ) -> Response:
        """Which of the sentences fits each photograph best?"""

        def jobs(body: Body) -> list[Job]:
            if not body.sentences:
                message = "there is no sentence; add texts 'sentence' (curl -F 'sentence=a dog')"
                raise Refused(Problem(422, "invalid", message))
            return [
                Job(kind="rank", name=p.name, data=p.data, sentences=body.sentences)
                for p in body.photographs
            ]

        return _listed(*await ask(request, jobs))

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
        """The photograph with its caption and a heat map for each content word, as PNG."""

        def jobs(body: Body) -> list[Job]:
            if len(_without_sentences(body).photographs) > 1:
                raise Refused(Problem(422, "invalid", "one figure shows one photograph; send one"))
            photograph = body.photographs[0]
            return [
                Job(
                    kind="explain",
                    name=photograph.name,
                    data=photograph.data,
                    require=tuple(require),
                    forbid=tuple(forbid),
                    min_precision=min_precision,
                )
            ]

        _, answers = await ask(request, jobs)
        if isinstance(answers[0], bytes):
            return Response(answers[0], media_type="image/png")
        assert isinstance(answers[0], Problem)
        return problem_response(answers[0])

    @app.get("/healthz", responses={200: {"model": schema.Health}, 503: ERRORS[503]})
    async def healthz() -> Response:
        """Whether a caption can be made: the model is loaded, and a worker runs."""
        ready = pool.ready()
        if not ready:
            return problem_response(NO_WORKER)
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


def _refuse_unknown_wishes(request: Request) -> None:
    """A wish with a slip in its name (min-precision) would do nothing, and nobody would know."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            message = f"{name[:40]!r} is no wish; this address takes {', '.join(known) or 'none'}"
            raise Refused(Problem(422, "invalid", message))


async def _answers(
    request: Request, pool: Pool, jobs: Sequence[Job], deadline: float
) -> list[Answer]:
    """Wait for the workers, as long as the client does and the time limit allows."""
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
        raise Refused(next((t.late() for t in tickets if not t.answer.done()), TOO_LATE))
    finally:
        gone.cancel()
        answers.cancel()  # what has not begun will not begin


def _noticed(answers: asyncio.Future[list[Answer]]) -> None:
    """Nobody waits for cancelled answers any more; asyncio would log each as an error."""
    if not answers.cancelled():
        answers.exception()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _without_sentences(body: Body) -> Body:
    if body.sentences:
        raise Refused(
            Problem(422, "invalid", "the form has a text 'sentence'; only /v1/rank takes those")
        )
    return body


def _listed(jobs: Sequence[Job], answers: Sequence[Answer]) -> Response:
    """All answers; the problem itself where there is nothing but problems."""
    problems = [answer for answer in answers if isinstance(answer, Problem)]
    if len(problems) == len(answers):
        return problem_response(problems[0])
    images = [
        {"name": job.name, **answer.document()} if isinstance(answer, Problem) else answer
        for job, answer in zip(jobs, answers, strict=True)
    ]
    return JSONResponse({"images": images})
