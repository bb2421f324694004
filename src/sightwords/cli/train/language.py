"""`sightwords train language`: captions and detected words -> a language model (section 4.1)."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sightwords.cli.options import HelpFormatter
from sightwords.cli.train.progress import ProgressLine
from sightwords.cli.train.settings import add_settings, print_settings, read_settings
from sightwords.errors import InputError

if TYPE_CHECKING:
    from sightwords.config import Settings
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
        "images. Captions of images without detected words, and sentences without images (the "
        "setting data.text), count for language.text_weight. The same command resumes where a "
        "stopped run ended.",
        epilog="example: sightwords train language coco-train.jsonl.gz --words top-words.npz "
        "val-words.npz --set data.text=more-captions.txt.gz --val coco-val.jsonl.gz "
        "--out my-captioner/language\n"
        "example: sightwords train language 'mine-*.tar' --detector my-detector "
        "--out my-captioner/language",
        formatter_class=HelpFormatter,
    )
    add_settings(parser, "language")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the model to write")
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--words", nargs="+", default=[], type=Path, metavar="FILE.npz",
        help="words detected in the images (those of --val too), by a detector that was not "
        "trained on them",
    )  # fmt: skip
    given.add_argument(
        "--detector", type=Path, metavar="DIR",
        help="find the words with this detector, which must not have been trained on the images",
    )  # fmt: skip
    parser.add_argument(
        "--vocabulary", type=Path, metavar="FILE",
        help="words to use (default: the most frequent ones of the captions, as many as "
        "data.language_words)",
    )  # fmt: skip
    parser.add_argument("--val", nargs="+", metavar="SOURCE", help="print perplexity on these")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Train, write the model, and print how good it is."""
    settings = read_settings(args)
    if args.print_config:
        return print_settings(settings)
    from sightwords.settings import save_resolved
    from sightwords.train.data.sources import source_key
    from sightwords.train.language.run import train_language

    line, started = ProgressLine(), time.monotonic()
    data, workers = settings.more["data"], settings.run.workers
    captions, text = [*args.sources] or [*data.train], [*data.text]
    if not captions and not text:
        args.parser.error("give captioned images (SOURCE) or sentences (--set data.text=FILE)")
    sources = _sources(captions, text, args, workers, line)
    vocabulary = _vocabulary(args, sources, settings)
    checkpoint, store = args.out / CHECKPOINT, args.out / STORE
    model = train_language(
        sources, vocabulary, settings.config.language,
        threads=max(settings.run.threads, workers, 1), processes=workers,
        store=store if workers else None, checkpoint=checkpoint,
        store_key=source_key([*captions, *text]),
        on_tokens=line.tokens, on_parts=line.parts,
    ).quantised()  # fmt: skip
    line.end()
    model.save(args.out)
    save_resolved(settings.config, args.out)
    checkpoint.unlink(missing_ok=True)
    shutil.rmtree(store, ignore_errors=True)
    (args.out / COUNTED).unlink(missing_ok=True)
    if not any(checkpoint.parent.iterdir()):
        checkpoint.parent.rmdir()
    row = _described(args, model) | {"seconds": round(time.monotonic() - started, 1)}
    if args.val:
        row |= _validated(args, model, sources, settings)
    print(json.dumps(row))
    return 0


def _sources(
    captions: list[str], text: list[str], args: argparse.Namespace, workers: int, line: ProgressLine
) -> LanguageSources:
    from sightwords.corpus import open_corpus
    from sightwords.corpus.sources import expand
    from sightwords.train.language.run import LanguageSources

    words = list(args.words)
    if args.detector is not None:
        words = [_detected(captions, args.detector, args.out / TOP_WORDS, line)]
    if workers:  # each file that a pattern names, since processes read them side by side
        captions = [name for source in captions for name in expand(source)]
        text = [name for source in text for name in expand(source)]
    # One corpus for each, so that ids of one need not differ from those of another.
    return LanguageSources(
        captions=[partial(open_corpus, source) for source in captions],
        text=[partial(open_corpus, source) for source in text],
        word_scores=words,
    )


def _detected(sources: list[str], detector: Path, path: Path, line: ProgressLine) -> Path:
    from sightwords.corpus import open_corpus
    from sightwords.train.language.detected_words import write_top_words
    from sightwords.words.detector import Detector

    if not sources:
        raise InputError("--detector: there are no images to find words in; name a SOURCE")
    loaded = Detector.load(detector, calibrated=False)
    write_top_words(path, loaded, open_corpus(sources), progress=line.images)
    line.end()
    return path


def _vocabulary(
    args: argparse.Namespace, sources: LanguageSources, settings: Settings
) -> Vocabulary:
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.text.vocabulary_file import load_vocabulary

    if args.vocabulary is not None:
        return load_vocabulary(args.vocabulary)
    size: int = settings.more["data"].language_words
    counted = sources.captions or sources.text
    if settings.run.workers:
        return _counted(args.out / COUNTED, sources, size, settings.run.workers)
    captions = (c for corpus in counted for example in corpus() for c in example.captions)
    return Vocabulary.of_captions(captions, size=size)


def _counted(path: Path, sources: LanguageSources, size: int, workers: int) -> Vocabulary:
    """The vocabulary by several processes; a stopped run left it."""
    from sightwords.text.vocabulary import Vocabulary
    from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
    from sightwords.train.language.store import count_words

    if not path.exists():
        counts = count_words(sources.captions or sources.text, processes=workers)
        save_vocabulary(Vocabulary.of_counts(counts, size=size), path)
    return load_vocabulary(path)


def _described(args: argparse.Namespace, model: MaxEnt) -> dict[str, object]:
    files = [path for path in args.out.iterdir() if path.is_file()]
    return {
        "language": str(args.out),
        "words": len(model.vocabulary),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _validated(
    args: argparse.Namespace, model: MaxEnt, sources: LanguageSources, settings: Settings
) -> dict[str, object]:
    """Perplexity of the captions whose images have detected words; of all if there are none."""
    from sightwords.corpus import open_corpus
    from sightwords.train.language.data import NO_SET, encode_blocks, joined
    from sightwords.train.language.perplexity import corpus_perplexity
    from sightwords.train.language.run import attribute_sets_of

    sets = attribute_sets_of(sources, model.vocabulary, settings.config.language)
    files = sources.word_scores
    images = [e for e in open_corpus(args.val) if not files or sets.row(e.id) != NO_SET]
    if not images:
        raise InputError(
            "--val: none of its images has detected words; give a file with them to --words"
        )
    text = joined(encode_blocks(images, model.vocabulary, sets))
    found = corpus_perplexity(model, text, sets, threads=settings.run.threads or 1)
    return {
        "val_images": len(images),
        "val_tokens": found.tokens,
        "val_unknown": found.unknown,
        "perplexity": round(found.value, 3),
    }
