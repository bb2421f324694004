"""Language training on text larger than memory: time and memory by number of processes.

    python -m benchmarks.language_scale DATA --words top-words.npz [--val-words words-val.npz]

DATA holds coco-train.jsonl.gz, flickr30k-text.jsonl.gz and coco-val.jsonl.gz. Runs `sightwords
train language` on the captions and the text: in memory on one thread, then with `run.workers` 1, 2
and 4. Then, for memory, one epoch over the same sentences as text without images, `--repeat` times
over, each time in a file of its own. Memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEXT = ("flickr30k-text.jsonl.gz", "coco-train.jsonl.gz")
SETTINGS = "[language]\nepochs = 1\nattribute_samples = 3\ntext_weight = 0.3\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--words", type=Path, required=True, metavar="NPZ")
    parser.add_argument("--val-words", type=Path, metavar="NPZ", help="where not in --words")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--repeat", type=int, nargs="*", default=[1, 3, 10])
    args = parser.parse_args()
    if args.processes:
        quality(args)
    for times in args.repeat:
        memory(args.data, times)


def quality(args: argparse.Namespace) -> None:
    """Perplexity on coco-val by the number of processes."""
    given = [str(args.data / "coco-train.jsonl.gz"), "--words", str(args.words)]
    given += [str(args.val_words)] if args.val_words else []
    given += ["--set", f"data.text={args.data / 'flickr30k-text.jsonl.gz'}"]
    given += ["--val", str(args.data / "coco-val.jsonl.gz")]
    first = 0.0
    for processes in [0, *args.processes]:
        row = trained([*given, "--set", f"run.workers={processes}"])
        first = first or row["perplexity"]
        print(
            f"{processes or 'in memory, 1'} process(es): perplexity {row['perplexity']} "
            f"({100 * (row['perplexity'] / first - 1):+.2f} %), {row['seconds']} s, "
            f"largest process {row['megabytes']:.0f} MB",
            flush=True,
        )


def memory(data: Path, times: int) -> None:
    """Megabytes of the largest process over `times` the text."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            for name in TEXT:
                (Path(folder) / f"text-{number:03d}-{name}").symlink_to((data / name).resolve())
        settings = Path(folder) / "settings.toml"
        settings.write_text(SETTINGS, encoding="utf-8")
        row = trained(
            [
                "--set",
                f"data.text={folder}/text-*.jsonl.gz",
                "--set",
                "run.workers=2",
                "--config",
                str(settings),
            ]
        )
    print(
        f"{times} times the text: {row['seconds']} s, largest process {row['megabytes']:.0f} MB",
        flush=True,
    )


def trained(arguments: Sequence[str]) -> dict[str, Any]:
    """What `sightwords train language` prints, and the memory of its largest process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sightwords", "train", "language", *arguments]
        command += ["--out", f"{folder}/model"]
        with (
            (Path(folder) / "row.json").open("w+") as out,
            subprocess.Popen(command, stdout=out) as run,
        ):
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            raise SystemExit(run.returncode)
        row: dict[str, Any] = json.loads((Path(folder) / "row.json").read_text(encoding="utf-8"))
    return row | {"megabytes": usage.ru_maxrss / 1024}


if __name__ == "__main__":
    main()
