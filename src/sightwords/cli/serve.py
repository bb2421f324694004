"""`sightwords serve`: the page and the REST interface."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sightwords.cli.address import allowed_names, check_address
from sightwords.cli.help import HelpFormatter
from sightwords.errors import InputError, require

TOKEN_VARIABLE = "SIGHTWORDS_TOKEN"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "serve",
        help="open a page to caption photographs with, and a REST interface",
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
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: this machine only); others need a token",
    )
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="(default: 8000)")
    parser.add_argument(
        "--bundle",
        metavar="BUNDLE",
        help="a model of your own: a directory, a zip or hf://OWNER/NAME (default: built in)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes that caption (default: one a core)"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"clients must send the token in it as a bearer token (also: ${TOKEN_VARIABLE})",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="answer to this name too, such as that of a proxy; repeatable; needed where --host is "
        "0.0.0.0 or :: ('*' for every name, with a token only)",
    )
    for option, default, unit, text in (
        ("--max-megabytes", 32, int, "of one request"),
        ("--max-megapixels", 64, float, "of one photograph"),
        ("--max-memory", 300, int, "MB for decoding one photo"),
        ("--max-images", 16, int, "photographs in one request"),
        ("--max-seconds", 30, float, "from a request to its answer"),
        ("--queue", 64, int, "photographs that may wait; further ones are answered 503"),
        ("--batch", 4, int, "photographs that a worker takes at a time"),
    ):
        parser.add_argument(
            option, type=unit, default=default, metavar="N", help=f"{text} (default: {default})"
        )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        require(package, extra="web", purpose="serving the page")
    from sightwords.runtime import available_cores
    from sightwords.web.limits import MEGABYTE, Limits
    from sightwords.web.serve import serve

    if args.workers is not None and args.workers < 1:
        args.parser.error(f"--workers {args.workers}: give 1 or more")
    if not 0 < args.port < 65536:
        args.parser.error(f"--port {args.port}: give 1 to 65535")
    limits = Limits(
        body_bytes=args.max_megabytes * MEGABYTE,
        pixels=int(args.max_megapixels * 1e6),
        memory_bytes=args.max_memory * MEGABYTE,
        images=args.max_images,
        seconds=args.max_seconds,
        queue=args.queue,
        batch=args.batch,
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
                f"{where}: holds no token that a client could send: it has {letter!r} in it; "
                "write one line of letters and digits, without spaces"
            )
    return token


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(text: str) -> None:
    print(f"sightwords: {text}", file=sys.stderr)
