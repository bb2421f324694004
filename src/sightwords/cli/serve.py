"""`sightwords serve`: the page and the REST interface."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from sightwords.cli.address import allowed_names, check_address
from sightwords.cli.options import (
    HelpFormatter,
    add_address,
    add_bundle,
    add_set,
    add_workers,
    check_limits,
    read_set,
)
from sightwords.config.check import check
from sightwords.errors import InputError, require

TOKEN_VARIABLE = "SIGHTWORDS_TOKEN"


@dataclass(frozen=True)
class ServeSettings:
    """Limits of one server."""

    max_megabytes: int = 32
    """Size of one request."""
    max_megapixels: float = 64.0
    """Size of one photo."""
    max_memory: int = 300
    """MB for decoding one photo."""
    max_images: int = 16
    """Photos in one request."""
    max_seconds: float = 30.0
    """From a request to its answer."""
    queue: int = 64
    """Photos that may wait; further ones are answered 503."""
    batch: int = 4
    """Photos that a worker takes at a time."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            check(self, setting.name, getattr(self, setting.name) > 0, "above 0")
        check_limits(self, self.max_seconds, self.max_memory)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "serve",
        help="open a page to caption photos with, and a REST interface",
        description="Serve a page and a REST interface (POST /v1/caption, /v1/words, /v1/rank; "
        "/openapi.json describes them) on this machine until stopped with Ctrl-C. Nothing is "
        "stored, and nothing is fetched from elsewhere. Needs the extra 'web'.",
        epilog="example: sightwords serve\n"
        "example: sightwords serve --port 9000 --workers 1\n"
        "example: SIGHTWORDS_TOKEN=secret sightwords serve --host 0.0.0.0 "
        "--allow-host photos.example\n"
        "example: curl -F image=@cat.jpg http://127.0.0.1:8000/v1/caption",
        formatter_class=HelpFormatter,
    )
    add_address(parser)
    add_bundle(parser)
    add_workers(parser, "processes that caption (default: one per core)")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the bearer token that clients must send (also: ${TOKEN_VARIABLE})",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="also answer to this host name, such as that of a proxy; repeatable; needed if --host "
        "is 0.0.0.0 or :: ('*', with a token only: every name)",
    )
    add_set(parser, ServeSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        require(package, extra="web", purpose="serving the page")
    from sightwords.parallel import available_cores
    from sightwords.web.limits import MEGABYTE, Limits
    from sightwords.web.serve import serve

    settings = read_set(ServeSettings, args)
    limits = Limits(
        body_bytes=settings.max_megabytes * MEGABYTE,
        pixels=int(settings.max_megapixels * 1e6),
        memory_bytes=settings.max_memory * MEGABYTE,
        images=settings.max_images,
        seconds=settings.max_seconds,
        queue=settings.queue,
        batch=settings.batch,
    )
    token = _token(args.token_file)
    hosts = allowed_names(args.host, args.allow_host, token=token is not None)
    check_address(args.host, args.port)
    workers = args.workers or available_cores()
    _say(f"loading the model into {workers} {'processes' if workers > 1 else 'process'} ...")
    address = _address(args.host, args.port)
    serve(
        args.bundle,
        host=args.host,
        port=args.port,
        workers=workers,
        limits=limits,
        token=token,
        hosts=hosts,
        on_ready=lambda: _say(f"serving at {address}; stop with Ctrl-C"),
    )
    return 0


def _token(file: Path | None) -> str | None:
    """From the file, or from the environment; never from the command line, which others see."""
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE, "")
        return _checked(token, f"${TOKEN_VARIABLE}") if token else None
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: the token cannot be read ({error})") from error
    return _checked(text.removesuffix("\n").removesuffix("\r"), str(file))


def _checked(token: str, where: str) -> str:
    """A client could not send any other token in a header."""
    if not token:
        raise InputError(f"{where}: holds no token; write one line of letters and digits")
    for letter in token:
        if not "!" <= letter <= "~":
            raise InputError(
                f"{where}: holds a token that no client could send: it contains {letter!r}; "
                "write one line of letters and digits, without spaces"
            )
    return token


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(text: str) -> None:
    print(f"sightwords: {text}", file=sys.stderr)
