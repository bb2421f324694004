"""Hugging Face datasets: local parquet files and hub ids, streamed (extra `hf`).

    open_corpus("photos.parquet")        open_corpus("hf:jxie/flickr8k", split="test")

The image column is the one with the Image feature, else one of bytes, else one named as in a
manifest; caption columns are found by name, and may hold text, a list of text, or records with
`raw`. Images stay encoded: nothing is decoded, or kept on disk, while reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sightwords.corpus.folder import ImageFolder, parent, stem
from sightwords.corpus.formats.manifest import Columns, Fields, find_fields, without_ending
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.records import Located, captions_of, text_of
from sightwords.corpus.sources import expand
from sightwords.errors import CorpusError, SightwordsError, require
from sightwords.types import Example, ImageRef

HUB_PREFIX = "hf:"


def read_hf(
    source: str,
    problems: Problems,
    *,
    images: str | None = None,
    columns: Columns = Columns(),  # noqa: B008
    split: str | None = None,
) -> Iterator[Located]:
    """Examples of a dataset; neighbouring rows with one id are merged."""
    folder = ImageFolder(images) if images is not None else None
    for name, dataset in _open(source, split):
        reader = _Reader(source, name, columns, folder)
        yield from _joined(reader.rows(dataset, problems))


def _open(source: str, split: str | None) -> Iterator[tuple[str, Any]]:
    """Name and rows of each split."""
    datasets = require("datasets", extra="hf", purpose=f"reading {source}")
    try:
        if not source.startswith(HUB_PREFIX):
            files = expand(source)
            yield (
                "",
                datasets.load_dataset("parquet", data_files=files, split="train", streaming=True),
            )
            return
        hub_id, _, config = source.removeprefix(HUB_PREFIX).partition(":")
        loaded = datasets.load_dataset(hub_id, config or None, split=split, streaming=True)
        yield from loaded.items() if split is None else [(split, loaded)]
    except (SightwordsError, GeneratorExit):
        raise
    except Exception as error:  # the library raises whatever its back ends raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorpusError(
            f"{source}: the datasets library cannot open it ({reason}); check the name, the split "
            "and the network"
        ) from error


@dataclass(frozen=True, slots=True)
class _Reader:
    """How the rows of one split become examples."""

    source: str
    split: str
    columns: Columns
    folder: ImageFolder | None

    def rows(self, dataset: Any, problems: Problems) -> Iterator[Located]:
        """Each row as an example; images stay encoded."""
        datasets = require("datasets", extra="hf", purpose=f"reading {self.source}")
        features = dataset.features or {}
        fields = _fields(self.source, features, self.columns)
        if isinstance(features.get(fields.image), datasets.Image):
            dataset = dataset.cast_column(fields.image, datasets.Image(decode=False))
        for number, row in enumerate(dataset):
            where = f"{self.source} row {number}"
            image = _image(self.source, row.get(fields.image), self.folder)
            if fields.image and image is None:
                found = f"nothing usable in column {fields.image!r}"
                problems.add(Kind.MISSING_IMAGE, where, found)
                continue
            captions = _captions(where, row, fields, problems)
            row_id = _row_id(row, fields, image) or f"{self.split or stem(self.source)}:{number}"
            yield where, self._example(row_id, row, image, captions)

    def _example(
        self, row_id: str, row: Mapping[str, Any], image: ImageRef | None, captions: tuple[str, ...]
    ) -> Example:
        name = stem(self.source.removeprefix(HUB_PREFIX).partition(":")[0])
        split = text_of(row.get("split")) or self.split
        dataset = text_of(row.get("dataset")) or name
        return Example(row_id, image, captions, split, dataset)


def _fields(source: str, features: Mapping[str, Any], columns: Columns) -> Fields:
    datasets = require("datasets", extra="hf", purpose=f"reading {source}")
    fields = find_fields(list(features), columns)
    typed = [n for n, kind in features.items() if isinstance(kind, datasets.Image)]
    blobs = [n for n, kind in features.items() if _holds_bytes(kind)]
    if columns.image is None and (typed or blobs):
        fields = Fields((typed + blobs)[0], fields.captions, fields.id)
    if not fields.captions or (columns.image is not None and not fields.image):
        raise CorpusError(
            f"{source}: no caption column among {', '.join(features) or 'no columns'}; "
            "name the columns with --set captions=COLUMN and --set image_column=COLUMN"
        )
    return fields


def _holds_bytes(kind: Any) -> bool:
    if isinstance(kind, Mapping):
        return "bytes" in kind
    return getattr(kind, "dtype", None) in ("binary", "large_binary")


def _image(source: str, value: Any, folder: ImageFolder | None) -> ImageRef | None:
    data, path = value, value
    if isinstance(value, Mapping):
        data, path = value.get("bytes"), value.get("path")
    if isinstance(data, bytes):
        return ImageRef(source, path if isinstance(path, str) else None, data)
    if not isinstance(path, str) or not path:
        return None
    return (folder or ImageFolder(parent(source))).image(path)


def _row_id(row: Mapping[str, Any], fields: Fields, image: ImageRef | None) -> str:
    if fields.id and (found := text_of(row.get(fields.id))):
        return found
    for name in ("filename", "file_name"):
        if found := text_of(row.get(name)):
            return without_ending(found)
    return without_ending(image.member) if image is not None and image.member else ""


def _captions(
    where: str, row: Mapping[str, Any], fields: Fields, problems: Problems
) -> tuple[str, ...]:
    captions: tuple[str, ...] = ()
    for name in fields.captions:
        found = captions_of(_raw(row[name]))
        if found is None and row[name] is not None:
            problems.add(Kind.MALFORMED_RECORD, where, f"{name!r} is not text or a list of text")
        captions += found or ()
    return captions


def _raw(value: Any) -> Any:
    """Records with `raw` (as the COCO and Flickr datasets on the hub have) to their text."""
    if isinstance(value, Mapping) and "raw" in value:
        return value["raw"]
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        return [item.get("raw") for item in value]
    return value


def _joined(records: Iterable[Located]) -> Iterator[Located]:
    """Merge neighbours with one id; the first keeps its image and its place."""
    held: Located | None = None
    for where, example in records:
        if held is not None and held[1].id == example.id:
            captions = held[1].captions + example.captions
            held = (held[0], replace(held[1], captions=captions))
            continue
        if held is not None:
            yield held
        held = (where, example)
    if held is not None:
        yield held
