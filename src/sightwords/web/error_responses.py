"""Errors as HTTP responses: all of them are JSON of one shape, and none has a stack trace."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from sightwords.web.errors import ApiError, RequestRefusedError

CLIENT_GONE = 499
"""Nobody reads this answer: the client has closed the connection."""


def error_response(error: ApiError) -> Response:
    """As JSON, with `Retry-After` where trying again helps."""
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.document(), status_code=error.status, headers=headers)


def handle_errors(app: FastAPI) -> None:
    """Turn exceptions into responses."""

    @app.exception_handler(RequestRefusedError)
    async def refused(request: Request, error: RequestRefusedError) -> Response:
        return error_response(error.error)

    @app.exception_handler(ClientDisconnect)
    async def client_gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_GONE)

    @app.exception_handler(RequestValidationError)
    async def invalid_value(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        name = " ".join(str(part) for part in first["loc"][1:2])
        message = f"{name} is {first.get('input')!r:.60}: {first['msg']}"
        return error_response(ApiError(422, "invalid", message))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        code, message = {
            404: ("not_found", "no such address; /openapi.json lists all of them"),
            405: ("wrong_method", f"{request.method} is not allowed for this address"),
        }.get(error.status_code, ("http", str(error.detail)))
        response = error_response(ApiError(error.status_code, code, message))
        response.headers.update(error.headers or {})
        return response
