"""`sightwords study export`: a project for Mechanical Turk or Label Studio."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from sightwords.cli.options import HelpFormatter, add_set, read_set
from sightwords.cli.study.opened import add_study, opened, tell
from sightwords.config.check import check


@dataclass(frozen=True)
class ExportSettings:
    """What few exports change."""

    valid_days: int = 30
    """How long the open votes are reserved for the platform's judges."""

    def __post_init__(self) -> None:
        check(self, "valid_days", self.valid_days >= 1, "at least 1")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "export",
        help="write a Mechanical Turk or Label Studio project",
        description="Write the votes that are still missing as a Mechanical Turk project or a "
        "Label Studio project.",
        epilog="example: sightwords study export --to mturk --out hits "
        "--image-base-url https://photos.example.org\n"
        "example: sightwords study export --to label-studio --out project "
        "--image-base-url https://photos.example.org",
        formatter_class=HelpFormatter,
    )
    add_study(parser)
    parser.add_argument("--to", choices=("mturk", "label-studio"), required=True, help="platform")
    parser.add_argument("--out", metavar="DIR", required=True, help="a new folder")
    parser.add_argument(
        "--image-base-url",
        metavar="URL",
        required=True,
        help="where DIR/photographs will be reachable",
    )
    add_set(parser, ExportSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Write the files of a platform."""
    settings = read_set(ExportSettings, args)
    with opened(args) as store:
        from sightwords.study.platforms.export import export_study

        written = export_study(
            store,
            args.out,
            platform=args.to,
            image_base_url=args.image_base_url,
            now=time.time(),
            valid_days=settings.valid_days,
        )
    tell(f"wrote {', '.join(path.name for path in written)} and photographs/ into {args.out}")
    return 0
