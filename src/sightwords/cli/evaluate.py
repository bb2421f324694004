"""`sightwords evaluate WHAT`: score captions, words and people; assemble the paper's tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy and the metrics load when a command runs, not for --help
    from sightwords.evaluate import Report

CAPTION_TABLES = ("systems", "coco", "pascal5", "pascal50")
"""The paper's tables that caption scores can be a row of."""

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
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
        examples="tables rows\ntables rows --out tables.md",
    )
    parser.add_argument("rows", metavar="DIR", help="where --save-row kept the rows")
    parser.add_argument("--out", metavar="FILE", help="write Markdown there as well")
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
        help="bleu (or bleu_1 to bleu_4), meteor, rouge_l, cider (default: all)",
    )
    parser.add_argument(
        "--references-per-image",
        type=_positive,
        metavar="N",
        help="compare with N randomly drawn references of each image (the paper: 4)",
    )
    parser.add_argument(
        "--seed", type=_natural, default=0, help="for every random draw (default: 0)"
    )
    parser.add_argument(
        "--meteor-java", action="store_true", help="compute METEOR with its jar; needs Java"
    )
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


def run_captions(args: argparse.Namespace) -> int:
    """Score one results file, and compare it with another where asked."""
    from sightwords.evaluate import evaluate_captions
    from sightwords.evaluate.captions import load_references

    _check_row(args)
    references = load_references(args.references)
    reports = [
        evaluate_captions(
            results,
            references,
            name=name,
            metrics=_listed(args.metrics),
            subset=args.subset,
            references_per_image=args.references_per_image,
            seed=args.seed,
            meteor_java=args.meteor_java,
        )
        for results, name in ((args.results, args.name), (args.compare, ""))
        if results
    ]
    if len(reports) == 1:
        return _show(reports[0], args)
    return _compare(reports[0], reports[1], args)


def _compare(report: Report, other: Report, args: argparse.Namespace) -> int:
    from sightwords.evaluate import compare_reports, save_comparison
    from sightwords.evaluate.compare import comparison_grid, comparison_json

    comparison = compare_reports(report, other, seed=args.seed)
    print(comparison_json(comparison) if args.json else comparison_grid(comparison).text())
    _keep(report, args)
    if args.out:
        page = save_comparison(comparison, args.out, references=args.references)
        _say(f"wrote {page} and comparison.json, .csv and .md beside it")
    return 0


def run_words(args: argparse.Namespace) -> int:
    """Judge a detector's words."""
    from sightwords.evaluate.words import (
        evaluate_words,
        save_word_rows,
        save_words,
        word_grid,
        word_json,
    )

    if args.plot and not args.out:
        args.parser.error("--plot needs --out, the folder to draw into")
    _check_row(args, tables=("words",))
    report = evaluate_words(
        args.scores,
        args.references,
        vocabulary=args.vocabulary,
        subset=args.subset,
        name=args.name,
    )
    print(word_json(report) if args.json else word_grid(report).text())
    if args.out:
        save_words(report, args.out)
        _say(f"wrote words.csv, table.json, table.csv and table.md into {args.out}")
    if args.plot:
        from sightwords.evaluate.curves import plot_words

        plot_words(report, _listed(args.plot) or [], Path(args.out) / "precision_recall.png")
    if args.save_row:
        system = args.save_row.partition(":")[2].strip()
        _say(f"kept {save_word_rows(report, args.rows, system=system)}")
    return 0


def run_baseline(args: argparse.Namespace) -> int:
    """Score people against people."""
    from sightwords.evaluate import evaluate_baseline

    _check_row(args)
    report = evaluate_baseline(
        args.kind,
        args.references,
        references_per_image=args.references_per_image,
        choices=args.choices,
        metrics=_listed(args.metrics),
        seed=args.seed,
        meteor_java=args.meteor_java,
    )
    return _show(report, args)


def run_tables(args: argparse.Namespace) -> int:
    """Print the paper's tables."""
    from sightwords.evaluate import paper_tables
    from sightwords.files import write_text

    grids = paper_tables(args.rows)
    print("\n\n".join(grid.text() for grid in grids))
    if args.out:
        write_text(args.out, "\n\n".join(grid.markdown() for grid in grids) + "\n")
    return 0


def run_server(args: argparse.Namespace) -> int:
    """Write and check one file of a submission, and the zip where asked."""
    from sightwords.evaluate.server import other_split, write_submission, write_zip

    print(write_submission(args.results, args.images, args.out))
    if args.zip:
        print(write_zip([args.out, other_split(args.out)], args.zip))
    return 0


def _show(report: Report, args: argparse.Namespace) -> int:
    """Print a report and keep what was asked to be kept."""
    from sightwords.evaluate.report import report_grid, report_json

    print(report_json(report) if args.json else report_grid(report).text())
    _keep(report, args)
    return 0


def _keep(report: Report, args: argparse.Namespace) -> None:
    """Say the notes; write the files and the row that were asked for."""
    from sightwords.evaluate.report import save_report, save_report_row

    for note in report.notes:
        _say(note)
    if args.out:
        save_report(report, args.out)
        _say(f"wrote scores.json, scores.csv, scores.md and per_image.jsonl into {args.out}")
    if args.save_row:
        table, _, system = args.save_row.partition(":")
        _say(f"kept {save_report_row(report, args.rows, table=table, system=system.strip())}")


def _check_row(args: argparse.Namespace, *, tables: Sequence[str] = CAPTION_TABLES) -> None:
    """Refuse a row that could not be kept before an hour of scoring, not after."""
    if args.save_row:
        from sightwords.evaluate.rows import parse_row_name

        table, _ = parse_row_name(args.save_row)
        if table not in tables:
            args.parser.error(f"--save-row {args.save_row}: choose among {', '.join(tables)}")


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _positive(text: str) -> int:
    return _at_least(1, text)


def _natural(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {least} or more")
    return int(text)


def _say(text: str) -> None:
    print(f"sightwords: {text}", file=sys.stderr)
