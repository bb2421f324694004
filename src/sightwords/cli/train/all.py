"""`sightwords train all`: captioned photos -> a whole captioner."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import HelpFormatter
from sightwords.cli.output import say
from sightwords.cli.train.progress import QUIET_SECONDS, clock, need_torch
from sightwords.cli.train.settings import add_settings, device_of, print_settings, read_settings

if TYPE_CHECKING:
    from sightwords.train.stages import Update

STOPPED = 75
"""Exit code where the time limit ended a stage: try again (EX_TEMPFAIL)."""
Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "all",
        help="train a whole captioner",
        description="Train every part of a captioner and write a bundle for 'sightwords caption'. "
        "Finished stages are kept: the same command resumes where a stopped run ended, and after "
        "a change of settings it runs only the stages that depend on them.",
        epilog="example: sightwords train all --config mine.toml --out my-captioner\n"
        "example: sightwords train all photos.csv --set data.base=default --out my-captioner\n"
        "example: sightwords caption photo.jpg --bundle my-captioner",
        formatter_class=HelpFormatter,
    )
    add_settings(parser, "all")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="bundle to write")
    parser.add_argument(
        "--only", metavar="STAGE,...", default="",
        help="run only these stages, on what others left in the work folder",
    )  # fmt: skip
    parser.add_argument("--until", metavar="STAGE", help="stop after this stage")
    parser.add_argument(
        "--max-minutes", type=float, metavar="N", default=math.inf,
        help=f"stop after so long (exit code {STOPPED}); the same command resumes",
    )  # fmt: skip
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Train, write the bundle, and print the figures of each stage."""
    from sightwords.train.recipe import recipe_of

    settings = read_settings(args)
    if args.print_config:
        return print_settings(settings)
    recipe = recipe_of(settings, args.sources)
    need_torch()
    from sightwords.train.all import train_all

    recipe = dataclasses.replace(
        recipe,
        device=device_of(settings),
        threads=settings.run.threads or None,
        compile=settings.run.compile,
    )
    found = train_all(
        recipe,
        args.out,
        work=settings.run.work or None,
        only=[name for name in args.only.split(",") if name],
        until=args.until,
        max_seconds=60 * args.max_minutes,
        progress=View(),
    )
    bundle = str(args.out) if "bundle" in found.folders else None
    print(json.dumps({"bundle": bundle, "stages": found.figures, "stopped": found.stopped}))
    if found.stopped is None:
        return 0
    say(
        f"stopped in stage {found.stopped} after {args.max_minutes:g} minutes; the same command "
        "resumes it"
    )
    return STOPPED


class View:
    """One view of all stages on stderr: finished ones stay, the running one is drawn over."""

    def __init__(self) -> None:
        self.drawn = sys.stderr.isatty()
        self.stage, self.unit = "", ""
        self.started = self.said = time.monotonic()
        self.first = 0

    def __call__(self, update: Update) -> None:
        """Show where things stand."""
        now = time.monotonic()
        if (update.stage, update.unit) != (self.stage, self.unit):
            self.stage, self.unit = update.stage, update.unit
            self.started, self.first = now, update.done
        line = f"[{update.number}/{update.stages}] {update.stage}: {self._state(update, now)}"
        if self.drawn:
            end = "" if update.state == "running" else "\n"
            print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)
        elif update.state != "running" or now - self.said > QUIET_SECONDS:
            print(f"sightwords: {line}", file=sys.stderr, flush=True)
            self.said = now

    def _state(self, update: Update, now: float) -> str:
        if update.state == "kept":
            return "kept from before"
        if update.state == "done":
            return f"done in {clock(update.seconds)}"
        if not update.unit:
            return "running"
        speed = (update.done - self.first) / max(now - self.started, 1e-9)
        of = "" if update.total is None else f"/{update.total:,}"
        text = f"{update.done:,}{of} {update.unit}"
        if update.total is not None and speed > 0:
            text += f", {clock((update.total - update.done) / speed)} left"
        return text
