"""`sightwords train mert`: captioned photos -> re-ranking weights, confidence (section 5)."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from sightwords.cli.options import HelpFormatter
from sightwords.cli.train.progress import ProgressLine
from sightwords.cli.train.settings import (
    add_settings,
    print_settings,
    read_settings,
    sources_of,
)

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "mert",
        help="tune how captions are chosen, and their confidence",
        description="Tune the weights that choose a caption from its candidates, on captioned "
        "photos that no earlier stage was trained on. One half of them tunes the weights; the "
        "other half measures them and fits the confidence. Test images are refused.",
        epilog="example: sightwords train mert 'coco-val-*.tar' --parts my-captioner\n"
        "example: sightwords bundle seal my-captioner --licence CC-BY-4.0",
        formatter_class=HelpFormatter,
    )
    add_settings(parser, "mert")
    parser.add_argument(
        "--parts", type=Path, required=True, metavar="DIR",
        help="a directory with words/ and language/, and dmsm/ and grounded/ if you have them; "
        "rerank/ is written into it",
    )  # fmt: skip
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Tune, write weights and confidence, and print what they are worth."""
    settings = read_settings(args)
    if args.print_config:
        return print_settings(settings)
    sources = sources_of(args, settings)
    from sightwords.corpus import open_corpus
    from sightwords.settings import save_resolved
    from sightwords.train.rerank.run import Models, train_rerank

    dmsm, grounded = (args.parts / part for part in ("dmsm", "grounded"))
    models = Models(
        args.parts / "words",
        args.parts / "language",
        dmsm if dmsm.is_dir() else None,
        grounded if grounded.is_dir() else None,
    )
    # Features of models that are not there are left out.
    mert = settings.config.mert
    config = dataclasses.replace(
        settings.config,
        mert=dataclasses.replace(
            mert,
            dmsm=mert.dmsm and models.dmsm is not None,
            grounded=mert.grounded and models.grounded is not None,
        ),
    )
    line, out = ProgressLine(), args.parts / "rerank"
    ranker, confidence = train_rerank(
        open_corpus(sources),
        models,
        config,
        out,
        threads=settings.run.threads or None,
        processes=settings.run.workers or 1,
        progress=lambda done, _, unit: line.images(done) if unit == "images" else None,
    )
    line.end()
    save_resolved(config, out)
    row: dict[str, object] = {"rerank": str(out), "objective": ranker.objective}
    for name, values in ranker.values.items():
        row[name] = {metric: round(value, 4) for metric, value in values.items()}
    row["confidence"] = {
        "good": f"CIDEr-D >= {confidence.threshold:g}",
        **{name: round(value, 4) for name, value in confidence.reliability.items()},
    }
    print(json.dumps(row))
    return 0
