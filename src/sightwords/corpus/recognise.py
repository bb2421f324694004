"""What format a source is: by its name where that settles it, else by its first bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sightwords.corpus.folder import is_image_name
from sightwords.corpus.formats.coco import guess_images as guess_coco_images
from sightwords.corpus.formats.coco import read_coco
from sightwords.corpus.formats.flickr import TOKEN_LINE, read_flickr
from sightwords.corpus.formats.flickr import guess_images as guess_flickr_images
from sightwords.corpus.formats.hf import HUB_PREFIX, read_hf
from sightwords.corpus.formats.karpathy import read_karpathy
from sightwords.corpus.formats.manifest import Columns, find_fields, read_manifest, read_sentences
from sightwords.corpus.formats.pascal import (
    is_sentence_file,
    read_pascal_page,
    read_sentence_folder,
)
from sightwords.corpus.formats.table import delimiter_of
from sightwords.corpus.problems import Problems
from sightwords.corpus.records import Located
from sightwords.corpus.shards import SHARD_NAME, read_shards
from sightwords.corpus.sources import expand, is_url, read_text, whence
from sightwords.errors import CorpusError
from sightwords.strict_json import loads

SUPPORTED = (
    "supported are webdataset shards (NAME-{00..12}.tar, .tar.gz, a folder of them, a URL), "
    "COCO captions (captions_val2014.json), Karpathy splits (dataset_coco.json), "
    "Flickr tokens (Flickr8k.token.txt), PASCAL sentences (the saved page, or a folder of NAME.txt "
    "and NAME.jpg), a manifest (.jsonl, .csv, .tsv with image and caption), "
    "text (.txt, one sentence a line), and Hugging Face datasets (.parquet, hf:OWNER/NAME)"
)

_HEAD_BYTES = 1 << 16
_CAPTION_FILE = re.compile(
    r"^(captions_.*\.json|dataset_.*\.json|.*\.token(\.txt)?|results_\d+\.token"
    r"|(manifest|metadata|captions)\.(jsonl|ndjson|csv|tsv|txt)|results\.csv|index\.html?)(\.gz)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What `open_corpus` was asked for, beyond the source."""

    images: str | None = None
    splits: str | None = None
    captions: tuple[str, ...] | None = None
    image_column: str | None = None
    id_column: str | None = None
    encoding: str = "utf-8"
    need_captions: bool = True
    hub_split: str | None = None

    @property
    def columns(self) -> Columns:
        """The columns that were named."""
        return Columns(self.image_column, self.captions, self.id_column)


@dataclass(frozen=True, slots=True)
class Part:
    """One source, recognised, ready to be read any number of times."""

    source: str
    format: str
    reason: str
    read: Callable[[Problems], Iterator[Located]]
    ids_unique: bool = False


def recognise(source: str, options: Options = Options()) -> list[Part]:  # noqa: B008
    """The parts of a source: one, or one per file where a pattern names files other than shards."""
    if source.startswith(HUB_PREFIX) and not is_url(source):
        return [_hf(source, options, "the prefix hf:")]
    if not is_url(source) and Path(source).is_dir():
        return [_folder(Path(source), options)]
    names = expand(source)
    if all(SHARD_NAME.search(name) for name in names):
        _refuse_absent(names)
        return [_shards(source, names, options)]
    if all(name.endswith(".parquet") for name in names):
        _refuse_absent(names)
        return [_hf(source, options, "the ending .parquet")]
    return [_file(name, options) for name in names]


def _refuse_absent(names: list[str]) -> None:
    """Say at once when nothing is there; one absent shard among others is reported in reading."""
    if not any(is_url(name) or Path(name).is_file() for name in names):
        raise CorpusError(f"{names[0]}: no such file; {whence(names[0])}")


def _shards(source: str, names: list[str], options: Options) -> Part:
    read = partial(_read_shards, tuple(names), options.need_captions)
    reason = f"the ending .tar; {len(names)} shard(s)"
    return Part(source, "webdataset shards", reason, read)


def _read_shards(
    names: tuple[str, ...], need_captions: bool, problems: Problems
) -> Iterator[Located]:
    return read_shards(names, problems, need_captions=need_captions)


def _hf(source: str, options: Options, reason: str) -> Part:
    split = options.hub_split if source.startswith(HUB_PREFIX) else None
    read = partial(read_hf, source, images=options.images, columns=options.columns, split=split)
    return Part(source, "Hugging Face dataset", reason, read)


def _file(source: str, options: Options) -> Part:
    """One file of text, by its ending and its first bytes."""
    head = _head(source, options.encoding)
    name = source.removesuffix(".gz").lower()
    if name.endswith(".json") and not _is_json_lines(head):
        return _json(source, head, options)
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return _manifest(source, options, "JSON, an object a line")
    if name.endswith((".html", ".htm")) and "<img" in head.lower():
        return _local(source, "PASCAL sentences", "a page with images", read_pascal_page, options)
    if _is_token_file(head):
        return _flickr(source, options)
    header = head.split("\n", 1)[0].strip("\r")
    names = header.split(delimiter_of(header))
    fields = find_fields([n.strip('"') for n in names], options.columns)
    if name.endswith((".csv", ".tsv")) or (fields.image and fields.captions):
        return _manifest(source, options, f"a header of {len(names)} columns")
    if name.endswith(".txt"):
        read = partial(read_sentences, source, encoding=options.encoding)
        return Part(source, "text", "the ending .txt; one sentence a line", read, ids_unique=True)
    raise CorpusError(f"{source}: is of no known format; {SUPPORTED}")


def _head(source: str, encoding: str) -> str:
    """The first characters of a file; a file that cannot be opened is an error here and now."""
    if re.match(r"^[\w.-]+/[\w.-]+$", source) and not Path(source).exists():
        raise CorpusError(
            f"{source}: no such file; check the path (for the hub's dataset write hf:{source})"
        )
    return read_text(source, encoding=encoding, limit=_HEAD_BYTES)


def _is_json_lines(head: str) -> bool:
    lines = [line for line in head.split("\n", 2)[:2] if line.strip()]
    try:
        values = [loads(line, finite=False) for line in lines]
    except ValueError:
        return False
    return len(values) == 2 and all(isinstance(value, dict) for value in values)


def _json(source: str, head: str, options: Options) -> Part:
    start = head.lstrip()
    if start.startswith("[") and '"image_id"' in head and '"caption"' in head:
        raise CorpusError(
            f"{source}: holds a system's captions (COCO results format), not a corpus; "
            "score it with sightwords evaluate"
        )
    if start.startswith("{") and '"images"' in head and '"sentences"' in head:
        return _local(
            source, "Karpathy splits", "'images' with 'sentences'", read_karpathy, options
        )
    if start.startswith("{") and re.search(r'"(images|annotations)"\s*:\s*\[', head):
        return _coco(source, options)
    raise CorpusError(f"{source}: is JSON, but no captions are found at its start; {SUPPORTED}")


def _local(
    source: str, name: str, reason: str, read: Callable[..., Iterator[Located]], options: Options
) -> Part:
    reader = partial(read, source, images=options.images, encoding=options.encoding)
    return Part(source, name, f"{reason}; {_images_note(options.images)}", reader)


def _images_note(images: str | None) -> str:
    return f"images in {images}" if images else "no image folder"


def _coco(source: str, options: Options) -> Part:
    options = replace(options, images=options.images or guess_coco_images(source))
    return _local(source, "COCO captions", "'images' and 'annotations'", read_coco, options)


def _flickr(source: str, options: Options) -> Part:
    images = options.images or guess_flickr_images(source)
    read = partial(
        read_flickr,
        source,
        images=images,
        splits=options.splits,
        encoding=options.encoding,
    )
    reason = f"lines of NAME.jpg#0 and a caption; {_images_note(images)}"
    return Part(source, "Flickr tokens", reason, read)


def _manifest(source: str, options: Options, reason: str) -> Part:
    read = partial(
        read_manifest,
        source,
        images=options.images,
        columns=options.columns,
        encoding=options.encoding,
    )
    return Part(source, "manifest", reason, read)


def _is_token_file(head: str) -> bool:
    """Whether most of the first lines are `NAME.jpg#0` and a caption."""
    lines = [line for line in head.split("\n")[:5] if line.strip()]
    matches = [TOKEN_LINE.match(line) for line in lines]
    good = [m for m in matches if m and re.search(r"\.(jpe?g|png)(\.\d+)?$", m["name"], re.I)]
    return bool(lines) and 2 * len(good) > len(lines)


def _folder(folder: Path, options: Options) -> Part:
    """A folder: of shards, of parquet, with one caption file, or with a text file an image."""
    files = [p for p in sorted(folder.iterdir()) if p.is_file() and not p.name.startswith(".")]
    shards = [str(p) for p in files if SHARD_NAME.search(p.name)]
    if shards:
        return _shards(str(folder), shards, options)
    if any(p.suffix == ".parquet" for p in files):
        return _hf(str(folder / "*.parquet"), options, "a folder of .parquet files")
    annotations = folder / "annotations"
    more = sorted(annotations.iterdir()) if annotations.is_dir() else []
    captioned = [p for p in [*files, *more] if _CAPTION_FILE.match(p.name)]
    if len(captioned) == 1:
        return _file(str(captioned[0]), _with_images(captioned[0], folder, options))
    if captioned:
        names = ", ".join(str(p) for p in captioned)
        raise CorpusError(f"{folder}: holds several caption files; name one of them: {names}")
    if any(is_sentence_file(p) for p in folder.rglob("*txt")):
        return _local(str(folder), "sentence folder", "text files", read_sentence_folder, options)
    raise CorpusError(f"{folder}: no captions found in this folder; {SUPPORTED}")


def _with_images(captions: Path, folder: Path, options: Options) -> Options:
    """For a folder, images are looked for where the format puts them, else anywhere below."""
    if options.images or _is_manifest_name(captions.name):
        return options
    guessed = guess_coco_images(str(captions)) or guess_flickr_images(str(captions))
    if guessed is None and any(is_image_name(p.name) for p in folder.rglob("*")):
        guessed = str(folder)
    return replace(options, images=guessed)


def _is_manifest_name(name: str) -> bool:
    return re.match(r"^(manifest|metadata|captions|results)\.", name, re.IGNORECASE) is not None
