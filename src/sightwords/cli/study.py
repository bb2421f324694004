"""`sightwords study WHAT`: people compare captions, from drawing pairs to the paper's columns."""

from __future__ import annotations

import argparse
import os

from sightwords.cli.help import HelpFormatter
from sightwords.cli.study_runs import (
    run_create,
    run_exclude,
    run_export,
    run_import,
    run_links,
    run_power,
    run_results,
    run_serve,
)

Subparsers = argparse._SubParsersAction


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the verb and its sub-verbs."""
    parser = subparsers.add_parser(
        "study",
        help="compare captions with people: draw pairs, serve judges, count votes",
        description="The paper's human study: judges see a photograph and two captions and say "
        "which describes it better, or that they are the same. The study is kept in a SQLite file, "
        "or in PostgreSQL.",
        epilog="example: sightwords study create --images coco-test-00.tar --system ours.json\n"
        "example: sightwords study serve --port 8000\n"
        "example: sightwords study results",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    for add in (_create, _links, _serve, _export, _import, _exclude, _results, _power):
        add(verbs)


def _verb(
    verbs: Subparsers[argparse.ArgumentParser],
    name: str,
    *,
    about: str,
    examples: str,
    stored: bool = True,
) -> argparse.ArgumentParser:
    lines = "\n".join(f"example: sightwords study {line}" for line in examples.splitlines())
    parser = verbs.add_parser(
        name,
        help=about[0].lower() + about[1:].partition(".")[0],
        description=about,
        epilog=lines,
        formatter_class=HelpFormatter,
    )
    if stored:
        parser.add_argument(
            "--study",
            metavar="WHERE",
            default=os.environ.get("SIGHTWORDS_STUDY", "study.db"),
            help="a file (SQLite) or a URL, postgresql://USER@HOST/DATABASE (default: "
            "$SIGHTWORDS_STUDY, or study.db)",
        )
    return parser


def _create(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "create",
        about="Draw pairs and check cases and make the judges. Refuses to replace a study.",
        examples="create --images coco-test-00.tar --system ours.json --against human\n"
        "create --images photos/ --system a.json --against b.json --pairs 200 --checks 0",
    )
    parser.add_argument(
        "--images",
        metavar="SOURCE",
        required=True,
        help="photographs, with human captions where they are a side or in check cases: anything "
        "that `sightwords data inspect` reads, or a folder of nothing but photographs",
    )
    parser.add_argument(
        "--system", metavar="A.json", required=True, help="captions of the system under test"
    )
    parser.add_argument(
        "--against",
        metavar="human|B.json",
        default="human",
        help="what it is compared with: a person's caption of the image, or another system's "
        "(default: human)",
    )
    parser.add_argument(
        "--pairs",
        type=_pairs,
        default=1000,
        metavar="N|all",
        help="images to draw, one pair each (default: 1000, as in the paper)",
    )
    parser.add_argument(
        "--judges-per-pair", type=_positive, default=5, metavar="N", help="default: 5"
    )
    parser.add_argument(
        "--pairs-per-judge", type=_positive, default=20, metavar="N", help="default: 20"
    )
    parser.add_argument(
        "--checks",
        type=_natural,
        default=4,
        metavar="N",
        help="check cases a judge, beside the pairs (default: 4)",
    )
    parser.add_argument(
        "--bundle",
        metavar="DIR",
        help="a model bundle whose DMSM chooses the wrong captions of check cases (default: the "
        "shipped one; where it has no DMSM, TF-IDF of the captions)",
    )
    parser.add_argument("--seed", type=_natural, default=0, help="of every draw (default: 0)")
    parser.add_argument("--name", default="", help="the system's name (default: the file's)")
    parser.add_argument(
        "--origin",
        choices=("human", "simulated", "model"),
        default="human",
        help="whose votes this study will hold; only people's fill human columns (default: human)",
    )
    parser.set_defaults(run=run_create, parser=parser)


def _links(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "links",
        about="Print one link a judge, as CSV with how far each has come.",
        examples="links --base-url https://study.example.org\nlinks --add 20",
    )
    parser.add_argument(
        "--base-url", default="http://127.0.0.1:8000", metavar="URL", help="where judges reach it"
    )
    parser.add_argument(
        "--add", type=_natural, default=0, metavar="N", help="make N more judges first"
    )
    parser.set_defaults(run=run_links, parser=parser)


def _serve(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "serve",
        about="Serve the judges' page. Put a TLS proxy before it for the outside world.",
        examples="serve --port 8000\nserve --study postgresql://me@localhost/study",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=_natural, default=8000, help="default: 8000")
    parser.set_defaults(run=run_serve, parser=parser)


def _export(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "export",
        about="Write the open places as a Mechanical Turk project or a Label Studio project.",
        examples="export --to mturk --out hits --image-base-url https://photos.example.org\n"
        "export --to label-studio --out project --image-base-url https://photos.example.org",
    )
    parser.add_argument("--to", choices=("mturk", "label-studio"), required=True, help="platform")
    parser.add_argument("--out", metavar="DIR", required=True, help="a new folder")
    parser.add_argument(
        "--image-base-url",
        metavar="URL",
        required=True,
        help="where DIR/photographs will be reachable",
    )
    parser.add_argument(
        "--valid-days",
        type=_positive,
        default=30,
        metavar="N",
        help="how long the places are kept for the platform's judges (default: 30)",
    )
    parser.set_defaults(run=run_export, parser=parser)


def _import(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "import",
        about="Take votes back from a platform. Reading a file twice changes nothing.",
        examples="import Batch_123_results.csv --from mturk\n"
        "import project-1.json --from label-studio\nimport votes.csv --from votes",
    )
    parser.add_argument("file", metavar="FILE", help="what the platform gave")
    parser.add_argument(
        "--from",
        dest="platform",
        choices=("mturk", "label-studio", "votes"),
        required=True,
        help="mturk: results CSV, or JSONL of the API's assignments; label-studio: JSON export; "
        "votes: CSV or JSONL with image, judge and answer (better, same, worse)",
    )
    parser.set_defaults(run=run_import, parser=parser)


def _exclude(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "exclude",
        about="Leave out a judge. The votes are kept but count no more; their pairs reopen.",
        examples='exclude 17 --reason "answered in one second each"',
    )
    parser.add_argument("judge", type=_positive, metavar="NUMBER", help="as `links` prints it")
    parser.add_argument("--reason", default="excluded by hand", help="counted in the results")
    parser.set_defaults(run=run_exclude, parser=parser)


def _results(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "results",
        about="Count the votes: the paper's columns with error bars, kappa, agreement of judges "
        "and of metrics.",
        examples="results\nresults --out results --metrics bleu,rouge_l,cider",
    )
    parser.add_argument(
        "--votes",
        type=_positive,
        metavar="N",
        help="count pairs with at least N valid votes (default: all that the study asks for)",
    )
    parser.add_argument("--seed", type=_natural, default=0, help="of the resampling (default: 0)")
    parser.add_argument(
        "--metrics",
        metavar="NAME,...",
        default="cider",
        help="to compare with people: bleu_1 to bleu_4, meteor, rouge_l, cider (default: cider)",
    )
    parser.add_argument("--out", metavar="DIR", help="write JSON, CSV, Markdown and the page there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=run_results, parser=parser)


def _power(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "power",
        about="Say how many pairs and judges show a difference of D points.",
        examples="power 5\npower 10 --head-to-head --shares 30,40,30 --kappa 0.3",
        stored=False,
    )
    parser.add_argument(
        "difference", type=float, metavar="D", help="in points of the results table, such as 5"
    )
    parser.add_argument(
        "--shares",
        metavar="B,S,W",
        default="7.8,26.2,66.0",
        help="expected better, same, worse in %% of pairs (default: the paper's best system)",
    )
    parser.add_argument(
        "--kappa",
        type=float,
        default=0.4,
        help="expected Fleiss' kappa of the judges (default: 0.4)",
    )
    parser.add_argument(
        "--head-to-head",
        action="store_true",
        help="one system against the other, D = better minus worse; without it two systems are "
        "each compared with people, D = difference of same-or-better",
    )
    parser.add_argument("--alpha", type=float, default=0.05, help="of the two-sided test")
    parser.add_argument("--power", type=float, default=0.8, help="chance of finding D")
    parser.add_argument(
        "--pairs-per-judge", type=_positive, default=20, metavar="N", help="default: 20"
    )
    parser.set_defaults(run=run_power, parser=parser)


def _pairs(text: str) -> int | None:
    return None if text == "all" else _positive(text)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _natural(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {least} or more")
    return int(text)
