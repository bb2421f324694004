"""`sightwords train language`: captions and detected words -> a language model (section 4.1)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.help import HelpFormatter
from sightwords.cli.train_progress import Talk
from sightwords.config import PRESETS, Config, load_config
from sightwords.errors import InputError
from sightwords.settings import save_resolved

if TYPE_CHECKING:
    from sightwords.language.maxent import MaxEnt
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.train.language.run import LanguageSources

Verbs = argparse._SubParsersAction  # of argparse.ArgumentParser
CHECKPOINT = "training/checkpoint.npz"
TOP_WORDS = "training/top-words.npz"
STORE = "training/text"
COUNTED = "training/vocabulary.json"


def add_parser(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "language",
        help="train a language model",
        description="Train the language model on captions, given the words detected in their "
        "images. Captions of images without detected words, and --text, count for text_weight of "
        "the settings.",
        epilog="example: sightwords train language coco-train.jsonl.gz --words top-words.npz "
        "--text more-captions.txt.gz --val coco-val.jsonl.gz --val-words val-words.npz "
        "--out my-language\n"
        "example: sightwords train language 'mine-*.tar' --detector my-detector --out my-language",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="captioned images")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the model to write")
    parser.add_argument(
        "--text", nargs="+", default=[], metavar="FILE", help="sentences without images"
    )
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--words", nargs="+", default=[], type=Path, metavar="FILE.npz",
        help="words detected in the images, by a detector that was not trained on them",
    )  # fmt: skip
    given.add_argument(
        "--detector", type=Path, metavar="DIR",
        help="find the words with this detector, which must not have been trained on the images",
    )  # fmt: skip
    parser.add_argument(
        "--vocabulary-size", type=int, default=4000, metavar="N",
        help="the N most frequent words of the captions (default: 4000)",
    )  # fmt: skip
    parser.add_argument(
        "--vocabulary", type=Path, metavar="FILE", help="words to use instead of counting"
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default="default",
        help="settings where no file is given (default: default)",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE.toml",
        help="settings, table [language]; those it does not name are the paper's",
    )  # fmt: skip
    parser.add_argument("--val", nargs="+", metavar="SOURCE", help="print perplexity on these")
    parser.add_argument(
        "--val-words", nargs="+", default=[], type=Path, metavar="FILE.npz",
        help="words detected in the images of --val, where --words does not hold them",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N",
        help="more than 1 is faster and not reproducible bit for bit (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--processes", type=int, default=0, metavar="N",
        help="for text larger than memory: N processes read it once into DIR, N threads learn it "
        "from there, one block in memory at a time (default: read and kept in memory)",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="go on after the last finished epoch in DIR"
    )
    parser.add_argument(
        "--full-precision", action="store_true",
        help="keep four bytes a weight (default: one; ten times smaller, as good)",
    )  # fmt: skip
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Train, write the model, and say how good it is."""
    from sightwords.train.data.sources import source_key
    from sightwords.train.language.run import train_language

    if not args.sources and not args.text:
        args.parser.error("give captioned images (SOURCE) or sentences (--text)")
    if args.threads < 1:
        args.parser.error(f"--threads {args.threads}: give 1 or more")
    if args.processes < 0:
        args.parser.error(f"--processes {args.processes}: give 1 or more")
    config = load_config(args.config) if args.config else PRESETS[args.preset]
    talk, started = Talk(), time.monotonic()
    sources = _sources(args, talk)
    vocabulary = _vocabulary(args, sources)
    checkpoint, store = args.out / CHECKPOINT, args.out / STORE
    if not args.resume:
        checkpoint.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)
    model = train_language(
        sources, vocabulary, config.language,
        threads=max(args.threads, args.processes), processes=args.processes,
        store=store if args.processes else None, checkpoint=checkpoint,
        store_key=source_key([*args.sources, *args.text]),
        on_tokens=talk.tokens, on_parts=talk.parts,
    )  # fmt: skip
    talk.end()
    model = model if args.full_precision else model.quantised()
    model.save(args.out)
    save_resolved(config, args.out)
    checkpoint.unlink(missing_ok=True)
    shutil.rmtree(store, ignore_errors=True)
    (args.out / COUNTED).unlink(missing_ok=True)
    if not any(checkpoint.parent.iterdir()):
        checkpoint.parent.rmdir()
    row = _described(args, model) | {"seconds": round(time.monotonic() - started, 1)}
    if args.val:
        row |= _validated(args, model, sources, config)
    print(json.dumps(row))
    return 0


def _sources(args: argparse.Namespace, talk: Talk) -> LanguageSources:
    from sightwords.corpus import open_corpus
    from sightwords.train.language.run import LanguageSources

    words = list(args.words)
    if args.detector is not None:
        words = [_detected(args.sources, args.detector, args.out / TOP_WORDS, talk)]
    # One corpus for each, so that ids of one need not differ from those of another.
    return LanguageSources(
        captions=[partial(open_corpus, source) for source in _files(args.sources, args)],
        text=[partial(open_corpus, source) for source in _files(args.text, args)],
        word_scores=words,
    )


def _files(sources: list[str], args: argparse.Namespace) -> list[str]:
    """With several processes, each file that a pattern names: they are read side by side."""
    from sightwords.corpus.sources import expand

    if not args.processes:
        return sources
    return [name for source in sources for name in expand(source)]


def _detected(sources: list[str], detector: Path, path: Path, talk: Talk) -> Path:
    from sightwords.corpus import open_corpus
    from sightwords.train.language.detected_words import write_top_words
    from sightwords.words.detector import Detector

    if not sources:
        raise InputError("--detector: there are no images to find words in; name a SOURCE")
    loaded = Detector.load(detector, calibrated=False)
    write_top_words(path, loaded, open_corpus(sources), progress=talk.images)
    talk.end()
    return path


def _vocabulary(args: argparse.Namespace, sources: LanguageSources) -> Vocabulary:
    from sightwords.corpus import open_corpus
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.text.vocabulary_file import load_vocabulary

    if args.vocabulary is not None:
        return load_vocabulary(args.vocabulary)
    if args.processes:
        return _counted(args, sources)
    examples = open_corpus(args.sources or args.text)
    captions = (caption for example in examples for caption in example.captions)
    return Vocabulary.of_captions(captions, size=args.vocabulary_size)


def _counted(args: argparse.Namespace, sources: LanguageSources) -> Vocabulary:
    """The vocabulary by several processes; a stopped run left it."""
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
    from sightwords.train.language.store import count_words

    path = args.out / COUNTED
    if not (args.resume and path.exists()):
        counts = count_words(sources.captions or sources.text, processes=args.processes)
        save_vocabulary(Vocabulary.of_counts(counts, size=args.vocabulary_size), path)
    return load_vocabulary(path)


def _described(args: argparse.Namespace, model: MaxEnt) -> dict[str, object]:
    files = [path for path in args.out.iterdir() if path.is_file()]
    return {
        "language": str(args.out),
        "words": len(model.vocabulary),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _validated(
    args: argparse.Namespace, model: MaxEnt, sources: LanguageSources, config: Config
) -> dict[str, object]:
    """Perplexity of the captions whose images have detected words; of all if there are none."""
    from sightwords.corpus import open_corpus
    from sightwords.train.language.data import NO_SET, encode_blocks, joined
    from sightwords.train.language.perplexity import corpus_perplexity
    from sightwords.train.language.run import attribute_sets_of

    files = [*sources.word_scores, *args.val_words]
    sets = attribute_sets_of(
        dataclasses.replace(sources, word_scores=files), model.vocabulary, config.language
    )
    images = [e for e in open_corpus(args.val) if not files or sets.row(e.id) != NO_SET]
    if not images:
        raise InputError("--val: none of its images has detected words; give --val-words")
    text = joined(encode_blocks(images, model.vocabulary, sets))
    found = corpus_perplexity(model, text, sets, threads=args.threads)
    return {
        "val_images": len(images),
        "val_tokens": found.tokens,
        "val_unknown": found.unknown,
        "perplexity": round(found.value, 3),
    }
