"""`sightwords batch SOURCE --out FILE`: captions of many photos, in a run that can be resumed."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from sightwords.cli.caption import add_caption_options
from sightwords.cli.options import (
    HelpFormatter,
    add_set,
    add_workers,
    at_least,
    check_limits,
    read_set,
)
from sightwords.cli.output import say, tell
from sightwords.images.limits import MAX_MEGABYTES, MAX_SECONDS

if TYPE_CHECKING:
    from sightwords.batch import Progress


@dataclass(frozen=True)
class BatchSettings:
    """What few batches change."""

    max_seconds: float = MAX_SECONDS
    """Time limit for one photo."""
    max_memory: float = MAX_MEGABYTES
    """Memory limit for decoding one photo, in MB."""

    def __post_init__(self) -> None:
        check_limits(self, self.max_seconds, self.max_memory)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "batch",
        help="caption a folder, a list or shards of photos into a file",
        description="Caption many photos into one file, or into one file per photo. All cores are "
        "used. A run that was killed resumes with --resume and writes the same output as a run "
        "without a break. Photos that cannot be read are listed in FILE.errors.jsonl and do not "
        "stop the run.",
        epilog="example: sightwords batch holiday --out captions.jsonl\n"
        "example: sightwords batch holiday --out captions.csv --resume\n"
        "example: sightwords batch 'shards/coco-{00..04}.tar' --out results.json\n"
        "example: sightwords batch captions_val2014.json --images val2014 --out results.json\n"
        "example: sightwords batch holiday --out holiday --format txt --overwrite missing\n"
        "example: sightwords batch holiday --out described --format embedded\n"
        "example: sightwords batch 's3://photos/{0000..0999}.tar' --out s3://captions/run1 "
        "--format parquet --engine ray --address auto",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder (with all below it), a .txt list of paths, - for a list on stdin, "
        "webdataset shards, a COCO file or another corpus",
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="a .jsonl, .json (COCO results), .csv or .parquet file; a folder for one file per "
        "photo, or with --engine ray for one file per shard",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "coco", "csv", "parquet", "txt", "xmp", "embedded"),
        help="output format (default: from the ending of FILE); txt and xmp write one file per "
        "photo, embedded writes a copy of the photo with its caption inside",
    )
    parser.add_argument(
        "--images", metavar="DIR", help="folder of the photos that a list or COCO file names"
    )
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="with --format embedded: write into the photos themselves; FILE is their folder",
    )
    parser.add_argument("--resume", action="store_true", help="resume a run that was stopped")
    parser.add_argument(
        "--overwrite",
        choices=("never", "missing", "always"),
        default="never",
        help="if output exists already: never change it (default), add the missing captions, or "
        "always replace it",
    )
    add_workers(parser, "cores to use (default: all)")
    parser.add_argument(
        "--n-best",
        type=at_least(0),
        default=0,
        metavar="N",
        help="also write the N best candidates (JSONL, Parquet)",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="local: this machine (default); ray: a Ray cluster whose machines can all read SOURCE "
        "and write FILE (JSONL or Parquet)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of the Ray cluster, or auto (default: $RAY_ADDRESS, or a cluster on this "
        "machine alone)",
    )
    add_caption_options(parser)
    add_set(parser, BatchSettings)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Caption, and print a summary at the end."""
    _check(args)
    problems: list[object] = []
    show = _Bar()
    start = _on_ray if args.engine == "ray" else _here
    try:
        progress, errors = start(args, problems, show)
    except KeyboardInterrupt:
        tell("\n")
        say(f"stopped after {show.done}; resume with --resume")
        return 130
    finally:
        show.end()
    for problem in problems[:10]:
        say(problem)
    if len(problems) > 10:
        say(f"... and {len(problems) - 10} more such problems")
    hint = "missing adds new photos" if args.engine == "local" else "always captions it again"
    say(_summary(progress, args.out, errors, hint))
    return 1 if progress.failed or problems else 0


def _check(args: argparse.Namespace) -> None:
    """Options that contradict each other."""
    from sightwords.batch import format_of

    if args.out == "-":
        args.parser.error("--out -: a batch writes files; use 'sightwords caption' for stdout")
    form = args.format or format_of(args.out)
    if args.n_best and form not in ("jsonl", "parquet"):
        args.parser.error(f"--n-best needs JSONL or Parquet; {form} has one caption per photo")
    if args.in_place and (args.format != "embedded" or args.engine == "ray"):
        args.parser.error("--in-place needs --format embedded and --engine local")
    if args.address is not None and args.engine != "ray":
        args.parser.error("--address needs --engine ray")


def _options(args: argparse.Namespace) -> dict[str, Any]:
    from sightwords.batch import format_of

    settings = read_set(BatchSettings, args)
    return {
        "format": args.format or format_of(args.out),
        "bundle": args.bundle,
        "overwrite": args.overwrite,
        "resume": args.resume,
        "workers": args.workers,
        "n_best": args.n_best,
        "max_seconds": settings.max_seconds,
        "max_megabytes": settings.max_memory,
        "min_precision": args.min_precision,
        "require": tuple(args.require),
        "forbid": tuple(args.forbid),
    }


def _here(
    args: argparse.Namespace, problems: list[object], show: _Bar
) -> tuple[Progress, Path | str]:
    from sightwords.batch import BatchOptions, open_source, run_batch

    options = BatchOptions(out=Path(args.out), in_place=args.in_place, **_options(args))
    source = open_source(
        args.source,
        images=args.images,
        allow_urls=args.allow_urls,
        on_problem=problems.append,
    )
    return run_batch(source, options, on_progress=show), options.errors


def _on_ray(
    args: argparse.Namespace, problems: list[object], show: _Bar
) -> tuple[Progress, Path | str]:
    from sightwords.batch import ClusterOptions, run_on_ray

    options = ClusterOptions(out=args.out, address=args.address, **_options(args))
    progress = run_on_ray(
        args.source,
        options,
        images=args.images,
        allow_urls=args.allow_urls,
        on_problem=problems.append,
        on_progress=show,
    )
    return progress, options.errors


def _summary(progress: Progress, out: str, errors: Path | str, hint: str) -> str:
    if progress.done == 0:
        return f"{out} is complete already: nothing to do (--overwrite {hint})"
    new = progress.done - progress.kept
    text = f"{new} photos in {progress.seconds:.1f} s, {progress.images_a_second:.1f} a second"
    if progress.kept:
        text += f"; {progress.kept} were written before"
    if progress.failed:
        text += f"; {progress.failed} failed: see {errors}"
    return f"{text}; written: {out}"


class _Bar:
    """Progress on stderr: redrawn on a terminal, otherwise a line every half minute."""

    def __init__(self) -> None:
        self.done = 0
        self._terminal = sys.stderr.isatty()
        self._next = monotonic() + (0.0 if self._terminal else 30.0)

    def __call__(self, progress: Progress) -> None:
        self.done = progress.done
        if monotonic() < self._next:
            return
        self._next = monotonic() + (0.2 if self._terminal else 30.0)
        start, end = ("\r\033[K", "") if self._terminal else ("", "\n")
        tell(f"{start}{progress_line(progress)}{end}")

    def end(self) -> None:
        """Leave the terminal's line clean."""
        if self._terminal:
            tell("\r\033[K")


def progress_line(progress: Progress) -> str:
    """Photos done, speed, and time left."""
    of = f" of {progress.total}" if progress.total is not None else ""
    text = f"{progress.done}{of} photos, {progress.images_a_second:.1f} a second"
    left = progress.seconds_left
    return text if left is None else f"{text}, {_duration(left)} left"


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _duration(3725), _duration(59.6)
    ('1:02:05', '1:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
