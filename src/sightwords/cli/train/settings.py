"""`--config`, `--preset`, `--set` and `--print-config`: the settings of every `train` verb.

One rule for all of them (`sightwords.config.load`): a preset, changed by the file, changed by
`--set`. One file may serve several verbs: tables that `train all` uses are allowed in each.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightwords.cli.options import add_set
from sightwords.config import PRESETS, Config, RunConfig
from sightwords.config.changes import keys_of
from sightwords.errors import ConfigError

if TYPE_CHECKING:
    from sightwords.config import Settings

STAGE_TABLES = tuple(dict.fromkeys(name.partition(".")[0] for name, _ in keys_of(Config)))
USED: dict[str, tuple[str, ...]] = {
    "words": ("vocabulary", "images", "words", "data.train", "data.weights", "run.device",
              "run.workers", "run.work", "run.stream", "run.keep_decoded", "run.compile",
              "run.tensorboard", "run.proposals"),
    "language": ("language", "data.train", "data.text", "data.language_words", "run.threads",
                 "run.workers"),
    "dmsm": ("dmsm", "data.train", "run.device", "run.threads", "run.work", "run.features"),
    "mert": ("mert", "generation", "language.attribute_threshold", "data.train", "run.threads",
             "run.workers"),
    "all": (*STAGE_TABLES, "data", "teachers", "pupils", "run.device", "run.threads", "run.work",
            "run.compile"),
}  # fmt: skip
"""The tables and settings that each verb reads."""


class _PrintConfig(argparse.Action):
    """A flag with which nothing else is required."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=False, **options)

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace,
                 values: object, option_string: str | None = None) -> None:  # fmt: skip
        """Note it."""
        setattr(namespace, self.dest, True)
        for action in parser._actions:
            action.required = False


def add_settings(parser: argparse.ArgumentParser, verb: str) -> None:
    """Register SOURCE and the options that say how to train."""
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="*",
        help="captioned images: anything that 'sightwords data inspect' reads (default: train in "
        "the table [data] of the settings)",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="a TOML file with settings; those it does not name are the preset's",
    )  # fmt: skip
    parser.add_argument(
        "--preset", choices=sorted(PRESETS),
        help="the settings to start from (default: the preset that FILE names, or default)",
    )  # fmt: skip
    settable = [name for name, _ in (*keys_of(Config), *keys_of(RunConfig, "run."))]
    used = [name for name in settable if _uses(verb, name)]
    run = [name for name in used if name.startswith("run.")]
    add_set(parser, RunConfig, prefix="run.", names=run, more=[n for n in used if n not in run])
    parser.add_argument(
        "--print-config", action=_PrintConfig,
        help="print the settings in force as a TOML file, and stop",
    )  # fmt: skip
    parser.set_defaults(verb=verb)


def read_settings(args: argparse.Namespace) -> Settings:
    """What is in force; settings that this verb and `train all` do not use are refused."""
    from sightwords.config import read_settings as read
    from sightwords.train.recipe import ARRAYS, DataConfig

    _take_settings_file(args)
    found = read(
        args.config,
        preset=args.preset,
        changes=args.set,
        tables={"data": DataConfig},
        arrays=ARRAYS,
    )
    for name, where in found.named.items():
        shared = where != "--set" and _uses("all", name)
        if not (name == "preset" or shared or _uses(args.verb, name)):
            raise ConfigError(
                f"{where}: {name} is not used by 'sightwords train {args.verb}'; take it out"
            )
    return found


def print_settings(settings: Settings) -> int:
    """As a TOML file that `--config` reads back."""
    from dataclasses import fields, replace

    from sightwords.settings import to_toml
    from sightwords.train.recipe import ARRAYS

    print(f'preset = "{settings.preset}"\n')
    print(to_toml(settings.config))
    print(f"[data]\n{to_toml(replace(settings.more['data']))}", end="")
    default = RunConfig()
    changed = [f.name for f in fields(RunConfig)
               if getattr(settings.run, f.name) != getattr(default, f.name)]  # fmt: skip
    lines = [line for line in to_toml(settings.run).splitlines() if line.split(" ")[0] in changed]
    if lines:
        print("\n[run]\n" + "\n".join(lines))
    for name in ARRAYS:
        for table in settings.more[name]:
            values = (f"{key} = {json.dumps(value)}" for key, value in table.items())
            print(f"\n[[{name}]]\n" + "\n".join(values))
    return 0


def sources_of(args: argparse.Namespace, settings: Settings) -> list[str]:
    """What to train on: SOURCE, or [data] train."""
    found = [*args.sources] or [*settings.more["data"].train]
    if not found:
        args.parser.error("give captioned images (SOURCE), or name them in the settings: "
                          'train = ["photos.csv"] in the table [data]')  # fmt: skip
    return found


def device_of(settings: Settings) -> str:
    """The device to train on; needs torch."""
    if settings.run.device != "auto":
        return settings.run.device
    from sightwords.train.processes import best_device

    return best_device()


def _uses(verb: str, name: str) -> bool:
    return name in USED[verb] or name.partition(".")[0] in USED[verb]


def _take_settings_file(args: argparse.Namespace) -> None:
    """A settings file among the sources: `train all` takes it, others say what to write."""
    files = [source for source in args.sources if source.endswith(".toml")]
    if not files:
        return
    if args.verb == "all" and args.sources == files[:1] and args.config is None:
        args.config, args.sources = Path(files[0]), []
        return
    args.parser.error(f"{files[0]} is a settings file; give it as --config {files[0]}")
