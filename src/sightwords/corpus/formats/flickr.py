"""Flickr8k and Flickr30k token files, with the official or Karpathy's splits.

    1000268201_693b08cb0e.jpg#0<TAB>A child in a pink dress is climbing up a set of stairs .

Copies in circulation have `@` for the tab, and Flickr8k one image called `...jpg.1`; both are
read. Official splits are lists of image names, one file per split, found beside the token file
(`Flickr_8k.trainImages.txt`, `...devImages.txt`, `...testImages.txt`) or in the folder given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sightwords.corpus.folder import ImageFolder, first_folder, parent, stem
from sightwords.corpus.formats.karpathy import karpathy_splits
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.records import Located, Row, merged, with_images
from sightwords.corpus.sources import is_url, read_lines
from sightwords.errors import CorpusError
from sightwords.types import Example

TOKEN_LINE = re.compile(r"^(?P<name>[^\t#]*?)[#@](?P<number>\d+)(?:\t|@|[ ]|$)(?P<caption>.*)$")

IMAGE_FOLDERS = (
    "Flicker8k_Dataset",  # as the archive spells it
    "Flickr8k_Dataset",
    "Flickr8k_Dataset/Flicker8k_Dataset",
    "flickr30k-images",
    "flickr30k_images",
    "Images",
    "images",
)


def read_flickr(
    location: str,
    problems: Problems,
    *,
    images: str | None = None,
    splits: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[Located]:
    """Examples of a token file; `splits` is a folder of split files or a Karpathy JSON."""
    split_of = read_splits(splits or parent(location), problems, required=splits is not None)
    rows = partial(_rows, location, split_of, encoding)
    folder = ImageFolder(images) if images is not None else None
    unseen = dict(split_of)
    for where, example in with_images(merged(rows, problems), folder, problems):
        unseen.pop(example.id, None)
        yield where, example
    dataset = dataset_in_name(location)
    for image_id, split in unseen.items():
        if folder is None or folder.find(image_id) is not None:  # else it was reported missing
            yield f"split {split!r} of {location}", Example(image_id, None, (), split, dataset)


def guess_images(location: str) -> str | None:
    """The folder the archives unpack to, beside the token file or next door."""
    if is_url(location):
        return None
    base = Path(parent(location)).resolve()
    return first_folder(str(base), IMAGE_FOLDERS) or first_folder(str(base.parent), IMAGE_FOLDERS)


def read_splits(location: str, problems: Problems, *, required: bool = True) -> dict[str, str]:
    """Split of each image id: from a Karpathy JSON, or a folder of official split files."""
    if location.removesuffix(".gz").endswith(".json"):
        return karpathy_splits(location, problems)
    if is_url(location) or not Path(location).is_dir():
        if required:
            raise CorpusError(
                f"{location}: is neither a folder of split files nor a Karpathy JSON; "
                "give the folder of Flickr_8k.trainImages.txt, or dataset_flickr8k.json"
            )
        return {}
    split_of: dict[str, str] = {}
    for path in sorted(Path(location).glob("*.txt")):
        split = _split_file(path.name, required=required)
        for _, line in read_lines(str(path), problems) if split else ():
            if line.strip():
                split_of[flickr_id(line.strip())] = split
    if required and not split_of:
        raise CorpusError(
            f"{location}: has no split file; expected names such as Flickr_8k.trainImages.txt, "
            "or train.txt, val.txt and test.txt"
        )
    return split_of


def _split_file(name: str, *, required: bool) -> str:
    """The split a file lists: by the official name; `train.txt` only in a folder named for it."""
    official = re.match(r"^Flickr_?\d+k\.(train|dev|val|test)Images\.txt$", name, re.IGNORECASE)
    if official:
        return official[1].lower()
    plain = re.match(r"^(train|dev|val|test)\.txt$", name) if required else None
    return plain[1] if plain else ""


def flickr_id(name: str) -> str:
    """An image's id: its name without ending.

    >>> flickr_id("1000268201_693b08cb0e.jpg"), flickr_id("2258277193_586949ec62.jpg.1")
    ('1000268201_693b08cb0e', '2258277193_586949ec62')
    """
    return re.sub(r"\.(jpe?g|png)(\.\d+)?$", "", name, flags=re.IGNORECASE)


def dataset_in_name(location: str) -> str:
    """`flickr8k` or `flickr30k` where the path tells, else the file's stem."""
    if "results_20130124" in location:  # the name of Flickr30k's token file
        return "flickr30k"
    named = re.search(r"flick(?:e)?r_?(\d+)k", location.lower())
    return f"flickr{named[1]}k" if named else stem(location)


def _rows(
    location: str, split_of: dict[str, str], encoding: str, problems: Problems
) -> Iterator[Row]:
    dataset = dataset_in_name(location)
    for number, line in read_lines(location, problems, encoding=encoding):
        where = f"{location}:{number}"
        if not line.strip():
            continue
        matched = TOKEN_LINE.match(line)
        if matched is None:
            problems.add(Kind.MALFORMED_RECORD, where, f"expected NAME.jpg#0, got {line[:40]!a}")
        elif not matched["name"].strip():
            problems.add(Kind.CAPTION_WITHOUT_IMAGE, where, "a caption without an image name")
        else:
            name = matched["name"].strip()
            image_id = flickr_id(name)
            split = split_of.get(image_id, "")
            yield Row(where, image_id, name, (matched["caption"],), split, dataset)
