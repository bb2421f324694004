"""COCO caption files: `captions_val2014.json` beside a folder of images, of 2014 or 2017.

    {"images": [{"id": 9, "file_name": "COCO_val2014_000000000009.jpg", ...}, ...],
     "annotations": [{"image_id": 9, "caption": "A dog."}, ...]}

The two releases name the same image `COCO_val2014_000000000009.jpg` and `000000000009.jpg`;
either folder serves either file. An example's id is the number in 12 digits, as in 2017.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sightwords.corpus.folder import ImageFolder, first_folder, parent, stem
from sightwords.corpus.formats.json_items import walk
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.records import Located, text_of
from sightwords.corpus.sources import is_url, read_text
from sightwords.types import Example


@dataclass(slots=True)
class _Contents:
    """The two arrays of the file, joined by image id."""

    names: dict[str, str] = field(default_factory=dict)
    captions: dict[str, list[str]] = field(default_factory=dict)


def read_coco(
    location: str, problems: Problems, *, images: str | None = None, encoding: str = "utf-8"
) -> Iterator[Located]:
    """Examples of a caption file, in the order of its `images`; text when there is no folder."""
    contents = _load(location, problems, encoding)
    folder = ImageFolder(images) if images is not None else None
    split = split_in_name(stem(location))
    for image_id, name in contents.names.items():
        where = f"{location} image {image_id}"
        image = None
        if folder is not None:
            image = folder.image(*coco_names(image_id, name))
            if image is None:
                problems.add(Kind.MISSING_IMAGE, where, f"no {name or image_id!r} in {folder.root}")
                continue
        captions = tuple(contents.captions.get(image_id, ()))
        yield where, Example(image_id, image, captions, split, "coco")


def guess_images(location: str) -> str | None:
    """Where COCO's archives unpack to: `captions_val2014.json` -> `val2014` here or next door."""
    matched = re.search(r"(train|val|test)20\d\d", stem(location))
    if matched is None or is_url(location):
        return None
    places = [".", "images", "..", "../images"]
    base = str(Path(parent(location)).resolve())
    return first_folder(base, [f"{place}/{matched[0]}" for place in places])


def coco_id(value: object) -> str:
    """COCO's number as the 12 digits of its 2017 file names; other ids as they are.

    >>> coco_id(9), coco_id("9"), coco_id("cat.1")
    ('000000000009', '000000000009', 'cat.1')
    """
    text = text_of(value)
    return text.zfill(12) if text.isdecimal() else text


def coco_names(image_id: str, name: str) -> tuple[str, ...]:
    """File names an image may have: as written, then as the 2017 and 2014 releases name it."""
    years = [f"COCO_{split}2014_{image_id}.jpg" for split in ("val", "train")]
    return tuple(filter(None, [name, f"{image_id}.jpg", *years]))


def split_in_name(name: str) -> str:
    """The split that a file name tells, or ``.

    >>> split_in_name("captions_val2014"), split_in_name("my-training-set")
    ('val', '')
    """
    found = re.search(r"(?<![a-z])(train|val|dev|test)(?![a-z])", name.lower())
    return found[1] if found else ""


def _load(location: str, problems: Problems, encoding: str) -> _Contents:
    contents = _Contents()
    for key, where, item in walk(read_text(location, encoding=encoding), location, problems):
        if key == "images":
            _add_image(contents, where, item, problems)
        elif key == "annotations":
            _add_caption(contents, where, item, problems)
    for image_id in contents.captions.keys() - contents.names.keys():
        count = len(contents.captions[image_id])
        problems.add(
            Kind.CAPTION_WITHOUT_IMAGE,
            f"{location} image {image_id}",
            f"{count} caption(s) for an image that is not among 'images'",
        )
    return contents


def _add_image(contents: _Contents, where: str, item: object, problems: Problems) -> None:
    image_id = coco_id(item.get("id")) if isinstance(item, dict) else ""
    if not image_id or not isinstance(item, dict):
        problems.add(Kind.MALFORMED_RECORD, where, "an image without an id")
    elif image_id in contents.names:
        problems.add(Kind.DUPLICATE_ID, where, f"image {image_id} was there before")
    else:
        contents.names[image_id] = text_of(item.get("file_name"))


def _add_caption(contents: _Contents, where: str, item: object, problems: Problems) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("caption"), str):
        problems.add(Kind.MALFORMED_RECORD, where, "an annotation without a 'caption' of text")
    elif not (image_id := coco_id(item.get("image_id"))):
        problems.add(Kind.CAPTION_WITHOUT_IMAGE, where, "an annotation without an 'image_id'")
    else:
        contents.captions.setdefault(image_id, []).append(item["caption"])
