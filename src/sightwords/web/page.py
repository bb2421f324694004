"""Serves the files of the page: HTML, style sheet, scripts and sample photos.

Files are read once at the start and looked up by name: no path is built from a request.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from sightwords._version import __version__
from sightwords.samples import SAMPLES, sample_paths
from sightwords.web.limits import Limits
from sightwords.words.heatmap import STRENGTH, colour_scale

MEDIA_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "html": "text/html",
}


def add_page(
    app: FastAPI, about: dict[str, Any], limits: Limits, *, wants_token: bool = False
) -> None:
    """Serve the page at `/`."""
    static = _static_files()
    samples = {path.name: path.read_bytes() for path in sample_paths()}
    settings = {
        "version": __version__,
        **about,
        "samples": list(SAMPLES),
        "images": limits.images,
        "body_bytes": limits.body_bytes,
        "wants_token": wants_token,
        "strength": STRENGTH,
        "colours": colour_scale().tolist(),
    }

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return _file("index.html", static["index.html"])

    @app.get("/settings.json", include_in_schema=False)
    async def page_settings() -> Response:
        return JSONResponse(settings)

    @app.get("/static/{name}", include_in_schema=False)
    async def static_file(name: str) -> Response:
        if name not in static:
            raise HTTPException(404)
        return _file(name, static[name])

    @app.get("/samples/{name}", include_in_schema=False)
    async def sample(name: str) -> Response:
        if name not in samples:
            raise HTTPException(404)
        return Response(samples[name], media_type="image/jpeg")


def _static_files() -> dict[str, bytes]:
    folder = files("sightwords.web") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def _file(name: str, data: bytes) -> Response:
    # Never cached, so that a page does not run with scripts of another version.
    headers = {"Cache-Control": "no-cache"}
    kind = MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(data, media_type=kind, headers=headers)
