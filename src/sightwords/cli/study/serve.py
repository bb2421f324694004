"""`sightwords study serve`: the judges' page."""

from __future__ import annotations

import argparse

from sightwords.cli.address import check_address
from sightwords.cli.options import HelpFormatter, add_address
from sightwords.cli.study.opened import add_study, opened, tell
from sightwords.errors import require


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "serve",
        help="serve the judges' page",
        description="Serve the judges' page. For access from outside, put a TLS proxy before it.",
        epilog="example: sightwords study serve --port 8000\n"
        "example: sightwords study serve postgresql://me@localhost/study",
        formatter_class=HelpFormatter,
    )
    add_study(parser)
    add_address(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Serve judges until stopped."""
    require("starlette", extra="study", purpose="serving judges")
    require("uvicorn", extra="study", purpose="serving judges")
    with opened(args) as store:
        from sightwords.study.server import serve

        check_address(args.host, args.port)
        tell(f"serving {store.name} at http://{args.host}:{args.port}; stop with Ctrl-C")
        serve(store, host=args.host, port=args.port)
    return 0
