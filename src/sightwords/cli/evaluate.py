"""`sightwords evaluate WHAT`: score captions, words and people; assemble the paper's tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from sightwords.cli.evaluate_runs import (
    run_baseline,
    run_captions,
    run_server,
    run_tables,
    run_words,
)
from sightwords.cli.help import HelpFormatter

Subparsers = argparse._SubParsersAction

REFERENCES_HELP = (
    "human captions: COCO caption JSON, JSONL(.gz), or webdataset shards; anything that "
    "`sightwords data inspect` reads"
)


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the verb and its sub-verbs."""
    parser = subparsers.add_parser(
        "evaluate",
        help="score captions and words, and assemble the paper's tables",
        description="Score captions with the COCO metrics (no Java needed), score word "
        "detections, and assemble the paper's tables.",
        epilog="example: sightwords evaluate captions results.json --references coco-test-00.tar",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="what to evaluate", metavar="WHAT", required=True)
    _add_captions(verbs)
    _add_words(verbs)
    _add_baseline(verbs)
    _add_tables(verbs)
    _add_server(verbs)


def _verb(
    verbs: Subparsers[argparse.ArgumentParser], name: str, *, about: str, examples: str
) -> argparse.ArgumentParser:
    lines = "\n".join(f"example: sightwords evaluate {line}" for line in examples.splitlines())
    return verbs.add_parser(
        name,
        help=about[0].lower() + about[1:].partition(".")[0],
        description=about,
        epilog=lines,
        formatter_class=HelpFormatter,
    )


def _add_captions(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "captions",
        about="Score one caption an image with BLEU-1 to 4, METEOR, ROUGE-L and CIDEr.",
        examples="captions results.json --references coco-test-00.tar --out scores\n"
        "captions ours.json --references refs.jsonl --compare theirs.json --out scores",
    )
    parser.add_argument(
        "results",
        metavar="RESULTS",
        help='COCO results JSON, or JSONL such as {"id": "9", "caption": "a dog"}',
    )
    _scoring_options(parser)
    parser.add_argument(
        "--compare",
        metavar="OTHER",
        help="a second results file: prints the differences with their p-values, and writes a "
        "page of the images that differ most into --out",
    )
    parser.add_argument(
        "--subset",
        action="store_true",
        help="score the images that results and references share; signatures say so",
    )
    parser.add_argument(
        "--boxes",
        metavar="FILE",
        help="the objects in each image (COCO's instances JSON, or ids with lists of classes); "
        "adds CHAIR, the share of captions that name an object which is not there",
    )
    parser.add_argument(
        "--objects",
        metavar="FILE",
        help="the words of each object class, one line CLASS: word, word per class (default: the "
        "80 classes of COCO)",
    )
    parser.add_argument("--name", default="", help="the system's name (default: the file's)")
    parser.set_defaults(run=run_captions, parser=parser)


def _add_baseline(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "baseline",
        about="Score people: one held-out caption (human), or one of another image "
        "(shuffled-human).",
        examples="baseline human --references coco-test-00.tar\n"
        "baseline shuffled-human --references coco-test-00.tar --references-per-image 4",
    )
    parser.add_argument("kind", choices=("human", "shuffled-human"), help="which baseline")
    _scoring_options(parser)
    parser.add_argument(
        "--choices",
        type=_positive,
        metavar="N",
        help="held-out captions to average over (human; default: all an image has, at most 10)",
    )
    parser.set_defaults(run=run_baseline, parser=parser)


def _add_words(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "words",
        about="Score word detections: average precision and precision at human recall by part "
        "of speech.",
        examples="words scores.npz --references coco-test-00.tar --vocabulary words.json\n"
        "words scores.jsonl --references refs.jsonl --out words --plot dog,red",
    )
    parser.add_argument(
        "scores",
        metavar="SCORES",
        help='NPZ with ids (N), words (V), scores (N,V), or JSONL {"id": "9", "words": '
        '{"dog": 0.9}}',
    )
    parser.add_argument("--references", metavar="REFS", required=True, help=REFERENCES_HELP)
    parser.add_argument(
        "--vocabulary",
        metavar="FILE",
        help="a sightwords vocabulary file: the words to judge, with their parts of speech "
        "(default: the words of SCORES, as one class)",
    )
    parser.add_argument("--subset", action="store_true", help="score the images both files have")
    parser.add_argument("--name", default="", help="the detector's name (default: the file's)")
    parser.add_argument("--out", metavar="DIR", help="write words.csv, table.json, .csv and .md")
    parser.add_argument(
        "--plot", metavar="WORD,...", help="draw precision-recall curves of these words into --out"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _row_options(parser)
    parser.set_defaults(run=run_words, parser=parser)


def _add_tables(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "tables",
        about="Assemble the paper's tables from saved rows. What was not measured prints as open.",
        examples="tables rows\ntables rows --out tables.md\n"
        "tables rows --study results/results.json",
    )
    parser.add_argument("rows", metavar="DIR", help="where --save-row kept the rows")
    parser.add_argument("--out", metavar="FILE", help="write Markdown there as well")
    parser.add_argument(
        "--study",
        metavar="FILE",
        action="append",
        default=[],
        help="results.json of a human study, for the columns that only people fill; again for more",
    )
    parser.set_defaults(run=run_tables, parser=parser)


def _add_server(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    parser = _verb(
        verbs,
        "server",
        about="Write a results file that the COCO evaluation server accepts.",
        examples="server val.json --images captions_val2014.json "
        "--out captions_val2014_mine_results.json\n"
        "server test.jsonl --images image_info_test2014.json "
        "--out captions_test2014_mine_results.json --zip results.zip",
    )
    parser.add_argument("results", metavar="RESULTS", help="captions of every image of the split")
    parser.add_argument(
        "--images",
        metavar="LIST",
        required=True,
        help="the split: COCO JSON with 'images', or text with one id or file name a line",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        required=True,
        type=Path,
        help="captions_val2014_NAME_results.json or captions_test2014_NAME_results.json",
    )
    parser.add_argument(
        "--zip",
        metavar="FILE",
        type=Path,
        help="pack it with the other split's file, found beside it, into results.zip",
    )
    parser.set_defaults(run=run_server, parser=parser)


def _scoring_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--references", metavar="REFS", required=True, help=REFERENCES_HELP)
    parser.add_argument(
        "--metrics",
        metavar="NAME,...",
        help="bleu (or bleu_1 to bleu_4), meteor, rouge_l, cider (default: these); for captions "
        "also chair (needs --boxes), person_words, alt_text",
    )
    parser.add_argument(
        "--references-per-image",
        type=_positive,
        metavar="N",
        help="compare with N randomly drawn references of each image (the paper: 4)",
    )
    parser.add_argument("--seed", type=_natural, default=0, help="of random draws (default: 0)")
    parser.add_argument("--out", metavar="DIR", help="write JSON, CSV and Markdown there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _row_options(parser)


def _row_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--save-row",
        metavar="TABLE:SYSTEM",
        help="keep the values for `evaluate tables`: words, systems, coco, pascal5 or pascal50, "
        "and the row's name",
    )
    parser.add_argument(
        "--rows", metavar="DIR", default="rows", help="where rows are kept (default: rows)"
    )


def _positive(text: str) -> int:
    return _at_least(1, text)


def _natural(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {least} or more")
    return int(text)
