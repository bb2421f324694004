"""`sightwords data inspect SOURCE...` and `sightwords data convert SOURCE... --out DIR`."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from sightwords.cli.help import HelpFormatter
from sightwords.corpus import Corpus, Problem, open_corpus
from sightwords.corpus.convert import EncodedImage, convert
from sightwords.corpus.folder import stem
from sightwords.corpus.report import problem_json, problem_lines, report_json, report_lines
from sightwords.corpus.sources import read_bytes
from sightwords.corpus.summary import Summary, summarise
from sightwords.errors import CorpusError, ImageError
from sightwords.images import decode_apart, fit_size, resize
from sightwords.text.ptb import tokenize_all
from sightwords.types import ImageRef

_ENDINGS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "AVIF": "avif", "GIF": "gif"}
_QUALITY = {"avif": 60, "jpeg": 90}
_DECISIVE = (
    "sources", "images", "split", "splits", "captions", "image_column", "id_column", "encoding",
    "shard_size", "format", "max_side",
)  # fmt: skip
"""Arguments that decide what shards hold; kept in their index."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb and its two sub-verbs."""
    parser = subparsers.add_parser(
        "data",
        help="look into a caption corpus, or convert it to shards",
        description="Look into a caption corpus of any format, or convert it to shards.",
        epilog="example: sightwords data inspect my-photos.csv",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_inspect(verbs)
    _add_convert(verbs)


def _add_inspect(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "inspect",
        help="count images, captions and words, and name every problem",
        description="Count images, captions and words of a corpus, and name every problem with "
        "its remedy. Several sources are read as one corpus.",
        epilog="example: sightwords data inspect 'coco-{00..11}.tar'\n"
        "example: sightwords data inspect captions_val2014.json --images val2014 "
        "--problems bad.jsonl",
        formatter_class=HelpFormatter,
    )
    _add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check-images",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="decode every image, which finds unreadable ones (default: on)",
    )
    parser.set_defaults(run=run_inspect, parser=parser)


def _add_convert(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "convert",
        help="write webdataset shards",
        description="Write a corpus as webdataset shards: KEY.avif (or .jpg, ...) beside KEY.json. "
        "Start a stopped run again with the same command: whole shards are kept.",
        epilog="example: sightwords data convert captions_val2014.json --images val2014 "
        "--out shards --format avif --max-side 384",
        formatter_class=HelpFormatter,
    )
    _add_source_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for shards")
    parser.add_argument("--name", help="shards are NAME-00000.tar, ... (default: the source's)")
    parser.add_argument(
        "--shard-size",
        type=parse_size,
        default=56 * 2**20,
        metavar="SIZE",
        help="at most this many bytes a shard; K, M and G are powers of 1024 (default: 56M)",
    )
    parser.add_argument(
        "--format",
        choices=("keep", "avif", "jpeg"),
        default="keep",
        help="keep the images' bytes, metadata included, or encode upright RGB anew "
        "(default: keep)",
    )
    parser.add_argument(
        "--max-side",
        type=_positive,
        metavar="PX",
        help="shrink longer sides to this; never enlarge",
    )
    parser.add_argument(
        "--quality", type=_quality, help="1 to 100 (default: 60 for avif, 90 for jpeg)"
    )
    parser.set_defaults(run=run_convert, parser=parser)


def _add_source_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="file, folder, pattern, URL, or hf:OWNER/NAME"
    )
    parser.add_argument("--images", metavar="DIR", help="folder of the images")
    parser.add_argument("--split", help="only this split, or several: train,restval")
    parser.add_argument(
        "--splits", metavar="PATH", help="Flickr: folder of split files, or Karpathy's JSON"
    )
    parser.add_argument("--captions", metavar="COLUMN", help="caption column, or several: a,b")
    parser.add_argument("--image-column", metavar="COLUMN", help="image column of a manifest")
    parser.add_argument("--id-column", metavar="COLUMN", help="id column of a manifest")
    parser.add_argument("--encoding", default="utf-8", help="of text files (default: utf-8)")
    parser.add_argument(
        "--allow-urls",
        action="store_true",
        help="fetch images that a caption file names by an http or https URL, up to 64 MB each",
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first problem, exit 1")
    parser.add_argument(
        "--problems", type=Path, metavar="FILE", help="write every problem as JSON lines"
    )


def run_inspect(args: argparse.Namespace) -> int:
    """Print the report; 1 when nothing could be read, or at the first problem with --strict."""
    summary = Summary()
    failure: CorpusError | None = None
    with _opened(args) as corpus, _progress("examples") as progress:
        try:
            summarise(
                corpus,
                into=summary,
                tokenize=tokenize_all,
                probe=_probe if args.check_images else None,
                progress=progress,
            )
        except CorpusError as error:
            if args.strict or not corpus.problems:
                raise
            failure = error
    if args.json:
        print(json.dumps(report_json(corpus, summary), indent=1, ensure_ascii=False))
    else:
        print("\n".join(report_lines(corpus, summary)))
    if failure is not None:
        raise failure
    return 0


def run_convert(args: argparse.Namespace) -> int:
    """Print each shard as it is written; 0 even when bad records were left out and named."""
    if args.format == "keep" and (args.max_side or args.quality):
        args.parser.error("--max-side and --quality encode anew: add --format avif or jpeg")
    quality = None if args.format == "keep" else args.quality or _QUALITY[args.format]
    settings = {name: getattr(args, name) for name in _DECISIVE} | {"quality": quality}
    written = 0
    with _opened(args) as corpus, _os_errors(args.out):
        for shard in convert(
            corpus,
            args.out,
            name=args.name or default_name(args.sources[0]),
            encode=_encoder(args.format, args.max_side, quality),
            shard_bytes=args.shard_size,
            settings=settings,
        ):
            written += shard.examples
            print(f"{shard.path}\t{shard.examples}" + ("\tkept" if shard.resumed else ""))
    for line in problem_lines(corpus):
        print(line, file=sys.stderr)
    if not written:
        raise CorpusError(f"{', '.join(args.sources)}: no image could be written")
    return 0


def default_name(source: str) -> str:
    """A name for shards, from their source.

    >>> default_name("data/coco-{00..11}.tar"), default_name("hf:jxie/flickr8k"), default_name(".")
    ('coco', 'flickr8k', 'corpus')
    """
    name = re.split(r"[{*?\[]", stem(source.rstrip("/")))[0]
    name = re.sub(r"[^\w-]+", "-", re.sub(r"[-_.]*\d*$", "", name))
    return name.strip("-_") or "corpus"


@contextmanager
def _os_errors(out: Path) -> Iterator[None]:
    """A full disk or a folder that cannot be written is the user's to mend, not a crash."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CorpusError(
            f"{out}: cannot be written ({error.strerror or error}); check the folder and the disk, "
            "then run the same command again"
        ) from error


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Corpus]:
    """The corpus the arguments name, every problem going to --problems as it is met."""
    with _problem_sink(args.problems) as sink:
        yield open_corpus(
            args.sources,
            images=args.images,
            split=args.split,
            splits=args.splits,
            captions=args.captions,
            image_column=args.image_column,
            id_column=args.id_column,
            encoding=args.encoding,
            strict=args.strict,
            allow_urls=args.allow_urls,
            on_problem=sink,
        )


@contextmanager
def _problem_sink(path: Path | None) -> Iterator[Callable[[Problem], None] | None]:
    if path is None:
        yield None
        return
    try:
        file = path.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CorpusError(f"{path}: cannot be written ({error.strerror})") from error
    with file:
        yield lambda problem: print(json.dumps(problem_json(problem)), file=file)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None] | None]:
    """A counter on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        yield lambda count: print(f"\r{count:,} {what}", end="", file=sys.stderr, flush=True)
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _probe(image: ImageRef) -> tuple[str, int, int]:
    """Format and upright size of an image that decodes to its last pixel."""
    data = read_bytes(image)
    upright = decode_apart(ImageRef(image.location, image.member, data), whole=True)
    return _format(data), *upright.size


def _format(data: bytes) -> str:
    with Image.open(io.BytesIO(data)) as opened:
        return opened.format or "unknown"


def _encoder(
    target: str, max_side_px: int | None, quality: int | None
) -> Callable[[ImageRef], EncodedImage]:
    def encode(image: ImageRef) -> EncodedImage:
        data = read_bytes(image)
        upright = decode_apart(ImageRef(image.location, image.member, data), whole=True)
        if target == "keep":
            found = _format(data)
            return EncodedImage(_ENDINGS.get(found, found.lower()), data, upright.size)
        smaller = upright
        if max_side_px is not None and max(upright.size) > max_side_px:
            size = fit_size(*upright.size, max_side_px)
            smaller = resize(upright, size, resample="bicubic")
        buffer = io.BytesIO()
        # One thread each: AVIF's bytes could otherwise depend on the number of cores. Speed 8 takes
        # a sixth of the time of Pillow's 6 and 1.5 % more bytes (40 PASCAL images at 384 px).
        options: dict[str, Any] = {"max_threads": 1, "speed": 8} if target == "avif" else {}
        try:
            smaller.save(buffer, target.upper(), quality=quality, **options)
        except (OSError, ValueError, KeyError) as error:
            raise ImageError(f"{image}: cannot be written as {target} ({error})") from error
        return EncodedImage(_ENDINGS[target.upper()], buffer.getvalue(), upright.size)

    return encode


def parse_size(text: str) -> int:
    """Bytes from `56M`, `1.5G`, `4096`.

    >>> parse_size("56M"), parse_size("1.5k"), parse_size("4096")
    (58720256, 1536, 4096)
    """
    units = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
    number = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = number[-1:] if number[-1:] in units else ""
    try:
        size = int(float(number.removesuffix(unit) if unit else number) * units[unit])
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as 56M or 1G")
    return size


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _quality(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not within 1 and 100")
    return number
