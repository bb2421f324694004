"""Karpathy's split files: `dataset_coco.json`, `dataset_flickr8k.json`, `dataset_flickr30k.json`.

    {"images": [{"filepath": "val2014", "filename": "COCO_val2014_000000391895.jpg",
                 "cocoid": 391895, "split": "test", "sentences": [{"raw": "A man ..."}]}, ...],
     "dataset": "coco"}

Splits are given as written: `train`, `restval` (the rest of COCO val, usually trained on as
well), `val`, `test`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sightwords.corpus.folder import ImageFolder, stem
from sightwords.corpus.formats.coco import coco_id, coco_names
from sightwords.corpus.formats.json_items import walk
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.records import Located, captions_of, text_of
from sightwords.corpus.sources import read_text
from sightwords.types import Example


def read_karpathy(
    location: str, problems: Problems, *, images: str | None = None, encoding: str = "utf-8"
) -> Iterator[Located]:
    """Examples of a Karpathy file, in its order; text when no image folder is given."""
    text = read_text(location, encoding=encoding)
    dataset = _dataset(text, location)
    folder = ImageFolder(images) if images is not None else None
    for where, item in _images(text, location, problems):
        names = _names(item)
        image = None
        if folder is not None:
            image = folder.image(*names)
            if image is None:
                problems.add(Kind.MISSING_IMAGE, where, f"no {names[0]!r} in {folder.root}")
                continue
        captions = _captions(where, item, problems)
        yield where, Example(_id(item), image, captions, text_of(item.get("split")), dataset)


def karpathy_splits(
    location: str, problems: Problems, *, encoding: str = "utf-8"
) -> dict[str, str]:
    """Split of each image by its id, for reading captions from another file."""
    text = read_text(location, encoding=encoding)
    return {_id(item): text_of(item.get("split")) for _, item in _images(text, location, problems)}


def _images(text: str, location: str, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, where, item in walk(text, location, problems):
        if key != "images":
            continue
        if isinstance(item, dict) and text_of(item.get("filename")):
            yield where, item
        else:
            problems.add(Kind.MALFORMED_RECORD, where, "an image without a 'filename'")


def _id(item: dict[str, Any]) -> str:
    return coco_id(item["cocoid"]) if "cocoid" in item else stem(item["filename"])


def _names(item: dict[str, Any]) -> tuple[str, ...]:
    name, folder = item["filename"], text_of(item.get("filepath"))
    names = (f"{folder}/{name}", name) if folder else (name,)
    return names + coco_names(_id(item), "") if "cocoid" in item else names


def _captions(where: str, item: dict[str, Any], problems: Problems) -> tuple[str, ...]:
    sentences = item.get("sentences")
    raw = [s.get("raw") if isinstance(s, dict) else s for s in sentences or ()]
    captions = captions_of(raw)
    if captions is None:
        problems.add(Kind.MALFORMED_RECORD, where, "a sentence without 'raw' text")
        return tuple(caption for caption in raw if isinstance(caption, str))
    return captions


def _dataset(text: str, location: str) -> str:
    """The top-level `dataset`, which stands behind the images; else the file's name."""
    named = re.search(r'"dataset"\s*:\s*"([^"]+)"', text[-300:] + text[:300])
    return named[1] if named else stem(location).removeprefix("dataset_")
