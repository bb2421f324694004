"""`sightwords data inspect SOURCE...` and `sightwords data convert SOURCE... --out DIR`."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from sightwords.cli.options import (
    HelpFormatter,
    add_allow_urls,
    add_json,
    add_set,
    at_least,
    read_set,
)
from sightwords.corpus import Corpus, Problem, open_corpus
from sightwords.corpus.convert import EncodedImage, convert
from sightwords.corpus.folder import stem
from sightwords.corpus.report import problem_json, problem_lines, report_json, report_lines
from sightwords.corpus.sources import read_bytes
from sightwords.corpus.summary import Summary, summarise
from sightwords.errors import CorpusError, ImageError, InputError
from sightwords.images import decode_apart, fit_size, resize
from sightwords.text.ptb import tokenize_all
from sightwords.types import ImageRef

_ENDINGS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "AVIF": "avif", "GIF": "gif"}
_QUALITY = {"avif": 60, "jpeg": 90}


@dataclass(frozen=True, kw_only=True)
class ReadSettings:
    """How to read a corpus."""

    splits: str = ""
    """Flickr: folder of split files; or a JSON file of Karpathy's splits."""
    captions: str = ""
    """Caption column, or several: a,b."""
    image_column: str = ""
    """Image column of a manifest."""
    id_column: str = ""
    """Id column of a manifest."""
    encoding: str = "utf-8"
    """Encoding of text files."""
    strict: bool = False
    """Whether the first problem is an error."""
    problems: str = ""
    """A file for every problem, as JSON lines."""


@dataclass(frozen=True, kw_only=True)
class InspectSettings(ReadSettings):
    """What few inspections change."""

    check_images: bool = True
    """Whether every image is decoded, which finds unreadable ones."""


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(ReadSettings):
    """What few conversions change."""

    name: str = ""
    """Shards are NAME-00000.tar, ...; empty: the source's name."""
    shard_size: str = "56M"
    """At most this many bytes per shard; K, M and G are powers of 1024."""
    quality: int = 0
    """1 to 100; 0: 60 for AVIF, 90 for JPEG."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb and its two sub-verbs."""
    parser = subparsers.add_parser(
        "data",
        help="inspect a caption corpus, or convert it to shards",
        description="Inspect a caption corpus of any format, or convert it to shards.",
        epilog="example: sightwords data inspect my-photos.csv",
        formatter_class=HelpFormatter,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_inspect(verbs)
    _add_convert(verbs)


def _add_inspect(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "inspect",
        help="count images, captions and words, and list every problem",
        description="Count images, captions and words of a corpus, and list every problem and how "
        "to fix it. Several sources are read as one corpus.",
        epilog="example: sightwords data inspect 'coco-{00..11}.tar'\n"
        "example: sightwords data inspect captions_val2014.json --images val2014 "
        "--set problems=bad.jsonl\n"
        "example: sightwords data inspect photos.csv --set captions=text --set encoding=latin-1",
        formatter_class=HelpFormatter,
    )
    _add_source_arguments(parser)
    add_json(parser, "JSON")
    add_set(parser, InspectSettings)
    parser.set_defaults(run=run_inspect, parser=parser)


def _add_convert(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "convert",
        help="write webdataset shards",
        description="Write a corpus as webdataset shards: KEY.avif (or .jpg, ...) beside KEY.json. "
        "The same command resumes a stopped run: finished shards are kept.",
        epilog="example: sightwords data convert captions_val2014.json --images val2014 "
        "--out shards --format avif --max-side 384",
        formatter_class=HelpFormatter,
    )
    _add_source_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for shards")
    parser.add_argument(
        "--format",
        choices=("keep", "avif", "jpeg"),
        default="keep",
        help="keep the bytes of the images, with their metadata, or encode them again as upright "
        "RGB (default: keep)",
    )
    parser.add_argument(
        "--max-side",
        type=at_least(1),
        metavar="PX",
        help="shrink images whose longer side is longer than this",
    )
    add_set(parser, ConvertSettings)
    parser.set_defaults(run=run_convert, parser=parser)


def _add_source_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="file, folder, pattern, URL, or hf:OWNER/NAME"
    )
    parser.add_argument("--images", metavar="DIR", help="folder of the images")
    parser.add_argument("--split", help="only this split, or several: train,restval")
    add_allow_urls(parser)


def run_inspect(args: argparse.Namespace) -> int:
    """Print the report; fail if nothing could be read, or with `strict` at the first problem."""
    settings = read_set(InspectSettings, args)
    summary = Summary()
    failure: CorpusError | None = None
    with _opened(args, settings) as corpus, _progress("examples") as progress:
        try:
            summarise(
                corpus,
                into=summary,
                tokenize=tokenize_all,
                probe=_probe if settings.check_images else None,
                progress=progress,
            )
        except CorpusError as error:
            if settings.strict or not corpus.problems:
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
    settings = read_set(ConvertSettings, args)
    shard_bytes = parse_size(settings.shard_size)
    if args.format == "keep" and (args.max_side or settings.quality):
        args.parser.error("--max-side and quality need --format avif or jpeg")
    if not 0 <= settings.quality <= 100:
        args.parser.error(f"--set quality={settings.quality}: expected 1 to 100")
    quality = None if args.format == "keep" else settings.quality or _QUALITY[args.format]
    written = 0
    with _opened(args, settings) as corpus, _os_errors(args.out):
        for shard in convert(
            corpus,
            args.out,
            name=settings.name or default_name(args.sources[0]),
            encode=_encoder(args.format, args.max_side, quality),
            shard_bytes=shard_bytes,
            settings=_decisive(args, settings, shard_bytes, quality),
        ):
            written += shard.examples
            print(f"{shard.path}\t{shard.examples}" + ("\tkept" if shard.resumed else ""))
    for line in problem_lines(corpus):
        print(line, file=sys.stderr)
    if not written:
        raise CorpusError(f"{', '.join(args.sources)}: no image could be written")
    return 0


def _decisive(
    args: argparse.Namespace, settings: ConvertSettings, shard_bytes: int, quality: int | None
) -> dict[str, Any]:
    """What decides the contents of the shards; kept in their index."""
    return {
        "sources": args.sources,
        "images": args.images,
        "split": args.split,
        "splits": settings.splits or None,
        "captions": settings.captions or None,
        "image_column": settings.image_column or None,
        "id_column": settings.id_column or None,
        "encoding": settings.encoding,
        "shard_size": shard_bytes,
        "format": args.format,
        "max_side": args.max_side,
        "quality": quality,
    }


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
    """Report a full disk or a folder that cannot be written as one line, without a traceback."""
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
def _opened(args: argparse.Namespace, settings: ReadSettings) -> Iterator[Corpus]:
    """The corpus that the arguments name; each problem is written as it is met."""
    with _problem_sink(settings.problems) as sink:
        yield open_corpus(
            args.sources,
            images=args.images,
            split=args.split,
            splits=settings.splits or None,
            captions=settings.captions or None,
            image_column=settings.image_column or None,
            id_column=settings.id_column or None,
            encoding=settings.encoding,
            strict=settings.strict,
            allow_urls=args.allow_urls,
            on_problem=sink,
        )


@contextmanager
def _problem_sink(path: str) -> Iterator[Callable[[Problem], None] | None]:
    if not path:
        yield None
        return
    try:
        file = Path(path).open("w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
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
        raise InputError(f"shard_size: {text!r} is not a size; write it as 56M or 1G")
    return size
