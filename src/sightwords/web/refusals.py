"""Problems as responses: every error leaves as JSON of one shape, and none as a stack trace."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from sightwords.web.problems import Problem, Refused

GONE = 499
"""Nobody reads it: the client has closed the connection."""


def problem_response(problem: Problem) -> Response:
    """As JSON, with `Retry-After` where waiting helps."""
    after = problem.retry_after_seconds
    headers = {} if after is None else {"Retry-After": str(after)}
    return JSONResponse(problem.document(), status_code=problem.status, headers=headers)


def handle_errors(app: FastAPI) -> None:
    """Answer what is raised on the way."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return problem_response(error.problem)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = " ".join(str(part) for part in first["loc"][1:2])
        return problem_response(Problem(422, "invalid", f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        codes = {404: "not_found", 405: "wrong_method"}
        message = {
            404: "there is nothing at this address; /openapi.json lists all",
            405: f"this address does not take {request.method}",
        }.get(error.status_code, str(error.detail))
        problem = Problem(error.status_code, codes.get(error.status_code, "http"), message)
        response = problem_response(problem)
        response.headers.update(error.headers or {})
        return response
