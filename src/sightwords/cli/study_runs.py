"""What the sub-verbs of `sightwords study` do: call the library, print, write."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.address import check_address
from sightwords.errors import StudyError, require

if TYPE_CHECKING:  # the study extra is loaded when a command runs, not for --help
    from sightwords.evaluate.grid import Grid
    from sightwords.study.results.count import StudyResults
    from sightwords.study.store import Store

POWER_JUDGES = (1, 3, 5, 7, 9)


def run_create(args: argparse.Namespace) -> int:
    """Make a study."""
    _need_extra()
    from sightwords.cli.study_similarity import find_similarity
    from sightwords.study.create import create_study
    from sightwords.study.model import Design

    against = None if args.against == "human" else args.against
    similarity, checks_by = find_similarity(args.bundle, args.images) if args.checks else (None, "")
    design = Design(
        system=args.name or Path(args.system).stem,
        against="human" if against is None else Path(against).stem,
        pairs=args.pairs or 1,
        judges_per_pair=args.judges_per_pair,
        pairs_per_judge=args.pairs_per_judge,
        checks_per_judge=args.checks,
        seed=args.seed,
        origin=args.origin,
        checks_by=checks_by,
    )
    store = create_study(
        args.study,
        design,
        images=args.images,
        system=args.system,
        against=against,
        all_pairs=args.pairs is None,
        similarity=similarity,
    )
    made = store.design
    _say(
        f"{store.name}: {made.pairs} pairs of {made.system} against {made.against}, "
        f"{made.judges_per_pair} judges a pair, {made.judges} judges of {made.pairs_per_judge} "
        f"pairs and {made.checks_per_judge} check cases"
        + (f" (far apart by {made.checks_by})" if made.checks_by else "")
    )
    _say("next: sightwords study serve, and sightwords study links for the judges")
    store.close()
    return 0


def run_links(args: argparse.Namespace) -> int:
    """Print links and progress."""
    from sightwords.evaluate.grid import csv_text

    with _opened(args) as store:
        from sightwords.study import judging
        from sightwords.study.platforms.seats import SEAT
        from sightwords.study.store import read_judges

        with store.write() as connection:
            judging.add_judges(connection, args.add)
            rows = [
                (
                    judge.id,
                    f"{args.base_url.rstrip('/')}/j/{judge.token}" if not judge.name else "",
                    judge.name,
                    judging.answered(connection, judge.id),
                    judge.excluded,
                )
                for judge in read_judges(connection)
                if judge.name != SEAT
            ]
    print(csv_text([("judge", "link", "name", "answered", "excluded"), *rows]), end="")
    return 0


def run_serve(args: argparse.Namespace) -> int:
    """Serve judges until stopped."""
    require("starlette", extra="study", purpose="serving judges")
    require("uvicorn", extra="study", purpose="serving judges")
    with _opened(args) as store:
        from sightwords.study.server import serve

        check_address(args.host, args.port)
        _say(f"serving {store.name} at http://{args.host}:{args.port}; stop with Ctrl-C")
        serve(store, host=args.host, port=args.port)
    return 0


def run_export(args: argparse.Namespace) -> int:
    """Write the files of a platform."""
    with _opened(args) as store:
        from sightwords.study.platforms.export import export_study

        written = export_study(
            store,
            args.out,
            platform=args.to,
            image_base_url=args.image_base_url,
            now=time.time(),
            valid_days=args.valid_days,
        )
    _say(f"wrote {', '.join(path.name for path in written)} and photographs/ into {args.out}")
    return 0


def run_import(args: argparse.Namespace) -> int:
    """Take votes back."""
    with _opened(args) as store:
        from sightwords.study.platforms import seats
        from sightwords.study.platforms.label_studio import read_label_studio
        from sightwords.study.platforms.mturk import read_turk
        from sightwords.study.platforms.votes_file import read_votes

        read = seats.Imported()
        now = time.time()
        if args.platform == "votes":
            done = seats.import_votes(store, read_votes(args.file), now=now)
        else:
            reader = {"mturk": read_turk, "label-studio": read_label_studio}[args.platform]
            done = seats.import_records(store, reader(args.file, read), now=now)
        done.skipped += read.skipped
    _say(
        f"{done.written} votes written ({done.surplus} of them not counted), {done.repeated} were "
        f"there already, {done.conflicting} differ from what is there, {done.same_judge} by a "
        "judge who had met the pair"
    )
    for reason, count in sorted(done.skipped.items()):
        _say(f"{count} left out: {reason}")
    return 0


def run_exclude(args: argparse.Namespace) -> int:
    """Leave out a judge by hand."""
    with _opened(args) as store:
        from sightwords.study import judging
        from sightwords.study.store import read_judges

        with store.write() as connection:
            found = [judge for judge in read_judges(connection) if judge.id == args.judge]
            if not found:
                raise StudyError(f"there is no judge {args.judge}; see: sightwords study links")
            opened = judging.exclude(connection, found[0], args.reason)
    _say(f"judge {args.judge} is left out; {opened} places reopened")
    return 0


def run_results(args: argparse.Namespace) -> int:
    """Count, print and write."""
    with _opened(args) as store:
        from sightwords.study.results.count import study_results
        from sightwords.study.results.tables import result_tables, results_json

        results = study_results(store, votes_per_pair=args.votes, seed=args.seed)
        tables = [*result_tables(results), *_agreement(store, results, args)]
    if args.json:
        print(results_json(results))
    else:
        print("\n\n".join(table.text() for table in tables))
    return 0


def _agreement(store: Store, results: StudyResults, args: argparse.Namespace) -> list[Grid]:
    """The metrics beside people; with --out also every file."""
    from sightwords.evaluate.captions import choose_metrics
    from sightwords.study.results.disagreement import agreement_grid, metric_agreement
    from sightwords.study.results.tables import save_results
    from sightwords.study.store import read_references

    names = choose_metrics([name.strip() for name in args.metrics.split(",") if name.strip()])
    with store.read() as connection:
        references = read_references(connection)
    found = metric_agreement(results, references, metrics=names)
    if args.out:
        save_results(store, results, found, Path(args.out))
        _say(f"wrote results.json, .md, .csv, pairs.jsonl and disagreement.html into {args.out}")
    return [agreement_grid(found, origin=results.design.origin)] if found else []


def run_power(args: argparse.Namespace) -> int:
    """Print the planning table."""
    from sightwords.study.results.power import power_grid

    try:
        shares = [float(part) / 100 for part in args.shares.split(",")]
    except ValueError:
        args.parser.error(f"--shares is {args.shares!r}; expected three figures such as 8,26,66")
    grid = power_grid(
        args.difference / 100,
        judges=POWER_JUDGES,
        shares=shares,
        kappa=args.kappa,
        head_to_head=args.head_to_head,
        alpha=args.alpha,
        power=args.power,
        pairs_per_judge=args.pairs_per_judge,
    )
    print(grid.text())
    return 0


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Store]:
    _need_extra()
    from sightwords.study.store import open_store

    store = open_store(args.study)
    try:
        yield store
    finally:
        store.close()


def _need_extra() -> None:
    require("sqlalchemy", extra="study", purpose="a study's database")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
