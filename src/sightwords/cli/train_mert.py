"""`sightwords train mert`: captioned photographs -> re-ranking weights, confidence (section 5)."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from sightwords.cli.help import HelpFormatter
from sightwords.cli.train_progress import Talk
from sightwords.config import PRESETS, Config, load_config
from sightwords.settings import save_resolved

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "mert",
        help="tune how captions are chosen, and their confidence",
        description="Tune the weights that choose a caption from its candidates, on captioned "
        "photographs that no earlier stage was trained on; half of them tune, the other half says "
        "what the weights are worth and fits the confidence. Test images are refused.",
        epilog="example: sightwords train mert 'coco-val-*.tar' --detector my-detector --language "
        "my-language --dmsm my-dmsm --out my-bundle/rerank",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="captioned images")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="what to write")
    parser.add_argument("--detector", type=Path, required=True, metavar="DIR")
    parser.add_argument("--language", type=Path, required=True, metavar="DIR")
    parser.add_argument("--dmsm", type=Path, metavar="DIR", help="a similarity model")
    parser.add_argument("--grounded", type=Path, metavar="DIR", help="a grounded model")
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default="default",
        help="settings where no file is given (default: default)",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE.toml",
        help="settings, tables [mert] and [generation]; those it does not name are the paper's",
    )  # fmt: skip
    parser.add_argument(
        "--objective", metavar="METRIC", help="bleu, cider, meteor, or a sum: cider+0.5bleu"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="of the networks (default: all)")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="for the lists (default: 1)"
    )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Tune, write weights and confidence, and say what they are worth."""
    from sightwords.corpus import open_corpus
    from sightwords.train.rerank.run import Models, train_rerank

    config = _settings(args)
    talk = Talk()
    models = Models(args.detector, args.language, args.dmsm, args.grounded)
    ranker, confidence = train_rerank(
        open_corpus(args.sources),
        models,
        config,
        args.out,
        threads=args.threads,
        processes=args.processes,
        progress=lambda what, done: talk.images(done) if what == "images" else None,
    )
    talk.end()
    save_resolved(config, args.out)
    row: dict[str, object] = {"rerank": str(args.out), "objective": ranker.objective}
    for name, values in ranker.values.items():
        row[name] = {metric: round(value, 4) for metric, value in values.items()}
    row["confidence"] = {
        "good": f"CIDEr-D >= {confidence.threshold:g}",
        **{name: round(value, 4) for name, value in confidence.reliability.items()},
    }
    print(json.dumps(row))
    return 0


def _settings(args: argparse.Namespace) -> Config:
    """As asked; features of models that are not given are left out."""
    config = load_config(args.config) if args.config else PRESETS[args.preset]
    mert = dataclasses.replace(
        config.mert,
        dmsm=config.mert.dmsm and args.dmsm is not None,
        grounded=config.mert.grounded and args.grounded is not None,
        objective=args.objective or config.mert.objective,
    )
    return dataclasses.replace(config, mert=mert)
