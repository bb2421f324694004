"""`sightwords train all CONFIG.toml`: captioned photographs -> a whole captioner."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.help import HelpFormatter
from sightwords.cli.train_progress import QUIET_SECONDS, clock, need_torch
from sightwords.config import PRESETS

if TYPE_CHECKING:
    from sightwords.train.stages import Update

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "all",
        help="train a whole captioner",
        description="Train every part of a captioner and write a bundle for sightwords caption. "
        "Finished stages are kept: the same command goes on where a stopped one was, and after a "
        "change of settings runs only what depends on them.",
        epilog="example: sightwords train all mine.toml --out my-captioner\n"
        "example: sightwords caption photo.jpg --bundle my-captioner",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "config", metavar="CONFIG.toml", type=Path,
        help="a table [data] that names the photographs, and settings (docs/own-photographs.md)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="bundle to write")
    parser.add_argument(
        "--preset", choices=sorted(PRESETS),
        help="what the file changes (default: what it names itself, or default)",
    )  # fmt: skip
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="where stages are kept (default: OUT.training)"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda, ... (default: auto)")
    parser.add_argument("--threads", type=int, metavar="N", help="of the detector (default: all)")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Train, write the bundle, and say what each stage came to."""
    from sightwords.train.recipe import load_recipe

    recipe = load_recipe(args.config, preset=args.preset)
    need_torch()
    from sightwords.train.all import train_all
    from sightwords.train.processes import best_device

    device = best_device() if args.device == "auto" else args.device
    recipe = dataclasses.replace(recipe, device=device, threads=args.threads)
    view = View()
    found = train_all(recipe, args.out, work=args.work, progress=view)
    print(json.dumps({"bundle": str(args.out), "stages": found.figures}))
    return 0


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
